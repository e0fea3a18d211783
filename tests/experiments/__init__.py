"""What the literature of MinHash promises, measured: scripts/measured --repeat estimates skew probes.

Nothing here is of the product. Each module measures into a value that docs/measured.json keeps, and writes its tables.
"""
