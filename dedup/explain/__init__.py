"""Explanations of single documents, read from the output of a run alone."""
