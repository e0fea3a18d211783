"""Part of report.json on the layer `passages`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.kernels import Integers
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.layers.cutting import PASSAGE, PIECE, Fate

MOST = 20
"""Passages and documents that the report names."""
PASSAGES, DOCUMENTS = "passages", "losing_most"
Row: TypeAlias = tuple[Any, ...]


def tallies(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of TALLIES: counts of a name and number, and passages and documents by what they count."""
    numbers = ("number", "amount", "doc_id", "begin", "end", "tokens")
    names = [("name", pa.string()), *((name, pa.int64()) for name in numbers), ("id", id_type), ("text", pa.string())]
    return pa.schema(names)


def tally(batches: Batches, *, length: int, fate: Fate, schema: pa.Schema) -> Batches:
    """Yield TALLIES of `verified` by document."""
    counts: Counter[tuple[str, int]] = Counter()
    most: dict[str, list[Row]] = {PASSAGES: [], DOCUMENTS: []}
    for whole in join_groups(batches, ["doc_id"]):
        kinds = whole["range"].to_numpy()
        passages = whole.filter(pa.array(kinds == PASSAGE))
        times, tokens = passages["times"].to_numpy(), passages["cut"].to_numpy()
        for number in np.unique(times).tolist():
            # A passage of n tokens has n - length + 1 windows.
            counts["occurrences", number] += int((tokens[times == number] - length + 1).sum())
        most[PASSAGES] = _take_apart(merge(most[PASSAGES], _to_rows(passages, times), key=_precede))
        batch = whole.filter(pa.array((kinds == PIECE) & (whole["cut"].to_numpy() > 0)))
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
        heads = batch.take(pa.array(bounds[:-1])).set_column(batch.schema.get_field_index("cut"), "cut", pa.array(of))
        most[DOCUMENTS] = [*islice(merge(most[DOCUMENTS], _to_rows(heads, repeated), key=_precede), MOST)]
    rows = [(name, number, amount, *[None] * 6) for (name, number), amount in counts.items()]
    rows += [(name, 0, *row) for name, chosen in most.items() for row in chosen]
    arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sum_spans(batch: pa.RecordBatch) -> Any:  # noqa: ANN401 - an array
    """Return the tokens of each span: pieces that touch are one."""
    doc_ids, first, last = (batch[name].to_numpy() for name in ("doc_id", "first", "last"))
    apart = np.append(True, (doc_ids[1:] != doc_ids[:-1]) | (first[1:] != last[:-1]))
    return np.add.reduceat(batch["cut"].to_numpy(), np.flatnonzero(apart))


def _to_rows(batch: pa.RecordBatch, numbers: Integers) -> Iterator[tuple[Any, ...]]:
    """Yield number, doc_id, begin, end, tokens, id and text of rows, as they precede one another."""
    names = ("doc_id", "first", "last", "cut", "id", "text")
    order = np.lexsort([*(batch[name].to_numpy() for name in reversed(names[:4])), -numbers])
    columns = [pa.array(numbers), *(batch[name] for name in names)]
    for row in order.tolist():
        yield tuple(column[row].as_py() for column in columns)


def _take_most(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=_precede)[:MOST]


def _precede(row: Row) -> Row:
    return -row[0], *row[1:5]


def _take_apart(rows: Iterable[Row]) -> list[Row]:
    """Return the first rows of which none overlaps one before."""
    taken: list[Row] = []
    for row in rows:
        _, doc_id, begin, end, *_ = row
        if all(other[1] != doc_id or other[3] <= begin or end <= other[2] for other in taken):
            taken.append(row)
            if len(taken) == MOST:
                break
    return taken


def describe(
    engine: Engine[Rows], documents: Rows, found: Rows, found_schema: pa.Schema, *, length: int, fate: Fate
) -> dict[str, Any]:
    """Return the details of the report.

    Parameters
    ----------
    documents
        REGISTER with tokens.
    found
        Verified pieces.
    """
    totals = engine.measure(documents, "tokens")
    schema = tallies(engine.id_type)
    work = partial(tally, length=length, fate=fate, schema=schema)
    order = ["range", "first", "last", "cut"]
    told = engine.group(
        "tallies", found, Shuffle(emitted=found_schema, by=["doc_id"], order=order, work=work, schema=schema)
    )
    counts: dict[str, Counter[int]] = {name: Counter() for name in ("occurrences", "span_tokens")}
    sums = Counter(touched_documents=0, repeated_tokens=0, removed_documents=0)
    most: dict[str, list[Row]] = {PASSAGES: [], DOCUMENTS: []}
    columns = engine.collect(told).to_pydict().values()
    for name, number, *row in zip(*columns, strict=True):
        if name in most:
            most[name].append(tuple(row))
        elif name in counts:
            counts[name][number] += row[0]
        else:
            sums[name] += row[0]
    return {
        "documents": totals["rows"],
        "tokens": totals["tokens"],
        **sums,
        "touched_share": sums["touched_documents"] / max(totals["rows"], 1),
        "repeated_share": sums["repeated_tokens"] / max(totals["tokens"], 1),
        "spans": counts["span_tokens"].total(),
        **{name: _to_histogram(found) for name, found in counts.items()},
        PASSAGES: [
            {"id": row[5], "begin": row[2], "end": row[3], "tokens": row[4], "occurrences": row[0], "text": row[6]}
            for row in _take_most(most[PASSAGES])
        ],
        DOCUMENTS: [{"id": row[5], "repeated_tokens": row[0], "tokens": row[4]} for row in _take_most(most[DOCUMENTS])],
    }


def _to_histogram(counts: Counter[int]) -> dict[str, int]:
    """Return how many numbers there are from each power of two to the next."""
    found: Counter[int] = Counter()
    for number, count in counts.items():
        found[1 << (number.bit_length() - 1)] += count
    return {str(least): found[least] for least in sorted(found)}
