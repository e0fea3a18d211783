"""Classes of code points, which decide the extent of a token."""

from functools import cache
from importlib.resources import files

import numpy as np

from dedup.kernels import Bytes

SEPARATOR, WORD, MARK, UNSPACED, UNSPACED_MARK = range(5)


@cache
def unicode_classes() -> Bytes:
    """Return the class of every code point, from `unicode_classes.txt`; uint8 [0x110000]."""
    numbers = {"word": WORD, "mark": MARK, "unspaced": UNSPACED, "unspaced_mark": UNSPACED_MARK}
    classes = np.zeros(0x110000, dtype=np.uint8)
    for line in files(__package__).joinpath("unicode_classes.txt").read_text("ascii").splitlines():
        if not line.startswith("#"):
            span, name = line.split()
            first, last = span.split("..")
            classes[int(first, 16) : int(last, 16) + 1] = numbers[name]
    return classes
