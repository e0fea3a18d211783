"""Work of the layer of containment on batches of documents, of their shingles and of pairs."""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Shuffle
from dedup.kernels import Flags, Hashes, Integers
from dedup.kernels.election import RANKED
from dedup.kernels.runs.bounds import mark_firsts, rank
from dedup.kernels.runs.counting import add_groups
from dedup.kernels.runs.groups import bound_groups, drop_repeated, join_groups
from dedup.kernels.sets import containment
from dedup.kernels.sets.jaccard import bin_similarities, count_shared
from dedup.kernels.sets.shingles import shingle_texts
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.holders import HELD, share
from dedup.tables import arrow

STORED, TEXTS = "holders", "wholes"
"""Tables of a store with HELD, and with WHOLE and the state that has brought each, of documents that stay."""
WHOLE = pa.schema([("doc_id", pa.int64()), ("text", pa.large_string())])
MOST_HOLDERS = 1 << 16
"""Documents up to which those of a shingle are counted: which of two that are more common is rarer matters little."""
PIECE_ROWS = 1 << 12
"""Rows whose pairs are made at a time."""
PIECE_SHINGLES = 1 << 20
"""Shingles that are sent at a time: 8 MB."""

SETS = arrow.integer_lists("shingles")
PREFIXES = arrow.integers("shingle", "doc_id", "turn", "rank", "chosen")
"""`turn` is the size, negative, and `chosen` 1 of those by which a document finds others."""
CLAIMS = arrow.integers("shingle", "doc_id", "place", "seeks", "head_id")
"""Holders of a shingle by their `place` in the order of election, from 0: with `seeks` 1 those that it makes find the
ones before, and of the others those that may be found behind `head_id`, which is the first."""
PAIRED = arrow.integers("doc_id", "other_id", "missed")
"""Pairs to compare, the first of as many shingles or fewer; rows of a document with itself count pairs left out, and
`missed` is DONE of pairs that have been compared."""
DONE = -1
ASKED = pa.schema([*arrow.integers("doc_id", "missed"), *arrow.integer_lists("others")])
"""Documents to compare, with the others that may contain each; empty for those that only contain."""
CONTAINED = arrow.integers("larger_id", "role", "doc_id")
"""Documents with another that contains each; the role SURE says of a document that it stays, and comes first."""
SURE, INSIDE = range(2)
GONE = arrow.integers("doc_id")
OPEN = arrow.integers("doc_id", "role", "shingle", "place", "seeks")
"""CLAIMS of documents; the role OUT says of one that it goes, and comes first."""
OUT, CLAIM = range(2)
LEFT = arrow.integers("shingle", "place", "doc_id", "seeks", "is_open")
"""CLAIMS whose documents find others than the first: `is_open` 1 of those that can be found."""
LINKS = arrow.integers("left_id", "right_id")
MISSING = arrow.integers("doc_id", "missed")
BINNED = arrow.integers("bin", "pairs")
COMPARED = ("source", *RANKED)
"""Columns of documents that travel with their sets."""
LARGER = "larger_"
"""Begins the names of columns of the other document of a pair."""


def name_schemas(id_type: pa.DataType) -> tuple[pa.Schema, pa.Schema, pa.Schema]:
    """Return the schemas of documents with their sets, of sets on their way to another, and of pairs compared."""
    register = arrow.register(id_type)
    ranked = [register.field(name) for name in COMPARED]
    sets = pa.schema([*ASKED, *SETS, *ranked])
    sent = pa.schema([*arrow.integers("to", "turn", "doc_id"), *SETS, *ranked])
    side = [*arrow.integers("doc_id", "size"), *ranked]
    larger = [pa.field(LARGER + field.name, field.type) for field in side]
    return sets, sent, pa.schema([*arrow.integers("shared"), *side, *larger])


def _shingle(texts: pa.Array, shingle_size: int, tokenizer: Tokenizer) -> pa.Array:
    _, _, shingles, offsets = shingle_texts(texts, shingle_size, tokenizer)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(shingles.view(np.int64)))


def shingle_batch(batch: pa.RecordBatch, *, shingle_size: int, tokenizer: Tokenizer) -> Mapping[str, pa.Array]:
    """Return the shingles of documents."""
    return {"shingles": _shingle(batch["text"], shingle_size, tokenizer)}


def list_shingles(batches: Batches) -> Batches:
    """Give every shingle a row."""
    for batch in batches:
        owners = pc.list_parent_indices(batch["shingles"])
        sizes = pc.list_value_length(batch["shingles"]).cast(pa.int64())
        columns = [batch["shingles"].flatten(), batch["doc_id"].take(owners), sizes.take(owners)]
        yield pa.RecordBatch.from_arrays(columns, schema=HELD)


