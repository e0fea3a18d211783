"""Work of the layer of contamination on batches of documents and of their grams."""

from collections.abc import Mapping
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches
from dedup.kernels.runs.batches import conform, fill
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.counting import add_groups
from dedup.kernels.runs.groups import bound_groups, drop_repeated, join_groups
from dedup.kernels.text import cuts, grams
from dedup.kernels.text.grams import Filter, GramIndex
from dedup.kernels.text.matches import KnownGrams, match
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.tables import arrow

NAME = "contamination"
CONTAMINATED, COMMON = "contaminated", "common"
NAMED = 3
"""Items that the reason of a span names; it counts the others."""
EVERY = -1
"""In place of a text, all of them."""
CHUNK = 1 << 12
"""Grams of the index that a row takes into a shuffle."""

NUMBERED = arrow.integer_lists("number", "place")
"""Grams of a document that are in the index."""
HASHED = arrow.integer_lists("high", "low", "place", "number")
"""Grams of a document that pass the filter, without numbers; or some of the index, without places."""
SENT = arrow.integers("high", "low", "is_document", "doc_id", "place", "number")
HITS = arrow.integers("doc_id", "number", "place")
COUNTED = arrow.integers("number", "documents")
MATCHED = pa.schema(
    [("doc_id", pa.int64()), *arrow.integer_lists("begin", "end"), ("texts", pa.list_(pa.list_(pa.int64())))]
)
"""Spans of a document, in tokens, and the texts that they match: none of common grams."""


