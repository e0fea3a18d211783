"""A copy of parquet files by pyarrow, a process for each core: python -m tests.bench_copy INPUT OUTPUT.

The least that a job in memory could do, with the compression that the job writes.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import pyarrow.parquet as pq


def copy(source: Path, target: Path) -> None:
    """Read a file and write it again."""
    pq.write_table(pq.read_table(source, use_threads=False), target / source.name, compression="zstd")


def main() -> None:
    """Copy the files of a folder."""
    source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(copy, sorted(source.iterdir()), repeat(target)))


if __name__ == "__main__":
    main()