COUNT_HOLDERS = share(list_shingles, MOST_HOLDERS)
"""SETS -> SHARED; 0 holders say that in place of a shingle there stands the rank."""


def choose_prefixes(batches: Batches, *, threshold: float, least: int) -> Batches:
    """Mark the shingles by which documents find those that may contain them."""
    for whole in join_groups(batches, ["doc_id"]):
        bounds = bound_groups(whole, ["doc_id"])
        ranks = np.repeat(whole["shingle"].to_numpy()[bounds[:-1]], np.diff(bounds))
        is_shared = whole["holders"].to_numpy() > 0
        batch = whole.filter(pa.array(is_shared))
        sizes = batch["size"].to_numpy()
        chosen = containment.mark_prefixes(batch["doc_id"].to_numpy(), sizes, threshold, least)
        numbers = -sizes, ranks[is_shared], chosen.astype(np.int64)
        columns = [batch["shingle"], batch["doc_id"], *map(pa.array, numbers)]
        yield pa.RecordBatch.from_arrays(columns, schema=PREFIXES)


def claim(batches: Batches, *, most: int) -> Batches:
    """PREFIXES by shingle -> CLAIMS: the first `most` holders of a shingle are all that is held back."""
    held, seen, is_told = pa.RecordBatch.from_pylist([], PREFIXES), 0, False
    for received in batches:
        batch, known = received, 0
        if not batch.num_rows:
            continue
        if held.num_rows and held["shingle"][0] == batch["shingle"][0]:
            batch, known = pa.concat_batches([held, batch]), held.num_rows
        bounds = bound_groups(batch, ["shingle"])
        of = np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
        is_new = np.arange(of.size) >= known
        places = rank(of) + np.where(is_new & (of == 0), max(seen - known, 0) if known else 0, 0)
        is_chosen = batch["chosen"].to_numpy() == 1
        seeks = is_new & is_chosen & (places > 0)
        # Who is second finds the first alone.
        told = np.bincount(of[seeks & (places > 1)], minlength=bounds.size - 1) > 0
        told[0] |= known > 0 and is_told
        waits = is_new | ~(is_chosen | is_told)
        taken = np.flatnonzero(seeks | (waits & told[of] & (places > 0) & (places < most)))
        shingles, doc_ids = (batch[name].to_numpy() for name in ("shingle", "doc_id"))
        columns = shingles[taken], doc_ids[taken], places[taken], seeks[taken], doc_ids[bounds[of[taken]]]
        yield pa.RecordBatch.from_arrays([pa.array(column.astype(np.int64)) for column in columns], schema=CLAIMS)
        held, seen, is_told = batch.slice(int(bounds[-2]), most), int(places[-1]) + 1, bool(told[-1])


def name_heads(batches: Batches, *, most: int) -> Batches:
    """CLAIMS -> PAIRED: every document with the first holder of each shingle by which it finds others."""
    for whole in batches:
        batch = whole.filter(pc.equal(whole["seeks"], 1))
        none = pa.array(np.zeros(batch.num_rows, dtype=np.int64))
        pairs = pa.RecordBatch.from_arrays([batch["doc_id"], batch["head_id"], none], schema=PAIRED)
        missed = pc.max_element_wise(pc.subtract(batch["place"], most), 0)
        left_out = pa.RecordBatch.from_arrays([batch["doc_id"], batch["doc_id"], missed], schema=PAIRED)
        yield left_out.filter(pc.greater(missed, 0))
        yield from name_both([pairs])


def note_done(batches: Batches) -> Batches:
    """CLAIMS -> PAIRED, as compared: what `name_heads` names."""
    for whole in batches:
        batch = whole.filter(pc.equal(whole["seeks"], 1))
        done = pa.array(np.full(batch.num_rows, DONE))
        yield pa.RecordBatch.from_arrays([batch["doc_id"], batch["head_id"], done], schema=PAIRED)


def note_sure(batches: Batches) -> Batches:
    """ASKED -> CONTAINED: the documents that nothing may contain."""
    for batch in batches:
        sure = batch.filter(pc.equal(pc.list_value_length(batch["others"]), 0))["doc_id"]
        yield pa.RecordBatch.from_arrays([sure, pa.array(np.full(len(sure), SURE)), sure], schema=CONTAINED)


