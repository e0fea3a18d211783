"""The end of the layer `passages`: pieces -> their characters and digests -> those verified -> spans and removals."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.kernels import Integers
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.blocks import lists, unlists
from dedup.kernels.runs.bounds import find_bounds, mark_firsts
from dedup.kernels.runs.groups import bound_groups, drop_repeated, join_groups
from dedup.kernels.text.cuts import fit
from dedup.kernels.text.tokenizer import Tokenizer, TokenPlaces
from dedup.layers.layer import CHANGED
from dedup.tables import arrow

BEGINNING = 200
"""Characters shown of a passage."""
KEY = ["key_id", "key_begin", "tokens"]
"""Tokens that a piece is compared with: of which document, from which on, and how many."""
PLACE, PIECE, PASSAGE = range(3)
"""Kinds of ranges: what pieces are held against, pieces, and passages that the report may name."""
RANGES = pa.schema([(name, pa.int64()) for name in ("doc_id", "range", "begin", *KEY, "times")])
"""Tokens of documents that are to be read: `range` is their kind, times how often a passage occurs, else 0."""
COLUMNS = RANGES.names[1:]
READ = pa.schema([("doc_id", pa.int64()), ("ranges", pa.binary())])
"""RANGES of one document, without its id."""


STORED = "texts"
"""Table of a store with KEPT and the state that has brought each."""
CUTS = arrow.integers("doc_id", "begin", "end")
LONGEST = (1 << 31) - 1
"""Characters of a text at most."""
LOST = pa.schema([("doc_id", pa.int64()), *arrow.integer_lists("cuts")])
KEPT = pa.schema([("doc_id", pa.int64()), ("text", pa.large_string()), *arrow.integer_lists("cuts")])
"""Texts of documents, and what they have lost: begin and end of each span in turn; null for nothing."""


def digested(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of RANGES with what is read of them in the text."""
    return pa.schema(
        [
            *RANGES,
            ("id", id_type),
            ("digest_high", pa.int64()),
            ("digest_low", pa.int64()),
            ("first", pa.int64()),  # characters; of pieces those that may be taken out
            ("last", pa.int64()),
            ("cut", pa.int64()),  # tokens in them
            ("count", pa.int64()),  # tokens of the document
            ("text", pa.string()),  # the beginning of a passage
        ]
    )


