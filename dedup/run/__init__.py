"""A run from its input to its published output: the chain of stages, resumption, one run at a time, Spark's session."""
