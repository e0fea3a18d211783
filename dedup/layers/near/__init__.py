"""The layer of near-duplicates: documents whose shingle sets reach the threshold of Jaccard similarity."""
