"""The import of pandas, which pyarrow tries and can do without."""

import sys

import numpy as np
import pyarrow as pa


class _Blocked:
    """Finder that comes before others and knows of no pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def block_pandas() -> None:
    """Let pyarrow do without pandas in this process, which is a command's.

    To know its values among NumPy's and Python's, pyarrow imports it, where it is installed, with the first array of
    each: a third of a second. It asks no second time, and others import it as ever.
    """
    if "pandas" not in sys.modules:
        blocked = _Blocked()
        sys.meta_path.insert(0, blocked)
        pa.array(np.empty(0))
        pa.array([0])
        sys.meta_path.remove(blocked)
