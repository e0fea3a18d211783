"""Filter of one profile's documents, by the columns that are read along."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


class Condition(NamedTuple):
    """Column and the values that meet the condition; a null never does."""

    place: int
    """Place of the column in the lists `merged`."""
    values: tuple[str, ...]


class ProfileFilter(NamedTuple):
    """Filter of one profile's documents: the first profile whose conditions all hold."""

    conditions: Sequence[Sequence[Condition]]
    """Conditions of each profile, in their order."""
    number: int
    """Number of the profile; the default profile, for documents that meet no conditions, is the last."""

    def apply(self, documents: pa.RecordBatch) -> pa.RecordBatch:
        """Return the documents of the profile."""
        return documents.filter(pa.array(number_profiles(documents["merged"], self.conditions) == self.number))


def number_profiles(merged: pa.Array, conditions: Sequence[Sequence[Condition]]) -> NDArray[np.int64]:
    """Return the profile number of each document; int64.

    Parameters
    ----------
    merged
        Lists of the values read along, as strings.
    """
    found = np.full(len(merged), len(conditions))
    for number, each in reversed([*enumerate(conditions)]):
        holds = np.ones(len(merged), dtype=bool)
        for place, values in each:
            column = pc.list_element(merged, place)
            holds &= pc.is_in(column, pa.array(values, column.type)).to_numpy(zero_copy_only=False)
        found[holds] = number
    return found
