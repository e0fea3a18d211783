"""The compiler of loops. Numba keeps the results beside the sources, or in the user's cache folder where it cannot."""

import logging
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from typing import Any, TypeVar, cast

import numba
from numba.core import event

LOG = logging.getLogger("dedup")
Function = TypeVar("Function", bound=Callable[..., Any])
_OWN, _CONSTANTS = files(__package__), files("dedup.kernels").joinpath("hashing.py")
_SOURCES = sorted((each.name, each.read_bytes()) for each in (*_OWN.iterdir(), _CONSTANTS) if each.name.endswith(".py"))
DIGEST = sha256(repr(_SOURCES).encode()).hexdigest()[:8]
"""Digest of all loops and of the constants that they hold; hexadecimal."""


class _Telling(event.Listener):
    """Teller of the first compilation in a process; what was kept is loaded, which is none."""

    def __init__(self) -> None:
        self.has_told = False

    def on_start(self, _: event.Event) -> None:
        """Tell of the first one."""
        if not self.has_told:
            self.has_told = True
            LOG.info("compiling loops, once on this machine ...")

    def on_end(self, _: event.Event) -> None:
        """Tell nothing."""


event.register("numba:compile", _Telling())  # type: ignore[no-untyped-call] # numba has no types


def compiled(function: Function) -> Function:
    """Compile the function when it is first called."""
    # Numba names what it keeps by this, and looks only whether a function's own file has changed: what another version
    # has kept may hold loops of other files as they were, or names of modules that are gone.
    function.__qualname__ += f"_{DIGEST}"
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # A service account may have no folder to keep compiled code in; then each worker takes seconds to compile.
        return cast("Function", numba.njit(nogil=True)(function))
