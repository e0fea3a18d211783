"""Nearest neighbours of probes, and labelled pairs -> the threshold, and what the report shows of its choice."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Size
from dedup.kernels import Flags, Floats, Integers
from dedup.kernels.sets.jaccard import BINS, bin_similarities
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors.calibration import choose_by_labels, choose_by_neighbours
from dedup.layers.near.templates import MEMBERS
from dedup.layers.semantic.cells import Neighbourhood
from dedup.layers.semantic.verification import PARTED, read_texts, verify

SHOWN = 40
"""Pairs shown, those of cosines nearest to the threshold."""
SHOWN_CHARACTERS = 200
"""Characters shown of each text."""


class JudgedPairs(NamedTuple):
    """Pairs of documents left < right, distinct, of which cosine and facts are known."""

    left: Integers
    right: Integers
    cosines: Floats
    parted: Flags
    """Whether a guard parts them."""
    nearest: Flags
    """Whether one is a probe and the other its nearest neighbour."""
    sampled: Flags
    """Whether they are of the sample, and not of labels alone."""
    labels: Integers
    """Label: 1 of duplicates, 0 of others, -1 without one."""


class Threshold(NamedTuple):
    """Least cosine of an edge, and what it was chosen by."""

    cosine: float
    chosen_by: str


def judge(
    engine: Engine[Rows],
    known: Neighbourhood,
    labels: pa.Table | None,
    vectors: Rows,
    *,
    tokenizer: Tokenizer,
    guards: Sequence[str],
) -> JudgedPairs:
    """Compare the neighbours of probes, and labelled pairs that have vectors.

    Parameters
    ----------
    labels
        left_id, right_id and duplicate; None without any.
    vectors
        VECTORS.
    """
    probes = known.sample.ids[known.turns]
    sampled = _pair(probes, known.others)
    nearest = {*_pair(probes[known.firsts], known.others[known.firsts])}
    given = _list_labels(engine, labels, vectors)
    pairs = sorted({*sampled, *given})
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    table = pa.table({"left_id": ends[:, 0], "right_id": ends[:, 1]})
    rows = engine.parallelise("judged_pairs", table)
    read = read_texts(engine, rows, vectors, len(pairs), tokenizer, name="judged")
    size = Size(len(pairs), 2 * len(pairs), 2 * len(pairs), 0)
    found = engine.collect(engine.compare("judged", rows, read, verify(-1.0, guards, every=True), size))
    found = found.sort_by([("left_id", "ascending"), ("right_id", "ascending")])
    told, held = found["jaccard"].to_numpy(), {*sampled}
    parted = told < -1
    return JudgedPairs(
        left=ends[:, 0],
        right=ends[:, 1],
        cosines=np.where(parted, told + PARTED, told),
        parted=parted,
        nearest=np.array([pair in nearest for pair in pairs], bool),
        sampled=np.array([pair in held for pair in pairs], bool),
        labels=np.array([given.get(pair, -1) for pair in pairs], np.int64),
    )


def _pair(one: Integers, other: Integers) -> list[tuple[int, int]]:
    return [*zip(np.minimum(one, other).tolist(), np.maximum(one, other).tolist(), strict=True)]


def _list_labels(engine: Engine[Rows], labels: pa.Table | None, vectors: Rows) -> dict[tuple[int, int], int]:
    """Return the labels of pairs whose documents have vectors."""
    if labels is None:
        return {}
    known = labels.drop_null()
    ends = [known[name].to_numpy() for name in ("left_id", "right_id")]
    found = engine.lookup(vectors, pa.array(np.unique(np.concatenate(ends))))["doc_id"].to_numpy()
    held = np.isin(ends[0], found) & np.isin(ends[1], found)
    marks = known["duplicate"].to_numpy(zero_copy_only=False)[held].astype(int).tolist()
    return dict(zip(_pair(ends[0][held], ends[1][held]), marks, strict=True))


def choose_threshold(judged: JudgedPairs, given: float | None) -> Threshold:
    """Return the threshold of the settings, or else one by labels, or else one by neighbours."""
    if given is not None:
        return Threshold(given, "semantic.threshold")
    told = judged.labels >= 0
    by_labels = choose_by_labels(judged.cosines[told], judged.labels[told] == 1, judged.parted[told])
    if by_labels is not None:
        return Threshold(by_labels, "evaluation.labeled_pairs")
    return Threshold(choose_by_neighbours(judged.cosines[judged.nearest]), "nearest neighbours")


def tell_curve(judged: JudgedPairs) -> list[dict[str, Any]]:
    """Count judged pairs by their cosine: nearest neighbours, those that guards part, and labels."""
    bins = bin_similarities(judged.cosines)
    columns = {
        "nearest_neighbours": judged.nearest,
        "pairs": judged.sampled,
        "parted_by_guards": judged.sampled & judged.parted,
        "labeled_duplicates": judged.labels == 1,
        "labeled_others": judged.labels == 0,
    }
    return [
        {"cosine": number / BINS} | {name: int(flags[bins == number].sum()) for name, flags in columns.items()}
        for number in np.unique(bins).tolist()
    ]


def show_pairs(engine: Engine[Rows], judged: JudgedPairs, threshold: float) -> list[dict[str, Any]]:
    """Return the pairs of cosines nearest to the threshold, with the beginnings of their texts."""
    order = np.lexsort((judged.right, judged.left, np.abs(judged.cosines - threshold)))[:SHOWN]
    ids = np.unique(np.concatenate((judged.left[order], judged.right[order])))
    wanted = engine.parallelise("shown_pairs", pa.Table.from_arrays([pa.array(ids)], schema=MEMBERS))
    schema = pa.schema([("doc_id", pa.int64()), ("id", engine.id_type), ("text", pa.large_string())])
    rows = engine.collect(engine.fetch("shown", wanted, partial(_show, schema=schema), schema)).to_pylist()
    known = {row["doc_id"]: row for row in rows}
    return [
        {
            "cosine": float(judged.cosines[place]),
            "is_edge": bool(judged.cosines[place] >= threshold and not judged.parted[place]),
            "parted_by_guards": bool(judged.parted[place]),
            "one_id": known[int(judged.left[place])]["id"],
            "one": known[int(judged.left[place])]["text"],
            "other_id": known[int(judged.right[place])]["id"],
            "other": known[int(judged.right[place])]["text"],
        }
        for place in order[np.argsort(-judged.cosines[order], kind="stable")].tolist()
    ]


def _show(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        texts = [(text or "")[:SHOWN_CHARACTERS] for text in batch["text"].to_pylist()]
        columns = [batch["doc_id"], batch["id"], pa.array(texts, pa.large_string())]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
