"""The stages, one file per table: DataFrames in, one table with a schema of `dedup.tables.schemas` out."""
