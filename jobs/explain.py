"""Say why a document was removed or kept, from the output of a run alone: `dedup explain` for spark-submit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli import main

if __name__ == "__main__":
    sys.exit(main(["explain", *sys.argv[1:]]))
