"""Labelled pairs of duplicates, and how many of them a search joins; labels are few."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Engine, Rows, look_up
from dedup.kernels import Flags, Integers
from dedup.kernels.confidence import SIMILARITY_BINS, measure_share
from dedup.kernels.ids import to_doc_ids
from dedup.tables.ids import refuse_labels


class Labels(NamedTuple):
    """Labelled pairs left <= right of the corpus, by the least document of each shingle set, perhaps repeated."""

    given: int
    """Labelled pairs of duplicates, those of other documents included."""
    left: Integers
    right: Integers
    compared: Flags
    """Flags of pairs of two shingle sets, neither of them empty."""

    @classmethod
    def of(cls, engine: Engine[Rows], labels: pa.Table, documents: Rows, identical: Rows) -> Self:
        """Return the labelled pairs whose documents the corpus has.

        Parameters
        ----------
        labels
            left_id and right_id of duplicates; an id that cannot be of the corpus is null.
        documents
            SIGNATURES.
        identical
            IDENTICAL.

        Raises
        ------
        DataError
            When there is none.
        """
        known = labels.select(["left_id", "right_id"]).drop_null()
        ends = np.stack([known[name].to_numpy() for name in known.column_names])
        size_of = look_up(engine, documents, "size", ends)
        held = np.isin(ends, np.array([*size_of], np.int64)).all(axis=0)
        if not held.any():
            raise refuse_labels(labels.num_rows)
        head_of = look_up(engine, identical, "set_id", ends)
        heads = np.array([[head_of.get(each, each) for each in side] for side in ends[:, held].tolist()], np.int64)
        full = np.array([[size_of[each] > 0 for each in side] for side in ends[:, held].tolist()], bool).all(axis=0)
        left, right = heads.min(axis=0), heads.max(axis=0)
        return cls(labels.num_rows, left, right, (left != right) & full)

    def list_compared(self) -> pa.Table:
        """Return the distinct pairs to be compared."""
        ends = np.unique(np.stack((self.left[self.compared], self.right[self.compared])), axis=1)
        return pa.table({"left_id": ends[0], "right_id": ends[1]})

    def measure_recall(self, engine: Engine[Rows], compared: pa.Table, components: Rows) -> Sequence[Mapping[str, Any]]:
        """Count the labelled pairs that are in one component, by similarity.

        Parameters
        ----------
        compared
            EDGES of `list_compared`, whatever their Jaccard.
        components
            COMPONENTS.

        Returns
        -------
        list of dict
            For each bin of similarity, SIMILARITY_BINS of equal width and one of identical sets, that holds any:
            `jaccard`, its mean; `pairs` and those `joined`; `recall`, the share of these, between `low` and `high` in
            95 of 100 samples.
        """
        columns = (compared[name].to_pylist() for name in ("left_id", "right_id", "jaccard"))
        exact = {(left, right): jaccard for left, right, jaccard in zip(*columns, strict=True)}
        ends = [*zip(self.left.tolist(), self.right.tolist(), strict=True)]
        # A document without a token resembles nothing, not even another such.
        similarities = np.array([1.0 if one == other else exact.get((one, other), 0.0) for one, other in ends])
        # Of two that an earlier layer took for one, near has seen one.
        joined = (self.left == self.right) | ~find_parted(engine, self.left, self.right, components)
        bins = np.floor(similarities * SIMILARITY_BINS).astype(np.int64)
        points = []
        for number in np.unique(bins).tolist():
            here = bins == number
            share = measure_share(np.array([np.count_nonzero(joined[here])]), np.array([np.count_nonzero(here)]))
            points.append(
                {
                    "jaccard": math.fsum(similarities[here].tolist()) / share.of,
                    "pairs": share.of,
                    "joined": share.count,
                    "recall": share.share,
                    "low": share.low,
                    "high": share.high,
                }
            )
        return points


def follow(engine: Engine[Rows], labels: pa.Table, removals: Rows) -> pa.Table:
    """Return labelled pairs with the document kept in the place of each that an earlier layer removes as its equal.

    Parameters
    ----------
    labels
        As for `Labels.of`.
    removals
        REMOVALS of earlier layers.
    """
    names = ["left_id", "right_id"]
    wanted = pc.unique(pa.chunked_array([chunk for name in names for chunk in labels[name].chunks], pa.int64()))
    found = engine.lookup(engine.select(removals, "doc_id", "representative_id", "jaccard"), wanted.drop_null())
    found = found.filter(pc.equal(found["jaccard"], 1.0)).filter(pc.is_valid(pc.field("representative_id")))
    kept = to_doc_ids(found["representative_id"].combine_chunks()).tolist()
    kept_of = dict(zip(found["doc_id"].to_pylist(), kept, strict=True))
    for place, name in enumerate(labels.column_names):
        if name in names:
            ends = [kept_of.get(each, each) for each in labels[name].to_pylist()]
            labels = labels.set_column(place, name, pa.array(ends, pa.int64()))
    return labels


def find_parted(engine: Engine[Rows], left: Integers, right: Integers, components: Rows) -> Flags:
    """Tell which pairs of documents, few, do not share a component; a document in none shares it with nobody."""
    of = look_up(engine, components, "component_id", np.concatenate((left, right)))
    ends = [[of.get(each) for each in side.tolist()] for side in (left, right)]
    return np.array([one is None or one != other for one, other in zip(*ends, strict=True)], dtype=bool)
