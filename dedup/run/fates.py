"""What becomes of every row of the input: which go, why, and in whose favour."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.passes import Part
from dedup.kernels import Flags, Integers
from dedup.kernels.runs import find_bounds, rank

LAYER = "near"
SOURCES = 50
"""Sources counted on their own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fates:
    """Rows of the input that go, by their place among the features."""

    places: Integers
    """int64, ascending."""
    removals: pa.Table
    """One row for each: id, layer, kind, representative_id, component_id, jaccard."""

    @classmethod
    def of(cls, part: Part, members: pa.Table, repeated: Integers) -> Self:
        """Return the fates that members of components, and rows of equal content, have.

        Of equal rows, which share a document id, the first stays if their document does; the others go as its
        identical copies.

        Parameters
        ----------
        members
            MEMBERS.
        repeated
            Document ids of more than one row, int64, ascending.
        """
        is_duplicate = pc.not_equal(members["kind"], "kept").to_numpy(zero_copy_only=False)
        order = np.argsort(members["doc_id"].to_numpy())
        ordered = members["doc_id"].to_numpy()[order]
        member = _look_up(ordered, part.doc_ids)
        goes = np.zeros(part.doc_ids.size, dtype=bool)
        goes[member >= 0] = is_duplicate[order[member[member >= 0]]]
        further = _find_further(part.doc_ids, repeated)
        places = np.flatnonzero(goes | further)
        # A copy of a document that stays has no removal of its own.
        copied = ~goes[places]
        # There may be no member at all.
        rows = np.append(order, -1)[member[places]]
        known = members.take(pa.array(rows, mask=rows < 0))
        own = part.ids.take(pa.array(places))
        is_copy = pa.array(copied)
        table = pa.table(
            {
                "id": own,
                "layer": pa.array([LAYER] * places.size, pa.string()),
                "kind": pc.if_else(is_copy, "identical", known["kind"]),
                "representative_id": pc.if_else(is_copy, own, known["representative_id"]),
                "component_id": pc.coalesce(known["component_id"], pa.array(part.doc_ids[places])),
                "jaccard": pc.if_else(is_copy, 1.0, known["jaccard"]),
            }
        )
        return cls(places=places, removals=table)

    def flag(self, count: int) -> Flags:
        """Return which of so many rows go."""
        flags = np.zeros(count, dtype=bool)
        flags[self.places] = True
        return flags

    def by_file(self, part: Part) -> dict[int, Integers]:
        """Return the rows that go of every file that loses some, ascending."""
        files, rows = part.files[self.places], part.rows[self.places]
        bounds = find_bounds(files).tolist()
        return {int(files[begin]): rows[begin:end] for begin, end in pairwise(bounds)}

    def count_sources(self, part: Part) -> Mapping[str, Mapping[str, int]]:
        """Count documents and those kept of the SOURCES largest sources, and of all others together."""
        kept = pa.array(~self.flag(part.doc_ids.size)).cast(pa.int64())
        table = pa.table({"source": part.sources, "kept": kept}).group_by("source")
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
