"""Remove near-duplicate documents from a text corpus: scripts/dedup --input PATH --output DIR, or by spark-submit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
