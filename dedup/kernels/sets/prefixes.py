"""Sizes of prefixes of sets, by which sets are searched that share enough."""

ROUNDING = 1e-9
"""Tolerance that keeps a product such as 0.8 x 5 = 4.000000000000001 from asking for one element too many."""
