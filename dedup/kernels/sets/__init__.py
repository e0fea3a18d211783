"""Sets of shingle hashes: signatures, band keys, pairs, and exact comparison."""
