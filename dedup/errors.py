"""Errors that a user can act on.

::

    DedupError
    ├── ConfigError (also a ValueError)
    ├── SchemaError
    ├── DataError
    ├── StorageError
    ├── ComponentError
    ├── CapacityError
    ├── FinishedError
    └── AlertError

Jobs print the message of a `DedupError` as one line and exit 2, of an `AlertError` 3, of a `FinishedError` 0; anything
else is a fault of the program, shown with its traceback.
"""

import difflib
from collections import abc

NO_DOCUMENT = "--input: must hold at least one document (it has none)"
"""Message about an input that is there, and empty."""


class DedupError(Exception):
    """Base of all errors that this package raises on purpose."""


class ConfigError(DedupError, ValueError):
    """A setting is unknown, malformed or out of range."""


class SchemaError(DedupError):
    """The input lacks a column, or a column has a type that the job cannot use."""


class DataError(DedupError):
    """The rows themselves break a rule, such as null or repeated ids or an empty input."""


class StorageError(DedupError):
    """A path cannot be read or written as asked, such as an output that already exists."""


class ComponentError(DedupError):
    """The connected components are unavailable or contradict the edges they were computed from."""


class CapacityError(DedupError):
    """One process lacks the memory for a search; Spark's tasks make it in parts."""


class FinishedError(DedupError):
    """The output of this very run is there already: nothing is to be done, and nothing was."""


class AlertError(DedupError):
    """A measurement is beyond a limit of [alerts], and nothing was published."""


def suggest(value: str, known: abc.Iterable[str]) -> str:
    """Return the known name most like a wrong one, as the end of a message; empty where none is like it."""
    spelled = {each.lower(): each for each in known}
    found = [spelled[each] for each in difflib.get_close_matches(value.lower(), spelled, n=1)]
    return f"; did you mean {found[0]}?" if found and found[0] != value else ""
