"""The innermost loops, compiled.

Each has its oracle in NumPy in tests/kernels/oracles.py, gives the same bits, and takes a fourth of its time or less.
Loops release the interpreter's lock.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dedup.kernels.loops import blake2, folding, line_breaks, pairs, passages, projection, sets, templates, tokens

__all__ = ["blake2", "folding", "line_breaks", "pairs", "passages", "projection", "sets", "templates", "tokens"]


def __getattr__(name: str) -> ModuleType:
    """Import a module of loops when it is first used: with it comes Numba, a third of a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
