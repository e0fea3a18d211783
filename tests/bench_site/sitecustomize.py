"""Lets no Python process of a measured command ignore that its children end; Python imports this by its name.

The processor seconds of a child that its parent ignores are in nobody's count, and the parent of Spark's Python workers
does so. They stay where they ended until it ends itself, and whoever measures waits for them.
"""

# ruff: noqa: INP001 - a folder on the path, no package
import signal

_set = signal.signal


def _set_but_ignore_no_child(number, handler):  # type: ignore[no-untyped-def]
    if (number, handler) == (signal.SIGCHLD, signal.SIG_IGN):
        return signal.getsignal(number)
    return _set(number, handler)


signal.signal = _set_but_ignore_no_child
