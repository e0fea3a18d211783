"""Process that Spark forks the Python workers of tests from.

What a worker needs is in memory before the first fork, and is left out of garbage collection: Spark's own daemon
collects after each task, which takes a worker with the kernels and Numba in memory 70 ms. Nor are Spark's archives
listed again before each, 60 ms. A run has some hundred tasks and gains nothing by that; tests have thousands.
"""

import gc
import zipimport
from typing import Any

from pyspark import daemon

from dedup.run import pipeline  # noqa: F401 - and whatever else a task is made of

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    patched: Any = zipimport.zipimporter
    patched.invalidate_caches = lambda _: None
    daemon.manager()  # type: ignore[no-untyped-call]
