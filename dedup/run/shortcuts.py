"""Optional file: shortcuts to the start of processes, without which everything works, later.

`dedup run` in memory gains the import of pandas in each process, .3 s of a processor; Spark on this machine gains
130 ms a Python task, what each worker would load by itself, a second of Java's, and what the driver loads while Java
starts (docs/internals/tried.md has the figures).
"""

import contextlib
import gc
import os
import sys
import zipimport
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa

FIRST_JARS = (
    *("spark-catalyst", "scala-library", "spark-core", "scala-reflect", "spark-sql-api", "spark-sql", "log4j-core"),
    *("jackson-databind", "parquet-column", "hadoop-client-api", "parquet-jackson", "janino", "arrow-vector"),
    *("parquet-encoding", "hadoop-client-runtime", "spark-network-common", "parquet-format-structures"),
    *("netty-common", "parquet-hadoop", "spark-common-utils"),
)
"""Jars of Spark by the number of classes that a run loads from each."""


class _Blocked:
    """Finder that comes before others and knows of no pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def block_pandas() -> None:
    """Let pyarrow do without pandas in this process and those forked from it, which are a command's.

    To know its values among NumPy's and Python's, pyarrow imports pandas, where it is installed, with the first array
    of each kind. It asks no second time, and others import it as ever.
    """
    if "pandas" not in sys.modules:
        blocked = _Blocked()
        sys.meta_path.insert(0, blocked)
        for values in (np.empty(0), [0]):
            pa.array(values)
        sys.meta_path.remove(blocked)


def choose_class_path() -> dict[str, str]:
    """Return a setting of Spark by which Java looks for each class in FIRST_JARS first.

    It looks into one jar after another, of which Spark has nearly 300, in the order in which the disk lists them. An
    installation that is not PySpark's own may have a class path of its own.
    """
    import pyspark  # noqa: PLC0415 - a run in memory has no Spark

    if {"SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys():
        return {}
    folder = Path(pyspark.__file__).parent / "jars"
    found = [str(path) for name in FIRST_JARS for path in sorted(folder.glob(f"{name}[_-][0-9]*.jar"))]
    return {"spark.driver.extraClassPath": os.pathsep.join(found)}


def load_ahead() -> Thread:
    """Begin to load what the driver of a run needs later, in a thread, while Java starts."""
    loading = Thread(target=_load, name="loading", daemon=True)
    loading.start()
    return loading


def _load() -> None:
    # Whatever is wrong shows, and is said in a line, where it is needed.
    with contextlib.suppress(Exception):
        from dedup.kernels import components, curve  # noqa: PLC0415 - a run in memory loads these when it needs them
        from dedup.kernels.text.unicode_words import UnicodeWords  # noqa: PLC0415
        from dedup.run import pipeline  # noqa: F401, PLC0415

        curve.least_estimate(0.8, 126, 4)
        components.connect(np.zeros(1, np.int64), np.ones(1, np.int64))
        UnicodeWords().hash(pa.array(["a b"]))


def serve() -> None:
    """Be the process that Spark forks its Python workers from.

    What a worker needs is in memory before the first fork, and is left out of garbage collection: Spark's own daemon
    collects after each task, which takes a worker with the kernels and Numba in memory 70 ms. Nor are Spark's archives
    listed again before each task, which takes Python before 3.12 60 ms.
    """
    from pyspark import daemon  # noqa: PLC0415 - a run in memory has no Spark
    from pyspark.sql.pandas import serializers  # noqa: F401, PLC0415 - and pandas with it

    from dedup.kernels.sets import filters, jaccard, shingles  # noqa: PLC0415 - as above
    from dedup.kernels.text.unicode_words import UnicodeWords  # noqa: PLC0415
    from dedup.layers.near import signing  # noqa: PLC0415
    from dedup.run import pipeline  # noqa: F401, PLC0415 - and whatever else a task is made of

    words = UnicodeWords()
    signing.warm(signing.Signing(tokenizer=words, shingle_size=2, bands=2, rows=3, signature_seed=1, sample_share=0.0))
    sets = shingles.shingle(*words.hash(pa.array(["a b c", "a b d"])), 2, words)
    one, other = np.array([0]), np.array([1])
    jaccard.jaccard(*sets, one, other)
    filters.estimate_pairs(np.zeros((2, 6), np.uint8), one, other)
    gc.collect()
    gc.freeze()
    patched: Any = zipimport.zipimporter
    patched.invalidate_caches = lambda _: None
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    serve()
