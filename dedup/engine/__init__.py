"""The verbs by which layers search, on one machine or on Spark."""
