"""Evaluation of settings on a sample of a corpus."""
