"""The search of the layer `passages`: documents -> grams -> windows -> places of windows that occur twice -> pieces."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.kernels import Flags, Integers
from dedup.kernels.blocks import lists, unlists
from dedup.kernels.groups import bound_groups, join_groups
from dedup.kernels.passages import find_asked, find_pieces, roll, select_grams
from dedup.kernels.runs import mark_firsts, mark_repeated
from dedup.kernels.text import Contract, tokenise
from dedup.layers.layer import Batches

SELECTED = pa.schema([("tokens", pa.int64()), ("grams", pa.binary()), ("places", pa.binary())])
"""Of a document: how many tokens it has, hashes of the grams selected, int64, and the first token of each, int32."""
GRAMS = pa.schema([("gram", pa.int64()), ("doc_id", pa.int64()), ("place", pa.int64())])
SHARED = pa.schema([("doc_id", pa.int64()), ("place", pa.int64())])
"""Grams whose hash occurs twice."""
ASKED = pa.schema([("doc_id", pa.int64()), ("places", pa.binary())])
"""Those of each document."""
COMPARED = pa.schema([("windows", pa.binary()), ("begins", pa.binary())])
"""Of a document: hashes of the windows in question, int64, and the first token of each, int32."""
WINDOWS = pa.schema([("window", pa.int64()), ("rank", pa.int64()), ("begin", pa.int64()), ("doc_id", pa.int64())])
REPEATED = pa.schema(
    [
        ("doc_id", pa.int64()),
        ("begin", pa.int64()),  # the first token
        ("other_id", pa.int64()),  # the document of the first occurrence; that of another for the first itself
        ("other_begin", pa.int64()),
        ("is_first", pa.bool_()),
    ]
)
"""Windows whose hash occurs twice."""
PIECES = pa.schema(
    [
        ("doc_id", pa.int64()),
        ("begin", pa.int64()),  # tokens
        ("end", pa.int64()),
        ("other_id", pa.int64()),  # where else the same tokens stand
        ("other_begin", pa.int64()),
    ]
)
"""Parts of documents that are repeated, none overlapping: see `dedup.kernels.passages.find_pieces`."""


class _Held(NamedTuple):
    """The last row of a stream so far, which what follows may be equal to."""

    columns: tuple[Integers, ...]
    """One value each."""
    told: bool
    """Whether the row has been yielded."""


def _join(held: _Held | None, batch: pa.RecordBatch) -> tuple[tuple[Integers, ...], bool]:
    """Return the columns of a batch behind the row held, and whether that has been yielded."""
    columns = tuple(batch[name].to_numpy() for name in batch.schema.names)
    if held is None:
        return columns, False
    joined = zip(held.columns, columns, strict=True)
    return tuple(np.concatenate(pair) for pair in joined), held.told


def describe_grams(batch: pa.RecordBatch, *, length: int, contract: Contract) -> dict[str, pa.Array]:
    """Return SELECTED of documents."""
    tokens, offsets = tokenise(batch["text"], contract)
    hashes, places, bounds = select_grams(tokens, offsets, length, contract)
    return {
        "tokens": pa.array(np.diff(offsets)),
        "grams": lists(hashes.view(np.int64), bounds),
        "places": lists(places.astype(np.int32), bounds),
    }


def emit_grams(batches: Batches) -> Batches:
    """REGISTER with SELECTED -> GRAMS."""
    for batch in batches:
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
        columns, told = _join(held, batch)
        # Equal rows, which share a document id, are one document.
        distinct = mark_firsts(*columns)
        grams, doc_ids, places = (column[distinct] for column in columns)
        repeated = mark_repeated(grams)
        held = _Held((grams[-1:], doc_ids[-1:], places[-1:]), bool(repeated[-1]) or (told and grams.size == 1))
        repeated[0] &= not told
        yield pa.RecordBatch.from_arrays([doc_ids[repeated], places[repeated]], schema=SHARED)


def gather_places(batches: Batches) -> Batches:
    """SHARED by document and place -> ASKED."""
    for batch in join_groups(batches, ["doc_id"]):
        bounds = bound_groups(batch, ["doc_id"])
        places = lists(batch["place"].to_numpy().astype(np.int32), bounds)
        yield pa.RecordBatch.from_arrays([batch["doc_id"].take(pa.array(bounds[:-1])), places], schema=ASKED)


def describe_windows(batches: Batches, *, length: int, contract: Contract, schema: pa.Schema) -> Batches:
    """Documents with ASKED -> their columns of the schema and COMPARED."""
    for batch in batches:
        tokens, offsets = tokenise(batch["text"], contract)
        places, bounds = unlists(batch["places"], "<i4")
        documents = np.repeat(np.arange(batch.num_rows), np.diff(bounds))
        begins, of = find_asked(places.astype(np.int64), documents, np.diff(offsets), length)
        windows = roll(tokens, offsets, length, contract)[offsets[of] + begins]
        owned = np.searchsorted(of, np.arange(batch.num_rows + 1))
        columns = {"windows": lists(windows.view(np.int64), owned), "begins": lists(begins.astype(np.int32), owned)}
        yield pa.RecordBatch.from_arrays(
            [columns[name] if name in columns else batch[name] for name in schema.names], schema=schema
        )


def emit_windows(batches: Batches) -> Batches:
    """REGISTER with COMPARED and rank -> WINDOWS."""
    for batch in batches:
        windows, bounds = unlists(batch["windows"], "<i8")
        begins, _ = unlists(batch["begins"], "<i4")
        counts = np.diff(bounds)
        ranks, doc_ids = (np.repeat(batch[name].to_numpy(), counts) for name in ("rank", "doc_id"))
        yield pa.RecordBatch.from_arrays([windows, ranks, begins.astype(np.int64), doc_ids], schema=WINDOWS)


def find_repeated(batches: Batches) -> Batches:
    """WINDOWS by hash, rank and place -> REPEATED: no more than the first of a hash is held."""
    held: _Held | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        (windows, ranks, begins, doc_ids), told = _join(held, batch)
        firsts = np.flatnonzero(mark_firsts(windows))
        sizes = np.diff(np.append(firsts, windows.size))
        of = np.repeat(firsts, sizes)
        several = firsts[sizes > 1]
        here = slice(firsts[-1], firsts[-1] + 1)
        held = _Held((windows[here], ranks[here], begins[here], doc_ids[here]), bool(sizes[-1] > 1))
        if told and several.size and several[0] == 0:
            several = several[1:]
        later = np.flatnonzero(of != np.arange(of.size))
        rows, others = np.concatenate((several, later)), np.concatenate((several + 1, of[later]))
        is_first: Flags = np.arange(rows.size) < several.size
        columns = [doc_ids[rows], begins[rows], doc_ids[others], begins[others], is_first]
        yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=REPEATED)


def unite_windows(batches: Batches, *, length: int, keep_first: bool) -> Batches:
    """REPEATED by document and place -> PIECES."""
    names = ("doc_id", "begin", "other_id", "other_begin")
    for batch in join_groups(batches, ["doc_id"]):
        doc_ids, begins, other_ids, other_begins = (batch[name].to_numpy() for name in names)
        is_first = batch["is_first"].to_numpy(zero_copy_only=False)
        pieces = find_pieces(doc_ids, begins, other_ids, other_begins, is_first, length=length, keep_first=keep_first)
        yield pa.RecordBatch.from_arrays(list(map(pa.array, pieces)), schema=PIECES)
