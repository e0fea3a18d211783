"""The search of the layer `passages`: documents -> grams -> windows -> places of windows that occur twice -> pieces."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches
from dedup.kernels import Integers
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.blocks import lists, unlists
from dedup.kernels.runs.bounds import find_bounds, mark_firsts, mark_repeated
from dedup.kernels.runs.groups import bound_groups, drop_repeated, join_groups
from dedup.kernels.text.passages import (
    find_asked,
    find_pieces,
    find_recurring,
    repeat_windows,
    roll,
    select_grams,
)
from dedup.kernels.text.tokenizer import Tokenizer

CELL_BYTES = 1 << 24
PIECE_WINDOWS = 1 << 18
SELECTED = pa.schema([("tokens", pa.int64()), ("grams", pa.binary()), ("places", pa.binary())])
"""Grams selected of a document: its number of tokens, hashes, int64, and the first token of each gram, int32."""
GRAMS = pa.schema([("gram", pa.int64()), ("doc_id", pa.int64()), ("place", pa.int64())])
STORED = "grams"
"""Table of a store with GRAMS."""
SHARED = pa.schema([("doc_id", pa.int64()), ("place", pa.int64())])
"""Grams whose hash occurs twice."""
ASKED = pa.schema([("doc_id", pa.int64()), ("places", pa.binary())])
"""Places of these grams in each document."""
COMPARED = pa.schema([("windows", pa.binary()), ("places", pa.binary()), ("recurring", pa.binary())])
"""Windows of a document: hashes of those in question, int64, but those that it has had twice before, and as int64 their
places. Of runs of the latter the first token, their number, and how many tokens before they stand too, int64."""
WINDOWS = pa.schema([("window", pa.int64()), ("rank", pa.int64()), ("place", pa.int64()), ("doc_id", pa.int64())])
"""A place is the first token, and in TIMES_BITS how often the document has the window from there on."""
TIMES_BITS = 31
MOST_TIMES = (1 << TIMES_BITS) - 1
RUN_NUMBERS = 3
REPEATED = pa.schema(
    [
        ("doc_id", pa.int64()),
        ("begin", pa.int64()),  # the first token
        ("other_id", pa.int64()),  # the document of the first occurrence; that of the second for the first itself
        ("other_begin", pa.int64()),
        ("times", pa.int64()),  # how often the window occurs, for the first; else 0
    ]
)
"""Windows whose hash occurs twice, and with negative times runs of others: see `passages.repeat_windows`."""
PIECES = pa.schema(
    [
        ("doc_id", pa.int64()),
        ("begin", pa.int64()),  # tokens
        ("end", pa.int64()),
        ("other_id", pa.int64()),  # where else the same tokens stand
        ("other_begin", pa.int64()),
        ("times", pa.int64()),
    ]
)
"""Parts of documents that are repeated, none overlapping: see `dedup.kernels.text.passages.find_pieces`. And, with
times above 0, those whose windows are all the first of so many; they may overlap, and the other place is their own."""
Columns: TypeAlias = tuple[Integers, ...]


class _Held(NamedTuple):
    """The end of a stream so far, which what follows may belong to."""

    columns: Columns
    """Values of a row or two."""
    number: int
    """1 if a gram's row has been yielded, else 0; number of windows of the hash so far."""


def _join(held: _Held | None, batch: pa.RecordBatch) -> tuple[Columns, int]:
    """Return the columns of a batch behind the rows held, and what is counted of these."""
    columns = tuple(batch[name].to_numpy() for name in batch.schema.names)
    if held is None:
        return columns, 0
    joined = zip(held.columns, columns, strict=True)
    return tuple(np.concatenate(pair) for pair in joined), held.number


