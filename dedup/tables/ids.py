"""Errors about ids, worded once for all engines."""

from collections.abc import Sequence

from dedup.errors import DataError

SHOWN = 5
"""Offending ids shown in an error."""
SHOWN_LENGTH = 40
"""Characters shown of a text."""


def refuse_null(nulls: int, begins: Sequence[str], *, id_column: str) -> DataError:
    """Return the error for ids that are null.

    Parameters
    ----------
    nulls
        Number of null ids.
    id_column
        Empty where ids are of documents of which a row is a part.
    begins
        Beginnings of the texts of some of their documents, at most SHOWN of SHOWN_LENGTH characters.
    """
    shown = ", ".join(map(repr, begins))
    where = f"input.id_column: column {id_column!r}" if id_column else "input.part_of: the column"
    return DataError(
        f"{where} must not be null (got {nulls:,} nulls; their texts begin {shown}); fill them in or set another column"
    )


def refuse_collision(one: str) -> DataError:
    """Return the error for an id that equals the hash of another, so that it cannot have a document id of its own."""
    return DataError(
        f"input.id_column: id {one!r} has the 64-bit hash of another id; change it, set input.id_column to an integer "
        "column, or copy the input to a disk of this machine, where this is no fault"
    )


def refuse_repeated(count: int, shown: Sequence[tuple[str | int, int]], *, id_column: str) -> DataError:
    """Return the error for ids of more than one row.

    Parameters
    ----------
    count
        Number of repeated ids.
    shown
        The least of them, at most SHOWN, each with its number of rows.
    """
    named = ", ".join(f"{user_id!r} ({copies:,} rows)" for user_id, copies in shown)
    return DataError(
        f"input.id_column: column {id_column!r} must be unique (got {count:,} repeated ids: {named}); "
        "set another column, or none to take equal rows for one document"
    )


def refuse_labels(given: int) -> DataError:
    """Return the error for labelled pairs of duplicates, none of which has both documents where near searches."""
    return DataError(
        "evaluation.labeled_pairs: must hold duplicates of the input "
        f"(got {given:,}, none with both documents among those that the layer near searches)"
    )
