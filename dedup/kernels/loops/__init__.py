"""The innermost loops, compiled where Numba is installed.

Each has its oracle in NumPy in the module that calls it, gives the same bits, and takes a fourth of its time or less.
They let go of the interpreter's lock. Numba keeps what it compiled beside these files, or in the user's cache folder
where that cannot be written. Whoever imports them imports Numba, so kernels do it when first called.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile the function when it is first called."""
    try:
        return cast("Function", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # A service account may have no folder to keep compiled code in; then each worker takes seconds to compile.
        return cast("Function", numba.njit(nogil=True)(function))
