"""The job with one cell for all vectors, so that all are compared with all: python -m tests.bench_brute ARGUMENTS."""

import sys

from dedup.cli import main
from dedup.layers.semantic import cells

if __name__ == "__main__":
    cells.ONE_CELL = sys.maxsize
    sys.exit(main(["run", *sys.argv[1:]]))
