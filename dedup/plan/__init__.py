"""Choosing bands and rows, and what a run will take: arithmetic before any Spark."""
