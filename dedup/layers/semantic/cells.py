"""VECTORS -> PAIRS of near neighbours, by cells around documents drawn, and the share of them that cells find.

    VECTORS -> sample -> centres of cells, probes
    VECTORS, probes -> the nearest of all to each probe, which tell how many cells a vector must be of
    VECTORS -> (cell, steps) -> products of all within a cell -> PAIRS

A corpus that fits a cell is one: its search is complete.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally, conform_rows
from dedup.kernels import Flags, Floats, Integers
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import bound_groups, drop_repeated, join_groups, rank_groups
from dedup.kernels.vectors.products import (
    Matrix,
    find_cosines,
    find_nearest,
    find_pairs,
    to_bytes,
    to_matrix,
    to_steps,
)
from dedup.layers.drawing import draw, hash_ids
from dedup.layers.semantic.vectors import VECTORS
from dedup.tables import arrow

PAIRS = arrow.integers("left_id", "right_id")
PROBED = arrow.integers("probe", "doc_id", "farness")
"""Neighbours of probes, by their places; `farness` is the product of their steps, negative."""
TURNS = EARLIER, OWN = range(2)
"""Turns of vectors: those that are compared with others alone, and all others."""
TURNED = VECTORS.append(pa.field("turn", pa.int64()))
PLACED = pa.schema([*arrow.integers("cell", "turn", "doc_id"), ("steps", pa.binary())])
ONE_CELL = 4_096
"""Vectors up to which all are compared with all."""
CELL_VECTORS = 1 << 13
"""Vectors for which there is a cell at least, where few are compared with many."""
PROBES = 512
AT_ONCE = 64
"""Probes multiplied with a batch at a time, which may hold all vectors."""
NEIGHBOURS = 4
"""Nearest of all that are known of each probe."""
RECALL = 0.995
"""Share of the neighbours of half of the probes that the cells must find; the other half measures the goal of .99."""
FEWEST, MOST, USUAL = 2, 24, 8
"""Cells of a vector: bounds, and how many where the sample has too few neighbours to tell."""
TELLING = 10
"""Neighbours that tell."""
REACH = 0.1
"""Cosine below the threshold down to which the nearest tell how cells part near vectors, where few reach it."""
VECTOR_BYTES = 16
"""Bytes that travel with the steps of a vector."""
PART_BYTES = 1 << 28
"""Bytes of the vectors that are brought to their cells at a time."""


class DrawnVectors(NamedTuple):
    """Vectors drawn from a corpus, by the hashes of their documents."""

    centres: Matrix
    """Steps; float32 [cells, dimensions]."""
    ids: Integers
    """Documents of the probes."""
    probes: Matrix
    """Steps; float32 [probes, dimensions]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbourhood:
    """The nearest of all to each probe: k pairs of a probe and another."""

    sample: DrawnVectors
    turns: Integers
    """Probe of each pair, by its place in the sample; int64 [k]."""
    others: Integers
    """The other document."""
    firsts: Flags
    """Whether it is the nearest of all to the probe."""
    cosines: Floats
    steps: Matrix
    """Steps of the other; float32 [k, dimensions]."""


