"""Source and sink of files: listed, cut into splits, read and written by pyarrow, without Spark."""
