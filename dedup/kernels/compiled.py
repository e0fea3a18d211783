"""Whether the innermost loops can be compiled."""

from importlib.util import find_spec

AVAILABLE = find_spec("numba") is not None
"""Kernels import `dedup.kernels.loops` where they call it: Numba takes a third of a second to import."""
