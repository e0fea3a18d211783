"""Near-duplicate removal for text corpora on Apache Spark, exact where it removes and the same on every run."""

__version__ = "0.1.0"
