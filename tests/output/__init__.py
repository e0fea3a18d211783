"""Decisions of rows, and what is written of them."""
