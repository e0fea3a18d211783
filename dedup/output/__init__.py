"""Decisions of rows -> the files or rows that a run writes, and the tables that explain them."""