def find_gone(batches: Batches) -> Batches:
    """CONTAINED by the one that contains -> GONE: the documents within one that is sure to stay."""
    for batch, follows in _follow(batches, "larger_id", SURE):
        yield pa.RecordBatch.from_arrays([batch["doc_id"].filter(pa.array(follows))], schema=GONE)


FIND_GONE = Shuffle(emitted=CONTAINED, by=("larger_id",), order=("role",), work=find_gone, schema=GONE)
"""CONTAINED -> GONE."""


def open_claims(batches: Batches, *, most: int) -> Batches:
    """OPEN by document -> LEFT: one that goes is found no more."""
    for batch, follows in _follow(batches, "doc_id", OUT):
        places = batch["place"].to_numpy()
        is_claim = batch["role"].to_numpy() == CLAIM
        seeks = is_claim & (batch["seeks"].to_numpy() == 1) & (places > 1)
        is_open = is_claim & ~follows & (places < most)
        flags = (pa.array(flag.astype(np.int64)) for flag in (seeks, is_open))
        rows = pa.RecordBatch.from_arrays([batch["shingle"], batch["place"], batch["doc_id"], *flags], schema=LEFT)
        yield rows.filter(pa.array(seeks | is_open))


def _follow(batches: Batches, key: str, role: int) -> Iterator[tuple[pa.RecordBatch, Flags]]:
    """Yield batches, and which rows of other roles come behind one of this role that has their key."""
    last: int | None = None
    for batch in batches:
        if batch.num_rows:
            keys, is_first = batch[key].to_numpy(), batch["role"].to_numpy() == role
            yield batch, ~is_first & (np.isin(keys, keys[is_first]) | (keys == last))
            last = next(iter(keys[is_first][-1:].tolist()), last)


def pair(batches: Batches) -> Batches:
    """LEFT by shingle -> PAIRED: every document that seeks with the open ones before, which are all that is held."""
    held = pa.RecordBatch.from_pylist([], LEFT)
    for whole in batches:
        for begin in range(0, whole.num_rows, PIECE_ROWS):
            batch = whole.slice(begin, PIECE_ROWS)
            if held.num_rows and held["shingle"][0] == batch["shingle"][0]:
                batch = pa.concat_batches([held, batch])
            shingles, _, doc_ids, seeks, is_open = (column.to_numpy() for column in batch.columns)
            ones, others = containment.pair_holders(shingles, seeks == 1, is_open == 1)
            columns = doc_ids[ones], doc_ids[others], np.zeros_like(ones)
            yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=PAIRED)
            held = batch.slice(int(bound_groups(batch, ["shingle"])[-2]))
            held = held.filter(pc.equal(held["is_open"], 1))
            held = held.set_column(3, "seeks", pa.array(np.zeros(held.num_rows, dtype=np.int64)))


PAIR = Shuffle(emitted=LEFT, by=("shingle",), order=("place",), work=pair, schema=PAIRED)
"""LEFT -> PAIRED."""


def name_both(batches: Batches) -> Batches:
    """Name every document of a pair."""
    for batch in batches:
        yield batch
        pairs = batch.filter(pc.not_equal(batch["doc_id"], batch["other_id"]))
        pairs = pairs.filter(pc.not_equal(pairs["missed"], DONE))
        none = pa.array(np.zeros(pairs.num_rows, dtype=np.int64))
        yield pa.RecordBatch.from_arrays([pairs["other_id"], pairs["other_id"], none], schema=PAIRED)


def join_pairs(batches: Batches) -> Batches:
    """Join the pairs of each document."""
    for batch in join_groups(batches, ["doc_id"]):
        doc_ids, others, missed = (batch[name].to_numpy() for name in PAIRED.names)
        bounds = bound_groups(batch, ["doc_id"])
        # Of equal pairs the one that has been compared comes first.
        distinct = mark_firsts(doc_ids, others) & (doc_ids != others) & (missed != DONE)
        lists = pa.ListArray.from_arrays(
            pa.array(np.concatenate(([0], np.cumsum(distinct)))[bounds], pa.int32()), pa.array(others[distinct])
        )
        sums = np.add.reduceat(np.maximum(missed, 0), bounds[:-1])
        is_asked = np.logical_or.reduceat(missed != DONE, bounds[:-1])
        rows = pa.RecordBatch.from_arrays([pa.array(doc_ids[bounds[:-1]]), pa.array(sums), lists], schema=ASKED)
        yield rows.filter(pa.array(is_asked))