def verified(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of pieces whose tokens stand elsewhere, with where that is, and of passages."""
    kept = [("kept_doc_id", pa.int64()), ("kept_id", id_type), ("kept_begin", pa.int64()), ("kept_end", pa.int64())]
    names = ("doc_id", "range", "id", "first", "last", "cut", "count", "times", "text")
    return pa.schema([*(digested(id_type).field(name) for name in names), *kept])


def emit_ranges(batches: Batches) -> Batches:
    """PIECES -> RANGES: of a piece two."""
    for batch in batches:
        doc_ids, begins, ends, others, other_begins, times = (batch[name].to_numpy() for name in batch.schema.names)
        own = [doc_ids, np.where(times, PASSAGE, PIECE), begins, others, other_begins, ends - begins, times]
        # Pieces of a word over and over have one place.
        is_place = (times == 0) & mark_firsts(others, other_begins, ends - begins, times)
        there = [others, np.full_like(times, PLACE), other_begins, others, other_begins, ends - begins, times]
        for columns in (own, [column[is_place] for column in there]):
            yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=RANGES)


def gather_ranges(batches: Batches) -> Batches:
    """RANGES by all columns -> READ."""
    for batch in join_groups(batches, ["doc_id"]):
        columns = [batch[name].to_numpy() for name in RANGES.names]
        distinct = mark_firsts(*columns)
        doc_ids, *ranges = (column[distinct] for column in columns)
        bounds = find_bounds(doc_ids)
        cells = lists(np.stack(ranges, axis=1).reshape(-1), bounds * len(COLUMNS))
        yield pa.RecordBatch.from_arrays([doc_ids[bounds[:-1]], cells], schema=READ)


class _Ranges(NamedTuple):
    """Ranges of one document, columns int64."""

    range: Integers
    begin: Integers
    key_id: Integers
    key_begin: Integers
    tokens: Integers
    times: Integers


def describe_ranges(batches: Batches, *, near: int, tokenizer: Tokenizer, schema: pa.Schema) -> Batches:
    """Documents with READ -> `digested`."""
    for batch in batches:
        places = tokenizer.locate(batch["text"])
        cells, bounds = unlists(batch["ranges"], "<i8")
        rows = cells.reshape(-1, len(COLUMNS))
        counts = np.diff(bounds) // len(COLUMNS)
        documents = np.repeat(np.arange(counts.size), counts)
        ranges = _Ranges(*rows.T)
        begins = places.offsets[documents] + ranges.begin
        # Passages are held against nothing.
        held = np.flatnonzero(ranges.range != PASSAGE)
        halves = np.zeros((begins.size, 2), dtype=np.int64)
        halves[held] = places.digest(begins[held], (begins + ranges.tokens)[held], tokenizer.key)
        found: dict[str, Any] = {name: rows[:, place] for place, name in enumerate(COLUMNS)}
        found |= {"digest_high": halves[:, 0], "digest_low": halves[:, 1]}
        found |= _read(_Texts(batch["text"]), places, documents, ranges, near=near, tokenizer=tokenizer)
        found["count"] = np.diff(places.offsets)[documents]
        yield conform(batch.select(["doc_id", "id"]).take(pa.array(documents)), schema, **found)


class _Texts:
    """Texts of which a few are read, one after another."""

    def __init__(self, texts: pa.Array) -> None:
        self._raw = pc.cast(texts, pa.large_binary())
        self._number, self._text = -1, ""

    def __getitem__(self, number: int) -> str:
        if number != self._number:
            self._number, self._text = number, (self._raw[number].as_py() or b"").decode("utf-8", "replace")
        return self._text


def _read(
    texts: _Texts, places: TokenPlaces, documents: Integers, ranges: _Ranges, *, near: int, tokenizer: Tokenizer
) -> dict[str, Any]:
    """Return first and last character, tokens and, of a passage, the beginning, of each range."""
    starts = places.offsets[documents]
    lows, highs = ranges.begin, ranges.begin + ranges.tokens
    first, last, cut = places.begins[starts + lows], places.ends[starts + highs - 1], highs - lows
    pieces = np.flatnonzero(ranges.range == PIECE)
    if pieces.size:
        taken = _fit_pieces(
            texts, places, documents[pieces], lows[pieces], highs[pieces], near=near, tokenizer=tokenizer
        )
        first[pieces], last[pieces], cut[pieces] = taken
    beginnings: list[str | None] = [None] * lows.size
    for row in np.flatnonzero(ranges.range == PASSAGE).tolist():
        begin, end = int(first[row]), int(last[row])
        beginnings[row] = texts[int(documents[row])][begin : min(end, begin + BEGINNING)]
    return {"first": first, "last": last, "cut": cut, "text": pa.array(beginnings, pa.string())}


def _fit_pieces(
    texts: _Texts,
    places: TokenPlaces,
    documents: Integers,
    lows: Integers,
    highs: Integers,
    *,
    near: int,
    tokenizer: Tokenizer,
) -> tuple[Integers, Integers, Integers]:
    """Return first and last character and tokens of what may be taken out of each piece; 0 for nothing.

    Pieces that touch are fitted as one span, unless a character where they meet is of a token of both: it is neither's.
    """
    starts = places.offsets[documents]
    is_apart = np.append(True, (documents[1:] != documents[:-1]) | (lows[1:] != highs[:-1]))
    is_apart |= places.begins[starts + lows] < places.ends[np.maximum(starts + lows - 1, 0)]
    of, heads = np.cumsum(is_apart) - 1, np.flatnonzero(is_apart)
    span_ends = highs[np.append(heads[1:], lows.size) - 1]
    fitted = np.empty((4, heads.size), np.int64)
    bounds = find_bounds(documents[heads])
    for begin, end in pairwise(bounds.tolist()):
        document, rows = int(documents[heads[begin]]), heads[begin:end]
        own = slice(places.offsets[document], places.offsets[document + 1])
        fitted[:, begin:end] = fit(
            texts[document],
            places.begins[own],
            places.ends[own],
            (lows[rows], span_ends[begin:end]),
            near=near,
            tokenizer=tokenizer,
        )
    begins, ends, firsts, lasts = fitted[:, of]
    low, high = np.maximum(lows, begins), np.minimum(highs, ends)
    is_left = low < high
    one, other = (starts + np.where(is_left, each, 1) for each in (low, high))
    # Where two pieces of a span touch, what stands between them goes with the first.
    between = [
        np.maximum(places.begins[np.minimum(each, places.begins.size - 1)], places.ends[each - 1])
        for each in (one, other)
    ]
    first = np.where(low == begins, firsts, between[0])
    last = np.where(high == ends, lasts, between[1])
    return np.where(is_left, first, 0), np.where(is_left, last, 0), np.where(is_left, high - low, 0)


def verify(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Ranges with digests, by KEY and kind -> `verified`: pieces of other tokens than what they are held against go.

    No more than the latter is held, however many pieces there are.
    """
    held: pa.RecordBatch | None = None
    # Equal rows of the input, which share a document id, are read twice.
    for batch in drop_repeated(batches, [*KEY, "range", "doc_id", "begin"]):
        if not batch.num_rows:
            continue
        rows = batch if held is None else pa.concat_batches([held, batch])
        key = [rows[name].to_numpy() for name in KEY]
        firsts = np.flatnonzero(mark_firsts(*key))
        of = np.repeat(firsts, np.diff(np.append(firsts, rows.num_rows)))
        kinds, high, low = (rows[name].to_numpy() for name in ("range", "digest_high", "digest_low"))
        same = (kinds == PIECE) & (kinds[of] == PLACE) & (high == high[of]) & (low == low[of])
        chosen = same | (kinds == PASSAGE)
        chosen[:1] &= held is None
        yield _tell(rows, np.flatnonzero(chosen), of[chosen], schema)
        held = rows.slice(int(firsts[-1]), 1)


def _tell(rows: pa.RecordBatch, chosen: Integers, kept: Integers, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with those that they are held against."""
    others = {"kept_doc_id": "doc_id", "kept_id": "id", "kept_begin": "first", "kept_end": "last"}
    columns = {name: rows[other].take(pa.array(kept)) for name, other in others.items()}
    return conform(rows.take(pa.array(chosen)), schema, **columns)


def emit_pieces(batches: Batches) -> Batches:
    """Yield the pieces of `verified` of which anything may be taken out."""
    for batch in batches:
        yield batch.filter(pc.and_(pc.equal(batch["range"], PIECE), pc.greater(batch["cut"], 0)))


def _gather_cuts(batches: Batches) -> Batches:
    """CUTS by document -> doc_id and cuts."""
    for batch in join_groups(batches, ["doc_id"]):
        bounds = bound_groups(batch, ["doc_id"])
        ends = np.stack([batch[name].to_numpy() for name in CUTS.names[1:]], axis=1).reshape(-1)
        cuts = pa.ListArray.from_arrays(pa.array(2 * bounds, pa.int32()), pa.array(ends))
        yield pa.RecordBatch.from_arrays([batch["doc_id"].take(pa.array(bounds[:-1])), cuts], schema=LOST)


GATHER_CUTS = Shuffle(emitted=CUTS, by=("doc_id",), order=("begin",), work=_gather_cuts, schema=LOST)
"""CUTS -> LOST."""


def tell_changes(batches: Batches, *, keep_first: bool) -> Batches:
    """Return CHANGED of `verified` rows of earlier documents with their cuts, by document.

    With `keep_first` a passage that is the first of several is whole, so of a cut that it overlaps some would be left;
    without, no piece would be.
    """
    for whole in join_groups(batches, ["doc_id"]):
        chosen = whole.filter(pc.equal(whole["range"], PASSAGE if keep_first else PIECE))
        rows = {
            (doc_id, begin, end)
            for doc_id, first, last, cuts in zip(
                *(chosen[name].to_pylist() for name in ("doc_id", "first", "last", "cuts")), strict=True
            )
            for begin, end in (_overlap if keep_first else _leave)(_unite(cuts or []), first, last)
        }
        places = pa.RecordBatch.from_pylist([dict(zip(CUTS.names, row, strict=True)) for row in sorted(rows)], CUTS)
        yield conform(places, CHANGED, was_kept=not keep_first, would_be_kept=keep_first)


def _unite(cuts: list[int]) -> list[int]:
    """Unite cuts that touch."""
    inner = [place for place in range(1, len(cuts) - 1, 2) if cuts[place] == cuts[place + 1]]
    return [cut for place, cut in enumerate(cuts) if place not in inner and place - 1 not in inner]


def _overlap(cuts: list[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the cuts that overlap a range."""
    return ((begin, end) for begin, end in zip(cuts[::2], cuts[1::2], strict=True) if begin < last and first < end)


def _leave(cuts: list[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range that are in no cut."""
    bounds = [0, *cuts, last]
    parts = ((max(begin, first), min(end, last)) for begin, end in zip(bounds[::2], bounds[1::2], strict=True))
    return (part for part in parts if part[0] < part[1])


class Fate(NamedTuple):
    """Rule by which documents with verified pieces go whole."""

    kind: str = ""
    """Their reason; empty for none."""
    least_share: float = 1.0
    """Share of a document's tokens that must be repeated."""
    least_left: int = 0
    """Tokens that must be left."""
    keep_first: bool = True

    def choose(self, repeated: Integers, counts: Integers) -> Any:  # noqa: ANN401 - flags
        """Tell which go of documents of so many tokens, of which so many are repeated: bool [n]."""
        if self.kind == SHARE:
            # Quotient and share are both rounded to the nearest float, so equal ones are; a product may lie above.
            return repeated / counts >= self.least_share
        return (counts - repeated < self.least_left) & (self.kind != "")


SHARE, LEFT = "repeated_share", "tokens_left"
"""Kinds of removals."""


def _sum_documents(batch: pa.RecordBatch, fate: Fate) -> tuple[Integers, Integers, Any]:
    """Return where the documents of a batch begin, their repeated tokens, and whether each goes."""
    bounds = bound_groups(batch, ["doc_id"])
    repeated = np.add.reduceat(batch["cut"].to_numpy(), bounds[:-1])
    return bounds, repeated, fate.choose(repeated, batch["count"].to_numpy()[bounds[:-1]])


def tell_spans(batches: Batches, *, layer: str, kind: str, fate: Fate) -> Batches:
    """Pieces by document -> SPANS of those documents that stay."""
    for whole in join_groups(batches, ["doc_id"]):
        bounds, _, goes = _sum_documents(whole, fate)
        batch = whole.filter(pa.array(np.repeat(~goes, np.diff(bounds))))
        places = {"begin": batch["first"], "end": batch["last"], "tokens": batch["cut"]}
        kept = {} if fate.keep_first else dict.fromkeys(("kept_doc_id", "kept_begin", "kept_end"))
        yield conform(batch, arrow.SPANS, layer=layer, kind=kind, **places, **kept)


def going(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of REMOVALS with the document that stays for each, `kept_doc_id`, null where none does."""
    return arrow.removals(id_type).append(pa.field("kept_doc_id", pa.int64()))


def tell_removals(batches: Batches, *, layer: str, fate: Fate, schema: pa.Schema) -> Batches:
    """Pieces by document -> `going`: those that go, for the document that keeps the longest of their pieces."""
    for whole in join_groups(batches, ["doc_id"]):
        bounds, _, goes = _sum_documents(whole, fate)
        batch = whole.filter(pa.array(np.repeat(goes, np.diff(bounds))))
        if not batch.num_rows:
            continue
        begins = bound_groups(batch, ["doc_id"])[:-1]
        order = np.lexsort((-batch["cut"].to_numpy(), batch["doc_id"].to_numpy()))
        chosen = batch.take(pa.array(order[begins]))
        count = chosen.num_rows
        # A document of nothing but one passage over and over is kept for by none.
        other = pc.and_(pc.not_equal(chosen["doc_id"], chosen["kept_doc_id"]), fate.keep_first)
        kept, kept_doc_id = (
            pc.if_else(other, chosen[name], pa.nulls(count, chosen[name].type)) for name in ("kept_id", "kept_doc_id")
        )
        is_less = pc.less(kept_doc_id, chosen["doc_id"]).fill_null(pa.scalar(value=False))
        told = {"layer": layer, "kind": fate.kind, "representative_id": kept, "kept_doc_id": kept_doc_id}
        yield conform(chosen, schema, **told, component_id=pc.if_else(is_less, kept, chosen["id"]))


def name_kept(engine: Engine[Rows], rows: Rows) -> Rows:
    """Return REMOVALS of `going`: none of them for a document that goes itself."""
    schema = arrow.removals(engine.id_type)
    keyed = pa.schema([("key", pa.int64()), ("asks", pa.int64()), *schema])
    return engine.group(
        "removals",
        rows,
        Shuffle(
            emit=partial(_emit_ends, schema=keyed),
            emitted=keyed,
            by=["key"],
            order=["asks", "doc_id"],
            work=partial(_drop_names, schema=schema),
            schema=schema,
        ),
    )


def _emit_ends(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Yield removals by the document that goes, and with asks = 1 by that which stays for it."""
    for batch in batches:
        removal = [batch[name] for name in schema.names[2:]]
        for asks, keys in enumerate([batch["doc_id"], batch["kept_doc_id"].fill_null(0)]):
            columns = [keys, pa.repeat(pa.scalar(asks, pa.int64()), batch.num_rows), *removal]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _drop_names(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Yield the removals that ask, and take from them the name of a document that goes."""
    gone: int | None = None
    for batch in batches:
        keys, asks = batch["key"].to_numpy(), batch["asks"].to_numpy() == 1
        goes = np.isin(keys, [*keys[~asks], *([] if gone is None else [gone])])
        gone = next(iter(keys[~asks][-1:].tolist()), gone)
        name = schema.get_field_index("representative_id")
        left = pc.if_else(pa.array(goes), pa.scalar(None, schema.field(name).type), batch["representative_id"])
        yield batch.select(schema.names).set_column(name, schema.field(name), left).filter(pa.array(asks))