def placed_schema(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of PLACED: MATCHED in characters, with the user's id and how many tokens each span has."""
    return pa.schema([("id", id_type), *MATCHED, *arrow.integer_lists("tokens")])


def read(
    batch: pa.RecordBatch, *, known: Filter, index: GramIndex | None, size: int, tokenizer: Tokenizer
) -> Mapping[str, pa.Array]:
    """Return the grams of documents that are in the index, or without one, those that pass its filter."""
    tokens, offsets = tokenizer.hash(batch["text"])
    hits = grams.find(tokens, offsets, known, size, tokenizer)
    if index is None:
        columns = {"high": hits.high.view(np.int64), "low": hits.low.view(np.int64), "place": hits.places}
        owners = hits.documents
    else:
        numbers = grams.look_up(index, hits.high, hits.low)
        found = numbers >= 0
        columns, owners = {"number": numbers[found], "place": hits.places[found]}, hits.documents[found]
    bounds = pa.array(np.searchsorted(owners, np.arange(batch.num_rows + 1)), pa.int32())
    lists = {name: pa.ListArray.from_arrays(bounds, pa.array(values)) for name, values in columns.items()}
    return lists | ({"number": fill(batch.num_rows, pa.list_(pa.int64()))} if index is None else {})


def flatten(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Give every gram a row."""
    for batch in batches:
        doc_ids = batch["doc_id"].take(pc.list_parent_indices(batch["place"]))
        yield pa.RecordBatch.from_arrays([doc_ids, batch["number"].flatten(), batch["place"].flatten()], schema=schema)


def to_rows(index: GramIndex, schema: pa.Schema) -> pa.Table:
    """Return the index as rows like those of documents, without a doc_id."""
    count = index.high.size
    bounds = np.append(np.arange(0, count, CHUNK), count)
    columns = {"high": index.high.view(np.int64), "low": index.low.view(np.int64), "number": np.arange(count)}
    lists = {
        name: pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(values))
        for name, values in columns.items()
    }
    return pa.Table.from_batches([conform(pa.record_batch(lists), schema)])


def send(batches: Batches) -> Batches:
    """Give every gram a row, of documents and of the index."""
    for batch in batches:
        owners = pc.list_parent_indices(batch["high"])
        doc_ids = batch["doc_id"].take(owners)
        is_document = doc_ids.is_valid()
        none = pa.nulls(len(owners), pa.int64())
        # Places are those of documents, numbers those of the index.
        place, number = (
            pc.replace_with_mask(none, mask, batch[name].flatten())
            for name, mask in (("place", is_document), ("number", pc.invert(is_document)))
        )
        columns = [
            batch["high"].flatten(),
            batch["low"].flatten(),
            is_document.cast(pa.int64()),
            doc_ids,
            place,
            number,
        ]
        yield pa.RecordBatch.from_arrays([column.fill_null(0) for column in columns], schema=SENT)


def join(batches: Batches) -> Batches:
    """Take the grams of documents that stand behind theirs of the index, with its number."""
    key, number = (0, 0), -1
    for batch in batches:
        if not batch.num_rows:
            continue
        high, low, is_document, numbers = (batch[name].to_numpy() for name in ("high", "low", "is_document", "number"))
        firsts = mark_firsts(high, low)
        if (int(high[0]), int(low[0])) == key:
            firsts[0] = False
        begins = np.flatnonzero(firsts)
        heads = np.concatenate(([number], np.where(is_document[begins] == 0, numbers[begins], -1)))
        found = heads[np.cumsum(firsts)]
        taken = pa.array((is_document == 1) & (found >= 0))
        rows = pa.RecordBatch.from_arrays([batch["doc_id"], pa.array(found), batch["place"]], schema=HITS)
        yield rows.filter(taken)
        key, number = (int(high[-1]), int(low[-1])), int(found[-1])


def count_documents(batches: Batches) -> Batches:
    """Count the documents that have each gram."""

    def count() -> Batches:
        for batch in drop_repeated(batches, ["number", "doc_id"]):
            ones = pa.array(np.ones(batch.num_rows, dtype=np.int64))
            yield pa.RecordBatch.from_arrays([batch["number"], ones], schema=COUNTED)

    yield from add_groups(count(), ["number"], ["documents"], [])


def match_documents(batches: Batches, *, known: KnownGrams, margin: int, with_common: bool) -> Batches:
    """Find the spans of documents; see `matches.match`."""
    for batch in join_groups(batches, ["doc_id"]):
        doc_ids, numbers, places = (batch[name].to_numpy() for name in ("doc_id", "number", "place"))
        bounds = bound_groups(batch, ["doc_id"]).tolist()
        rows = []
        for low, high in pairwise(bounds):
            spans = match(numbers[low:high], places[low:high], known, margin, with_common=with_common)
            if spans:
                begins, ends, texts = zip(*spans, strict=True)
                rows.append({"doc_id": int(doc_ids[low]), "begin": begins, "end": ends, "texts": texts})
        yield pa.RecordBatch.from_pylist(rows, MATCHED)


def place(batches: Batches, *, tokenizer: Tokenizer, schema: pa.Schema, is_cut: bool) -> Batches:
    """Turn tokens into characters, of spans to be cut into those that can be: see `cuts.widen`."""
    for batch in batches:
        places = tokenizer.locate(batch["text"])
        rows = []
        for number, row in enumerate(batch.select(["id", "text", *MATCHED.names]).to_pylist()):
            own = slice(places.offsets[number], places.offsets[number + 1])
            begins, ends = places.begins[own], places.ends[own]
            tokens = np.maximum(row["begin"], 0), np.minimum(row["end"], begins.size)
            lows, highs = cuts.widen(row["text"], begins, ends, tokens, tokenizer) if is_cut else tokens
            # Spans that touch now, or are of tokens of one character, are one.
            apart = lows[1:] > highs[:-1] if is_cut else begins[lows[1:]] >= ends[highs[:-1] - 1]
            bounds = np.flatnonzero(np.concatenate(([True], apart, [True])))
            lows, highs = lows[bounds[:-1]], highs[bounds[1:] - 1]
            texts = [sorted({*chain(*row["texts"][first:last])}) for first, last in pairwise(bounds.tolist())]
            found = {"begin": begins[lows], "end": ends[highs - 1], "texts": texts, "tokens": highs - lows}
            rows.append({"id": row["id"], "doc_id": row["doc_id"], **found})
        yield pa.RecordBatch.from_pylist(rows, schema)


def list_spans(batches: Batches, *, names: Mapping[int, str]) -> Batches:
    """Give every span a row, with the names of the texts that it matches for its reason."""
    for batch in batches:
        columns = ("begin", "end", "tokens", "texts")
        rows = [
            {"doc_id": row["doc_id"], "begin": begin, "end": end, "tokens": tokens} | _say_why(texts, names)
            for row in batch.select(["doc_id", *columns]).to_pylist()
            for begin, end, tokens, texts in zip(*(row[name] for name in columns), strict=True)
        ]
        yield pa.RecordBatch.from_pylist(rows, arrow.SPANS)


def _say_why(texts: list[int], names: Mapping[int, str]) -> dict[str, str]:
    named = [names[text] for text in texts[:NAMED]]
    more = [f"{len(texts) - NAMED} more"] if len(texts) > NAMED else []
    return {"layer": NAME, "kind": ", ".join([*named, *more]) or COMMON}


def list_texts(batches: Batches, *, sets: Mapping[int, int], schema: pa.Schema) -> Batches:
    """Give every text and set that a document matches a row, and any a further one."""
    for batch in batches:
        rows = []
        for row in batch.select(["doc_id", "id", "texts"]).to_pylist():
            texts = {text for each in row["texts"] for text in each}
            keys = texts | {sets[text] for text in texts} | ({EVERY} if texts else set())
            rows += [{"text": key, "doc_id": row["doc_id"], "id": row["id"], "documents": 1} for key in keys]
        yield pa.RecordBatch.from_pylist(rows, schema)


def list_removals(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Give every document with more than common grams a row."""
    for batch in batches:
        matching = batch.filter(pa.array([any(texts) for texts in batch["texts"].to_pylist()], pa.bool_()))
        yield conform(matching, schema, layer=NAME, kind=CONTAMINATED, component_id=matching["id"])