def shingle_again(batches: Batches, *, shingle_size: int, tokenizer: Tokenizer, schema: pa.Schema) -> Batches:
    """Return the sets of documents that are to be compared."""
    for batch in batches:
        shingles = _shingle(batch["text"], shingle_size, tokenizer)
        columns = [shingles if name == "shingles" else batch[name] for name in schema.names]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def send_sets(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Send every set to the others that may contain it, and keep one where it is."""
    for batch in batches:
        owners = np.concatenate((np.arange(batch.num_rows), pc.list_parent_indices(batch["others"]).to_numpy()))
        targets = np.concatenate((batch["doc_id"].to_numpy(), batch["others"].flatten().to_numpy()))
        turns = (np.arange(owners.size) >= batch.num_rows).astype(np.int64)
        ends = np.cumsum(pc.list_value_length(batch["shingles"]).to_numpy()[owners])
        begin = 0
        while begin < owners.size:
            spent = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, spent + PIECE_SHINGLES, side="right")), begin + 1)
            taken = batch.take(pa.array(owners[begin:end]))
            known = {"to": pa.array(targets[begin:end]), "turn": pa.array(turns[begin:end])}
            columns = [known[name] if name in known else taken[name] for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
            begin = end


def compare(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Count what sets share with the one that they were sent to, which comes first; it alone is held back."""
    held: pa.RecordBatch | None = None
    for received in batches:
        batch = received
        if not batch.num_rows:
            continue
        if held is not None and held["to"][0] == batch["to"][0]:
            batch = pa.concat_batches([held, batch])
        bounds = bound_groups(batch, ["to"])
        firsts = np.repeat(bounds[:-1], np.diff(bounds))
        left = np.flatnonzero(batch["turn"].to_numpy() == 1)
        right = firsts[left]
        sizes = pc.list_value_length(batch["shingles"]).to_numpy().astype(np.int64)
        shared = _count_shared(batch["shingles"], sizes, left, right)
        sides = [
            column
            for rows in (left, right)
            for taken in [batch.take(pa.array(rows))]
            for column in [taken["doc_id"], pa.array(sizes[rows]), *(taken[name] for name in COMPARED)]
        ]
        yield pa.RecordBatch.from_arrays([pa.array(shared), *sides], schema=schema)
        held = batch.slice(int(bounds[-2]), 1)


def _count_shared(sets: pa.Array, sizes: Integers, left: Integers, right: Integers) -> Integers:
    shingles: Hashes = sets.flatten().to_numpy().view(np.uint64)
    return count_shared(shingles, np.concatenate(([0], np.cumsum(sizes))), left, right)


def select_edges(batches: Batches, *, threshold: float) -> Batches:
    """Take the pairs of which one contains the other."""
    for batch in batches:
        needed = containment.count_needed(batch["size"].to_numpy(), threshold)
        yield batch.filter(pa.array(batch["shared"].to_numpy() >= needed))


def to_links(batches: Batches) -> Batches:
    """Return the documents of pairs, the lesser on the left."""
    for batch in batches:
        ends = batch["doc_id"].to_numpy(), batch[f"{LARGER}doc_id"].to_numpy()
        yield pa.RecordBatch.from_arrays([np.minimum(*ends), np.maximum(*ends)], schema=LINKS)


def bin_pairs(batches: Batches) -> Batches:
    """Count pairs by their containment."""
    for batch in batches:
        bins, counts = np.unique(
            bin_similarities(batch["shared"].to_numpy() / batch["size"].to_numpy()), return_counts=True
        )
        yield pa.RecordBatch.from_arrays([pa.array(bins), pa.array(counts)], schema=BINNED)


BIN_PAIRS = Shuffle(
    emit=bin_pairs,
    emitted=BINNED,
    by=("bin",),
    order=("pairs",),
    work=partial(add_groups, by=("bin",), sums=("pairs",), firsts=()),
    schema=BINNED,
)
"""Pairs compared -> how many there are in each bin of containment."""


def select_missing(batches: Batches) -> Batches:
    """Take the documents that were not compared with all that may contain them."""
    for batch in batches:
        yield batch.select(MISSING.names).filter(pc.greater(batch["missed"], 0))


def take_left(batches: Batches) -> Batches:
    """Take the documents that are not gone."""
    for batch in drop_repeated(batches, ["doc_id"]):
        yield batch.filter(pc.greater(batch["missed"], 0))


TAKE_LEFT = Shuffle(emitted=MISSING, by=("doc_id",), order=("missed",), work=take_left, schema=MISSING)
"""MISSING of all documents -> that of those that stay."""
