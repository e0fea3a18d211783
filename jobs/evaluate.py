"""Measure how well settings find the duplicates of a corpus, and compare two: scripts/evaluate --input PATH --exact."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli.evaluate import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