def probe(engine: Engine[Rows], vectors: Rows, count: int, own: int) -> Neighbourhood:
    """Find the nearest of all vectors to some.

    Parameters
    ----------
    vectors
        VECTORS, `count` of them, of which so many own are compared with all.
    """
    pairs = math.isqrt(own * count)
    cells = 1 if pairs <= ONE_CELL else max(2 * math.isqrt(pairs), count // CELL_VECTORS)
    sample = _draw_sample(engine, vectors, cells)
    found = engine.group(
        "probed",
        vectors,
        Shuffle(
            emit=partial(_probe, ids=sample.ids, probes=sample.probes),
            emitted=PROBED,
            by=("probe",),
            order=("farness", "doc_id"),
            work=_take_nearest,
            schema=PROBED,
        ),
    )
    rows = engine.collect(found).sort_by([(name, "ascending") for name in ("probe", "farness", "doc_id")])
    turns, others = (rows[name].to_numpy() for name in ("probe", "doc_id"))
    wanted = np.unique(np.concatenate((others, sample.ids)))
    known = engine.lookup(vectors, pa.array(wanted)).sort_by("doc_id")
    known = known.filter(pa.array(mark_firsts(known["doc_id"].to_numpy())))
    matrix = to_matrix(known["values"])
    ends = [np.searchsorted(known["doc_id"].to_numpy(), each) for each in (sample.ids[turns], others)]
    steps = to_steps(matrix[ends[1]]).astype(np.float32)
    return Neighbourhood(
        sample=sample,
        turns=turns,
        others=others,
        firsts=mark_firsts(turns),
        cosines=find_cosines(matrix, *ends),
        steps=steps,
    )


def _draw_sample(engine: Engine[Rows], vectors: Rows, cells: int) -> DrawnVectors:
    wanted = PROBES + (cells if cells > 1 else 0)
    table = draw(engine, "drawn", vectors, VECTORS, wanted)
    ids = table["doc_id"].to_numpy()
    order = np.argsort(hash_ids(ids), kind="stable")
    matrix = to_matrix(table["values"])
    steps = to_steps(matrix[order]).astype(np.float32)
    return DrawnVectors(steps[PROBES:], ids[order[:PROBES]], steps[:PROBES])


def _probe(batches: Batches, *, ids: Integers, probes: Matrix) -> Batches:
    """Yield for every probe its nearest of each batch."""
    for whole in batches:
        doc_ids, firsts = np.unique(whole["doc_id"].to_numpy(), return_index=True)
        if not doc_ids.size:
            continue
        steps = to_steps(to_matrix(whole["values"].take(pa.array(firsts)))).astype(np.float32)
        places = np.minimum(np.searchsorted(doc_ids, ids), doc_ids.size - 1)
        own = np.where(doc_ids[places] == ids, places, -1)
        for begin in range(0, len(probes), AT_ONCE):
            some = slice(begin, begin + AT_ONCE)
            near, products = find_nearest(probes[some], steps, min(NEIGHBOURS, doc_ids.size), own[some])
            turns = np.repeat(np.arange(begin, begin + len(near)), near.shape[1])
            there = np.isfinite(products).ravel()
            columns = (turns, doc_ids[near.ravel()], -np.where(there, products.ravel(), 0).astype(np.int64))
            yield pa.RecordBatch.from_arrays([pa.array(each[there]) for each in columns], schema=PROBED)


def _take_nearest(batches: Batches) -> Batches:
    # Equal rows, which share a document id, are one document.
    for batch, places in rank_groups(drop_repeated(batches, PROBED.names[:2]), "probe"):
        yield batch.filter(pa.array(places < NEIGHBOURS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Cells in which vectors meet."""

    centres: Matrix
    """Steps; none where all vectors are of one cell."""
    count: int
    of_each: int
    """Cells of a vector, those of the nearest centres."""
    pairs: int
    """Neighbours of probes at or above the threshold, by which the recall is measured."""
    recall: float | None
    """Share of these that the cells find; None without any."""

    def tell(self) -> dict[str, Any]:
        """Return what the report says."""
        return {"cells": self.count, "cells_of_a_vector": self.of_each, "pairs": self.pairs, "recall": self.recall}


def choose_cells(known: Neighbourhood, threshold: float) -> Cells:
    """Choose so many cells for each vector that near neighbours meet, by one half of the probes.

    The other half tells the recall, so that it is no better than that of other vectors.
    """
    near = known.cosines >= threshold
    tells = known.turns % 2 == 1
    centres = known.sample.centres
    if not len(centres):
        pairs = int(np.count_nonzero(near & tells))
        return Cells(centres=centres, count=1, of_each=1, pairs=pairs, recall=1.0 if pairs else None)
    most = min(MOST, len(centres))
    close = near | _take_closest(known.cosines, (known.cosines >= threshold - REACH) & ~tells)
    met = np.zeros(known.turns.size, dtype=np.int64)
    if close.any():
        ends = (known.sample.probes[known.turns[close]], known.steps[close])
        one, other = (find_nearest(steps, centres, most)[0] for steps in ends)
        # The first count of cells with which both are of one: the later of its two places, plus one.
        same = one[:, :, None] == other[:, None, :]
        later = np.maximum.outer(np.arange(most), np.arange(most)) + 1
        met[close] = np.where(same, later, most + 1).min(axis=(1, 2))
    of_each = choose_count(met[close & ~tells], most)
    asked = near & tells
    pairs = int(np.count_nonzero(asked))
    recall = float(np.mean(met[asked] <= of_each)) if pairs else None
    return Cells(centres=centres, count=len(centres), of_each=of_each, pairs=pairs, recall=recall)


def choose_count(met: Integers, most: int) -> int:
    """Return how many cells a vector must be of, at most `most`, for RECALL of the near pairs to meet.

    Parameters
    ----------
    met
        Cells with which each of some pairs meets; more than `most` where it does not.
    """
    if met.size < TELLING:
        return min(USUAL, most)
    counts = np.arange(min(FEWEST, most), most + 1)
    # A few pairs have no tail, so they are taken for geometrically distributed too, with the mean that theirs may have:
    # a further cell finds the same share of the pairs that are left.
    mean = np.mean(met) + np.std(met) / math.sqrt(met.size)
    missed = np.maximum((1 - 1 / mean) ** counts, np.mean(met[:, None] > counts, axis=0))
    return int(counts[np.argmax(missed <= 1 - RECALL)]) if missed[-1] <= 1 - RECALL else most


def _take_closest(cosines: Floats, some: Flags) -> Flags:
    """Flag TELLING of some pairs, those of the greatest cosines."""
    closest = np.zeros_like(some)
    closest[np.flatnonzero(some)[np.argsort(-cosines[some], kind="stable")[:TELLING]]] = True
    return closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Pairs that may be edges."""

    least: float
    """Least product of their steps."""
    most: int
    """Pairs of a vector with those after it in a cell, the nearest."""
    vector_bytes: int
    """Bytes of a vector on its way to a cell."""


def find_candidates(
    engine: Engine[Rows],
    vectors: Rows,
    count: int,
    cells: Cells,
    reach: Reach,
    *,
    name: str = "pairs",
    earlier: Rows | None = None,
) -> tuple[Rows, int, int]:
    """Return PAIRS within reach, perhaps repeated, how many there are, and how many were left out.

    Parameters
    ----------
    vectors
        VECTORS.
    count
        Number of vectors, the earlier ones among them.
    earlier
        VECTORS of other documents, which are no pairs among themselves; None without any.
    """
    turned = conform_rows(engine, vectors, TURNED, turn=OWN)
    if earlier is not None:
        turned = engine.concat(turned, conform_rows(engine, earlier, TURNED, turn=EARLIER))
    parts = min(max(math.ceil(count * cells.of_each * reach.vector_bytes / PART_BYTES), 1), cells.count)
    found = [
        engine.group(
            f"{name}{part or ''}",
            turned,
            Shuffle(
                emit=partial(_place, centres=cells.centres, count=cells.of_each, part=part, parts=parts),
                emitted=PLACED,
                by=("cell",),
                order=("turn", "doc_id"),
                work=partial(_pair, least=reach.least, most=reach.most),
                schema=PAIRS,
            ),
            expected=count * cells.of_each / parts,
        )
        for part in range(parts)
    ]
    tallies = [engine.tally(each) for each in found]
    rows, dropped = (sum(tally.get(name, 0) for tally in tallies) for name in ("rows", "dropped"))
    return engine.concat(*found), rows, dropped


def _place(batches: Batches, *, centres: Matrix, count: int, part: int, parts: int) -> Batches:
    """Bring vectors to the cells of their nearest centres, of the cells of one part."""
    for batch in batches:
        if not batch.num_rows:
            continue
        steps = to_steps(to_matrix(batch["values"]))
        rows, cells = np.arange(batch.num_rows), np.zeros(batch.num_rows, np.int64)
        if len(centres):
            cells = find_nearest(steps.astype(np.float32), centres, count)[0].ravel()
            rows = np.repeat(rows, count)
        own = np.flatnonzero(cells % parts == part)
        turns, doc_ids = (batch[name].take(pa.array(rows[own])) for name in ("turn", "doc_id"))
        columns = [pa.array(cells[own]), turns, doc_ids, to_bytes(steps[rows[own]])]
        yield pa.RecordBatch.from_arrays(columns, schema=PLACED)


def _pair(batches: Batches, *, least: float, most: int) -> Iterator[pa.RecordBatch | Tally]:
    # Equal rows, which share a document id, are one document.
    for batch in join_groups(drop_repeated(batches, ("cell", "doc_id")), ["cell"]):
        turns, doc_ids = (batch[name].to_numpy() for name in ("turn", "doc_id"))
        for begin, end in pairwise(bound_groups(batch, ["cell"]).tolist()):
            steps = to_matrix(batch["steps"].slice(begin, end - begin), "<i2").astype(np.float32)
            own, first = doc_ids[begin:end], int(np.searchsorted(turns[begin:end], OWN))
            for left, right, dropped in find_pairs(steps, least, most, first):
                yield Tally(dropped=dropped)
                ends = np.minimum(own[left], own[right]), np.maximum(own[left], own[right])
                yield pa.RecordBatch.from_arrays([*map(pa.array, ends)], schema=PAIRS)
