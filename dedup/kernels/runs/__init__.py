"""Sorted columns of numbers: runs of equal values, groups and spans."""
