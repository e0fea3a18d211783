"""What report.json says of the layer `passages`."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels.groups import bound_groups, join_groups
from dedup.layers.cutting import Fate
from dedup.layers.layer import Batches, Engine, Rows

MOST = 20
"""Passages and documents that the report names."""
TOTALS = pa.schema([("group", pa.int64()), ("documents", pa.int64()), ("tokens", pa.int64())])
PASSAGE, DOCUMENT = "passages", "losing_most"
Row = TypeVar("Row")


def tallies(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of TALLIES: counts of a name and number, and passages and documents by what they count."""
    numbers = ("number", "amount", "doc_id", "begin", "end", "tokens")
    names = [("name", pa.string()), *((name, pa.int64()) for name in numbers), ("id", id_type), ("text", pa.string())]
    return pa.schema(names)


def emit_totals(batches: Batches) -> Batches:
    """Yield the documents and tokens of all batches."""
    documents = tokens = 0
    for batch in batches:
        documents += batch.num_rows
        tokens += pc.sum(batch["tokens"]).as_py() or 0
    yield pa.RecordBatch.from_arrays([pa.array([each]) for each in (0, documents, tokens)], schema=TOTALS)


def tally(batches: Batches, *, fate: Fate, schema: pa.Schema) -> Batches:
    """Yield TALLIES of `verified` by document."""
    counts: Counter[tuple[str, int]] = Counter()
    most: dict[str, list[tuple[Any, ...]]] = {PASSAGE: [], DOCUMENT: []}
    for whole in join_groups(batches, ["doc_id"]):
        is_piece = whole["own"].to_numpy() == 1
        places = whole.filter(pa.array(~is_piece))
        for times, number in zip(*np.unique(places["times"].to_numpy() + 1, return_counts=True), strict=True):
            counts["occurrences", int(times)] += int(number)
        columns = [places[name] for name in ("times", "doc_id", "first", "last", "cut", "id", "text")]
        most[PASSAGE] = _take_most([*most[PASSAGE], *_find_most(columns)])
        batch = whole.filter(pa.array(is_piece & (whole["cut"].to_numpy() > 0)))
        if not batch.num_rows:
            continue
        bounds = bound_groups(batch, ["doc_id"])
        cut = batch["cut"].to_numpy()
        repeated, of = np.add.reduceat(cut, bounds[:-1]), batch["count"].to_numpy()[bounds[:-1]]
        goes = fate.choose(repeated, of)
        counts["touched_documents", 0] += repeated.size
        counts["repeated_tokens", 0] += int(repeated.sum())
        counts["removed_documents", 0] += int(np.count_nonzero(goes))
        for size, number in zip(*np.unique(_sum_spans(batch), return_counts=True), strict=True):
            counts["span_tokens", int(size)] += int(number)
        heads = batch.take(pa.array(bounds[:-1]))
        columns = [pa.array(repeated), heads["doc_id"], *([pa.array(of)] * 3), heads["id"], heads["text"]]
        most[DOCUMENT] = _take_most([*most[DOCUMENT], *_find_most(columns)])
    rows = [(name, number, amount, *[None] * 6) for (name, number), amount in counts.items()]
    rows += [(name, 0, *row) for name, chosen in most.items() for row in chosen]
    arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sum_spans(batch: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array
    """Return the tokens of each span: pieces that touch are one."""
    doc_ids, first, last = (batch[name].to_numpy() for name in ("doc_id", "first", "last"))
    apart = np.append(True, (doc_ids[1:] != doc_ids[:-1]) | (first[1:] != last[:-1]))
    return np.add.reduceat(batch["cut"].to_numpy(), np.flatnonzero(apart))


def _find_most(columns: list[pa.Array]) -> Iterable[tuple[Any, ...]]:
    """Return the rows of the greatest numbers in the first column."""
    keys = [column.to_numpy() for column in columns[:4]]
    order = pa.array(np.lexsort((*keys[:0:-1], -keys[0]))[:MOST])
    return zip(*(column.take(order).to_pylist() for column in columns), strict=True)


def _take_most(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (-row[0], *row[1:4]))[:MOST]


def describe(engine: Engine[Rows], documents: Rows, found: Rows, found_schema: pa.Schema, fate: Fate) -> dict[str, Any]:
    """Return the details of the report.

    Parameters
    ----------
    documents
        REGISTER with tokens.
    found
        What is verified.
    """
    totals = engine.collect(
        engine.meet("totals", documents, emit_totals, iter, emitted=TOTALS, by=["group"], order=[], schema=TOTALS)
    )
    schema = tallies(engine.id_type)
    work = partial(tally, fate=fate, schema=schema)
    order = ["own", "first", "last", "cut"]
    told = engine.meet("tallies", found, iter, work, emitted=found_schema, by=["doc_id"], order=order, schema=schema)
    counts: dict[str, Counter[int]] = {name: Counter() for name in ("occurrences", "span_tokens")}
    sums = Counter(touched_documents=0, repeated_tokens=0, removed_documents=0)
    most: dict[str, list[tuple[Any, ...]]] = {PASSAGE: [], DOCUMENT: []}
    columns = engine.collect(told).to_pydict().values()
    for name, number, *row in zip(*columns, strict=True):
        if name in most:
            most[name].append(tuple(row))
        elif name in counts:
            counts[name][number] += row[0]
        else:
            sums[name] += row[0]
    all_documents, all_tokens = (int(pc.sum(totals[name]).as_py() or 0) for name in ("documents", "tokens"))
    return {
        "documents": all_documents,
        "tokens": all_tokens,
        **sums,
        "touched_share": sums["touched_documents"] / max(all_documents, 1),
        "repeated_share": sums["repeated_tokens"] / max(all_tokens, 1),
        "spans": counts["span_tokens"].total(),
        **{name: _to_histogram(found) for name, found in counts.items()},
        PASSAGE: [
            {"id": row[5], "begin": row[2], "end": row[3], "tokens": row[4], "occurrences": row[0] + 1, "text": row[6]}
            for row in _take_most(most[PASSAGE])
        ],
        DOCUMENT: [{"id": row[5], "repeated_tokens": row[0], "tokens": row[4]} for row in _take_most(most[DOCUMENT])],
    }


def _to_histogram(counts: Counter[int]) -> dict[str, int]:
    """Return how many numbers there are from each power of two to the next."""
    found: Counter[int] = Counter()
    for number, count in counts.items():
        found[1 << (number.bit_length() - 1)] += count
    return {str(least): found[least] for least in sorted(found)}
