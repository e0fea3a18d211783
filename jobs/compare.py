"""Say how much of each snapshot of a corpus is in each other: `dedup compare` for spark-submit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli import main

if __name__ == "__main__":
    sys.exit(main(["compare", *sys.argv[1:]]))
