"""Look after a store of signatures: scripts/store history|check|compact|vacuum|delete S."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli.store import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
