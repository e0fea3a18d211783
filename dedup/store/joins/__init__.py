"""A batch that meets a store by joins of Spark: what `adding`, `growth` and `election` do in memory, as tables."""
