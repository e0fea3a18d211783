"""Say why a document was removed or kept, from the output of a run alone: scripts/explain OUT --id X, or --top N."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dedup.cli.explain import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