def _by_size(batches: Batches, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of about CELL_BYTES in a column: of one of the engine's they may be gigabytes."""
    for batch in batches:
        sizes = np.cumsum(pc.binary_length(batch[name]).to_numpy(zero_copy_only=False).astype(np.int64))
        for begin, end in pairwise(find_bounds(sizes // CELL_BYTES).tolist()):
            yield batch.slice(begin, end - begin)


def describe_grams(batch: pa.RecordBatch, *, length: int, tokenizer: Tokenizer) -> dict[str, pa.Array]:
    """Return SELECTED of documents."""
    tokens, offsets = tokenizer.hash(batch["text"])
    hashes, places, bounds = select_grams(tokens, offsets, length, tokenizer)
    return {
        "tokens": pa.array(np.diff(offsets)),
        "grams": lists(hashes.view(np.int64), bounds),
        "places": lists(places.astype(np.int32), bounds),
    }


def emit_grams(batches: Batches) -> Batches:
    """REGISTER with SELECTED -> GRAMS."""
    for batch in _by_size(batches, "grams"):
        grams, bounds = unlists(batch["grams"], "<i8")
        places, _ = unlists(batch["places"], "<i4")
        doc_ids = np.repeat(batch["doc_id"].to_numpy(zero_copy_only=False), np.diff(bounds)).astype(np.int64)
        yield pa.RecordBatch.from_arrays([grams, doc_ids, places.astype(np.int64)], schema=GRAMS)


def find_shared(batches: Batches) -> Batches:
    """GRAMS by hash -> SHARED: no more than a row is held, however often a hash occurs."""
    held: _Held | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        (grams, doc_ids, places), told = _join(held, batch)
        repeated = mark_repeated(grams)
        held = _Held((grams[-1:], doc_ids[-1:], places[-1:]), int(repeated[-1]))
        repeated[0] &= not told
        yield pa.RecordBatch.from_arrays([doc_ids[repeated], places[repeated]], schema=SHARED)


def gather_places(batches: Batches) -> Batches:
    """SHARED by document and place -> ASKED."""
    # Equal rows of the input, which share a document id, are one document.
    for batch in join_groups(drop_repeated(batches, SHARED.names), ["doc_id"]):
        bounds = bound_groups(batch, ["doc_id"])
        places = lists(batch["place"].to_numpy().astype(np.int32), bounds)
        yield pa.RecordBatch.from_arrays([batch["doc_id"].take(pa.array(bounds[:-1])), places], schema=ASKED)


def describe_windows(batches: Batches, *, length: int, tokenizer: Tokenizer, schema: pa.Schema) -> Batches:
    """Documents with ASKED -> their columns of the schema and COMPARED."""
    for batch in batches:
        tokens, offsets = tokenizer.hash(batch["text"])
        places, bounds = unlists(batch["places"], "<i4")
        documents = np.repeat(np.arange(batch.num_rows), np.diff(bounds))
        asked = find_asked(places.astype(np.int64), documents, np.diff(offsets), length)
        hashes = roll(tokens, offsets, length, tokenizer)
        found = find_recurring(hashes, offsets, asked)
        of, begins, times = found.windows.T
        owned, owned_runs = (np.searchsorted(rows[:, 0], np.arange(batch.num_rows + 1)) for rows in found)
        columns = {
            "windows": lists(hashes[offsets[of] + begins].view(np.int64), owned),
            "places": lists(begins << TIMES_BITS | times, owned),
            "recurring": lists(found.runs[:, 1:].reshape(-1), owned_runs * RUN_NUMBERS),
        }
        yield conform(batch, schema, **columns)


def emit_windows(batches: Batches) -> Batches:
    """REGISTER with COMPARED and rank -> WINDOWS."""
    for batch in _by_size(batches, "windows"):
        windows, bounds = unlists(batch["windows"], "<i8")
        places, _ = unlists(batch["places"], "<i8")
        ranks, doc_ids = (np.repeat(batch[name].to_numpy(), np.diff(bounds)) for name in ("rank", "doc_id"))
        yield pa.RecordBatch.from_arrays([windows, ranks, places, doc_ids], schema=WINDOWS)


def list_recurring(batches: Batches) -> Batches:
    """REGISTER with COMPARED -> REPEATED, the runs."""
    for batch in batches:
        runs, bounds = unlists(batch["recurring"], "<i8")
        begins, counts, backs = runs.reshape(-1, RUN_NUMBERS).T
        doc_ids = np.repeat(batch["doc_id"].to_numpy(), np.diff(bounds) // RUN_NUMBERS)
        yield _to_rows(REPEATED, doc_ids, begins, doc_ids, begins - backs, -counts)


def find_repeated(batches: Batches) -> Batches:
    """WINDOWS by hash, rank and place -> REPEATED: no more than two rows are held, however often a hash occurs."""
    held: _Held | None = None
    # Equal rows of the input, which share a document id, are one document.
    for batch in drop_repeated(batches, ["window", "rank", "place"]):
        if not batch.num_rows:
            continue
        known = 0 if held is None else held.columns[0].size
        columns, before = _join(held, batch)
        firsts = np.flatnonzero(mark_firsts(columns[0]))
        of = np.repeat(firsts, np.diff(np.append(firsts, columns[0].size)))
        times = columns[2] & MOST_TIMES
        counts = np.add.reduceat(times, firsts)
        later = np.flatnonzero(of != np.arange(of.size))
        # Those held have been counted already, and the second of them has been yielded.
        later = later[later >= known]
        counts[0] += before - times[:known].sum()
        done = firsts[:-1][counts[:-1] > 1]
        yield _tell(columns, (later, of[later]), np.zeros_like(later))
        yield _tell(columns, (done, done + 1), counts[:-1][counts[:-1] > 1])
        held = _Held(tuple(column[firsts[-1] : firsts[-1] + 2] for column in columns), int(counts[-1]))
    if held is not None and held.number > 1:
        yield _tell(held.columns, (np.array([0]), np.array([1])), np.array([held.number]))


def _tell(columns: Columns, places: tuple[Integers, Integers], times: Integers) -> pa.RecordBatch:
    """Return windows by their rows and those of another occurrence."""
    begins, doc_ids = columns[2] >> TIMES_BITS, columns[3]
    rows, others = places
    return _to_rows(REPEATED, doc_ids[rows], begins[rows], doc_ids[others], begins[others], times)


def unite_windows(batches: Batches, *, length: int, keep_first: bool) -> Batches:
    """REPEATED by document and place -> PIECES."""
    # Equal rows of the input, which share a document id, are one document.
    for whole in join_groups(drop_repeated(batches, ["doc_id", "begin"]), ["doc_id"]):
        for batch in _by_windows(whole):
            columns = repeat_windows(*(batch[name].to_numpy() for name in REPEATED.names))
            doc_ids, begins, others, other_begins, times = columns
            pieces = find_pieces(doc_ids, begins, others, other_begins, times > 0, length=length, keep_first=keep_first)
            yield _to_rows(PIECES, *pieces, np.zeros_like(pieces.begins))
            rows = np.flatnonzero(times)
            bounds = find_bounds(doc_ids[rows], begins[rows] - np.arange(rows.size), times[rows])
            firsts, lasts = rows[bounds[:-1]], rows[bounds[1:] - 1]
            own, begin = doc_ids[firsts], begins[firsts]
            yield _to_rows(PIECES, own, begin, begins[lasts] + length, own, begin, times[firsts])


def _by_windows(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of whole documents, of about PIECE_WINDOWS: of one run there may be a million."""
    bounds = bound_groups(batch, ["doc_id"])
    counts = np.add.reduceat(np.maximum(-batch["times"].to_numpy(), 1), bounds[:-1])
    for begin, end in pairwise(bounds[find_bounds(np.cumsum(counts) // PIECE_WINDOWS)].tolist()):
        yield batch.slice(begin, end - begin)


def _to_rows(schema: pa.Schema, *columns: Integers) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=schema)
