"""Vectors of documents: validity, neighbours, cosines."""
