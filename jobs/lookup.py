"""Say of documents whether a store has them already: `dedup lookup` for spark-submit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli import main

if __name__ == "__main__":
    sys.exit(main(["lookup", *sys.argv[1:]]))
