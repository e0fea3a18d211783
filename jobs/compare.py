"""Say how much of each snapshot of a corpus is in each other: scripts/compare --against A --against B."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli.compare import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
