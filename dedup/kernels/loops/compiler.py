"""The compiler of loops. Numba keeps the results beside the sources, or in the user's cache folder where it cannot."""

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
