"""Layers: one kind of duplication each, and its search."""
