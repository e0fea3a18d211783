"""Choose bands and rows by what they are to find, and see what a run will take: scripts/plan --recall 0.99@0.8."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli.plan import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
