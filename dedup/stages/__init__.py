"""The stages, one file per table: DataFrames in, one DataFrame with a schema of `dedup.schemas` out."""
