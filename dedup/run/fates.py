"""What becomes of every row of the input: which go, why, and in whose favour."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.values import Register
from dedup.kernels import Flags, Integers
from dedup.kernels.runs.bounds import find_bounds, rank

SOURCES = 50
"""Sources counted on their own."""


class Repeated(NamedTuple):
    """Rows of equal content, of which each but the first goes."""

    doc_ids: Integers
    """Document ids of more than one row, int64, ascending."""
    layer: str
    kind: str
    members: pa.Table
    """doc_id and component_id of documents that stay for others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fates:
    """Rows of the input that go, by their place among the features."""

    places: Integers
    """int64, ascending."""
    removals: pa.Table
    """One row for each: id, layer, kind, representative_id, component_id, jaccard."""

    @classmethod
    def of(cls, register: Register, removals: pa.Table, repeated: Repeated) -> Self:
        """Return the fates of documents that are removed, and of rows of equal content.

        Of equal rows, which share a document id, the first stays if their document does; the others go as its copies.

        Parameters
        ----------
        removals
            REMOVALS.
        """
        order = np.argsort(removals["doc_id"].to_numpy())
        ordered = removals["doc_id"].to_numpy()[order]
        member = _look_up(ordered, register.doc_ids)
        goes = member >= 0
        places = np.flatnonzero(goes | _find_further(register.doc_ids, repeated.doc_ids))
        # A copy of a document that stays has no removal of its own.
        copied = ~goes[places]
        # There may be no removal at all.
        rows = np.append(order, -1)[member[places]]
        known = removals.take(pa.array(rows, mask=rows < 0))
        own = register.ids.take(pa.array(places))
        is_copy = pa.array(copied)
        doc_ids = pa.array(register.doc_ids[places])
        found = pc.index_in(doc_ids, repeated.members["doc_id"].combine_chunks())
        components = pc.coalesce(repeated.members["component_id"].take(found), own)
        table = pa.table(
            {
                "id": own,
                "layer": pc.if_else(is_copy, repeated.layer, known["layer"]),
                "kind": pc.if_else(is_copy, repeated.kind, known["kind"]),
                "representative_id": pc.if_else(is_copy, own, known["representative_id"]),
                "component_id": pc.if_else(is_copy, components, known["component_id"]),
                "jaccard": pc.if_else(is_copy, 1.0, known["jaccard"]),
            }
        )
        return cls(places=places, removals=table)

    def flag(self, count: int) -> Flags:
        """Return which of so many rows go."""
        flags = np.zeros(count, dtype=bool)
        flags[self.places] = True
        return flags

    def by_file(self, register: Register) -> dict[int, Integers]:
        """Return the rows that go of every file that loses some, ascending."""
        files, rows = register.files[self.places], register.rows[self.places]
        bounds = find_bounds(files).tolist()
        return {int(files[begin]): rows[begin:end] for begin, end in pairwise(bounds)}

    def count_sources(self, register: Register) -> Mapping[str, Mapping[str, int]]:
        """Count documents and those kept of the SOURCES largest sources, and of all others together."""
        kept = pa.array(~self.flag(register.doc_ids.size)).cast(pa.int64())
        table = pa.table({"source": register.sources, "kept": kept}).group_by("source")
        sums = table.aggregate([("kept", "count"), ("kept", "sum")]).to_pylist()
        ordered = sorted(sums, key=lambda row: (-row["kept_count"], row["source"] is not None, row["source"] or ""))
        found: dict[str, dict[str, int]] = {}
        for number, row in enumerate(ordered):
            name = "(others)" if number >= SOURCES else "(none)" if row["source"] is None else row["source"]
            counted = found.setdefault(name, {"documents": 0, "kept": 0})
            counted["documents"] += row["kept_count"]
            counted["kept"] += row["kept_sum"]
        return dict(sorted(found.items(), key=lambda item: (item[0] == "(others)", -item[1]["documents"], item[0])))


def _look_up(ordered: Integers, wanted: Integers) -> Integers:
    """Return where each value stands among ascending ones, -1 where it is missing."""
    places = np.minimum(np.searchsorted(ordered, wanted), max(ordered.size - 1, 0))
    if not ordered.size:
        return np.full(wanted.size, -1)
    return np.where(ordered[places] == wanted, places, -1)


def _find_further(doc_ids: Integers, repeated: Integers) -> Flags:
    """Return which rows are the second or a further one of their document."""
    further = np.zeros(doc_ids.size, dtype=bool)
    if repeated.size:
        rows = np.flatnonzero(np.isin(doc_ids, repeated))
        order = rows[np.argsort(doc_ids[rows], kind="stable")]
        further[order[rank(doc_ids[order]) > 0]] = True
    return further
