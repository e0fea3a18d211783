"""Nearest neighbours of probes, and labelled pairs -> the threshold, and what the report shows of its choice."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Engine, Rows, Size, look_up
from dedup.kernels import Flags, Floats, Integers
from dedup.kernels.sets.jaccard import BINS, bin_similarities
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.calibration import choose_by_labels, choose_by_neighbours
from dedup.layers.semantic.cells import PAIRS, Neighbourhood
from dedup.layers.semantic.verification import Guards, read_cosines, read_texts, verify

SHOWN = 40
"""Pairs shown, those of cosines nearest to the threshold."""


class SampledPairs(NamedTuple):
    """Pairs of documents left < right, distinct: neighbours of probes, and labelled ones."""

    left: Integers
    right: Integers
    cosines: Floats
    """Cosine; NaN of labelled pairs that are no neighbours."""
    nearest: Flags
    """Whether one is a probe and the other its nearest neighbour."""
    labels: Integers
    """Label: 1 of duplicates, 0 of others, -1 without one."""

    def to_table(self) -> pa.Table:
        """Return PAIRS."""
        return pa.Table.from_arrays([pa.array(self.left), pa.array(self.right)], schema=PAIRS)


class JudgedPairs(NamedTuple):
    """Pairs of which the facts are known too."""

    pairs: SampledPairs
    cosines: Floats
    parted: Flags
    """Whether a guard parts them."""


class Threshold(NamedTuple):
    """Least cosine of an edge, and what it was chosen by."""

    cosine: float
    chosen_by: str


def list_sample(engine: Engine[Rows], known: Neighbourhood, labels: pa.Table | None, vectors: Rows) -> SampledPairs:
    """List the neighbours of probes, and labelled pairs that have vectors.

    Parameters
    ----------
    labels
        left_id, right_id and duplicate; None without any.
    vectors
        VECTORS.
    """
    sampled = _pair(known.sample.ids[known.turns], known.others)
    cosines = dict(zip(sampled, known.cosines.tolist(), strict=True))
    nearest = {pair for pair, is_first in zip(sampled, known.firsts.tolist(), strict=True) if is_first}
    given = _list_labels(engine, labels, vectors)
    pairs = sorted({*sampled, *given})
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    return SampledPairs(
        left=left,
        right=right,
        cosines=np.array([cosines.get(pair, np.nan) for pair in pairs]),
        nearest=np.array([pair in nearest for pair in pairs], bool),
        labels=np.array([given.get(pair, -1) for pair in pairs], np.int64),
    )


def judge(engine: Engine[Rows], pairs: SampledPairs, read: Rows, guards: Guards, *, name: str) -> JudgedPairs:
    """Compare the facts of pairs.

    Parameters
    ----------
    read
        READ of all their documents.
    """
    count = pairs.left.size
    rows = engine.parallelise(f"{name}_pairs", pairs.to_table())
    found = engine.compare(name, rows, read, verify(-1.0, guards, every=True), Size(count, 2 * count, 2 * count, 0))
    told = engine.collect(found).sort_by([("left_id", "ascending"), ("right_id", "ascending")])["jaccard"].to_numpy()
    return JudgedPairs(pairs, *read_cosines(told))


def _pair(one: Integers, other: Integers) -> list[tuple[int, int]]:
    return [*zip(np.minimum(one, other).tolist(), np.maximum(one, other).tolist(), strict=True)]


def _list_labels(engine: Engine[Rows], labels: pa.Table | None, vectors: Rows) -> dict[tuple[int, int], int]:
    """Return the labels of pairs whose documents have vectors."""
    if labels is None:
        return {}
    known = labels.drop_null()
    ends = [known[name].to_numpy() for name in ("left_id", "right_id")]
    found = engine.lookup(vectors, pa.array(np.unique(np.concatenate(ends))))["doc_id"].to_numpy()
    # Of two that an earlier layer took for one, there is no pair.
    held = np.isin(ends[0], found) & np.isin(ends[1], found) & (ends[0] != ends[1])
    marks = known["duplicate"].to_numpy(zero_copy_only=False)[held].astype(int).tolist()
    return dict(zip(_pair(ends[0][held], ends[1][held]), marks, strict=True))


def choose_threshold(
    engine: Engine[Rows],
    pairs: SampledPairs,
    vectors: Rows,
    *,
    given: float | None,
    tokenizer: Tokenizer,
    guards: Guards,
) -> Threshold:
    """Return the threshold of the settings, or else one by labels, or else one by neighbours.

    Texts are read for labels alone.
    """
    if given is not None:
        return Threshold(given, "semantic.threshold")
    told = pairs.labels >= 0
    if told.any():
        labelled = SampledPairs._make(column[told] for column in pairs)
        rows = engine.parallelise("labels", labelled.to_table())
        read = read_texts(engine, rows, vectors, labelled.left.size, tokenizer, name="labelled")
        judged = judge(engine, labelled, read, guards, name="labelled")
        found = choose_by_labels(judged.cosines, labelled.labels == 1, judged.parted)
        if found is not None:
            return Threshold(found, "evaluation.labeled_pairs")
    return Threshold(choose_by_neighbours(pairs.cosines[pairs.nearest]), "nearest neighbours")


def tell_curve(judged: JudgedPairs) -> list[dict[str, Any]]:
    """Count judged pairs by their cosine: nearest neighbours, those that guards part, and labels."""
    bins, pairs = bin_similarities(judged.cosines), judged.pairs
    sampled = np.isfinite(pairs.cosines)
    columns = {
        "nearest_neighbours": pairs.nearest,
        "pairs": sampled,
        "parted_by_guards": sampled & judged.parted,
        "labeled_duplicates": pairs.labels == 1,
        "labeled_others": pairs.labels == 0,
    }
    return [
        {"cosine": number / BINS} | {name: int(flags[bins == number].sum()) for name, flags in columns.items()}
        for number in np.unique(bins).tolist()
    ]


def show_pairs(
    engine: Engine[Rows], judged: JudgedPairs, threshold: float, read: Rows, documents: Rows
) -> list[dict[str, Any]]:
    """Return the pairs of cosines nearest to the threshold, with the beginnings of their texts.

    Parameters
    ----------
    read
        READ of all their documents.
    documents
        REGISTER.
    """
    left, right = judged.pairs.left, judged.pairs.right
    order = np.lexsort((right, left, np.abs(judged.cosines - threshold)))[:SHOWN]
    doc_ids = np.concatenate((left[order], right[order]))
    names, begins = look_up(engine, documents, "id", doc_ids), look_up(engine, read, "begin", doc_ids)
    return [
        {
            "cosine": float(judged.cosines[place]),
            "is_edge": bool(judged.cosines[place] >= threshold and not judged.parted[place]),
            "parted_by_guards": bool(judged.parted[place]),
            "one_id": names[left[place]],
            "one": begins[left[place]],
            "other_id": names[right[place]],
            "other": begins[right[place]],
        }
        for place in order[np.argsort(-judged.cosines[order], kind="stable")].tolist()
    ]
