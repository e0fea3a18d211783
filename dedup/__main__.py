"""The command `dedup`, as installed and as `python -m dedup`."""

import sys

INTERRUPTED = 130
"""Exit status after Ctrl-C."""


def main() -> int:
    """Run the command; Ctrl-C while its modules are imported ends it in one line, as any later one does."""
    try:
        from dedup.cli import main as run  # noqa: PLC0415 - as said

        return run()
    except KeyboardInterrupt:
        print("dedup: interrupted", file=sys.stderr)  # noqa: T201 - as in dedup/cli
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
