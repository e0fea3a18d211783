"""Choose bands and rows by what they are to find, and see what a run will take: `dedup plan` for spark-submit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli import main

if __name__ == "__main__":
    sys.exit(main(["plan", *sys.argv[1:]]))
