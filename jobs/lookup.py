"""Say of documents whether a store has them already: scripts/lookup S --input FILE."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli.lookup import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
