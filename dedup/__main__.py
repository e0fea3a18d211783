"""The command `dedup` as `python -m dedup`."""

import sys

from dedup.cli import main

if __name__ == "__main__":
    sys.exit(main())
