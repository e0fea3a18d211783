"""The process that Spark forks its Python workers from, where the session is one of this machine (see `session`).

What every worker needs is there before the first fork, and no garbage is looked for in it: Spark's own daemon collects
garbage after each task, which takes 70 ms in a worker that has the kernels and Numba in memory. Nor is the list of what
is in Spark's archives read again before each task, which takes 60 ms, since they do not change.
"""

import gc
import zipimport

import pyarrow as pa
from pyspark import daemon
from pyspark.sql.pandas import serializers  # noqa: F401 - and pandas with it

from dedup.kernels import features, representatives  # noqa: F401
from dedup.kernels.sets import jaccard, lsh, minhash, pairs  # noqa: F401
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.run import pipeline  # noqa: F401 - and whatever else a task is made of


def warm() -> None:
    """Load the compiled loops of the signatures, and take all that is in memory for lasting."""
    features.compute(pa.array(["a b c"]), UnicodeWords(), shingle_size=2, bands=2, rows=2, seed=1)
    gc.collect()
    gc.freeze()
    zipimport.zipimporter.invalidate_caches = _keep  # type: ignore[assignment, method-assign]


def _keep(_: zipimport.zipimporter) -> None:
    """Do nothing."""


if __name__ == "__main__":
    warm()
    daemon.manager()  # type: ignore[no-untyped-call]
