"""Work of the layer of containment on batches of documents, of their shingles and of pairs."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Compared, Comparison, Shuffle, Tally
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform, take_equal
from dedup.kernels.runs.bounds import rank
from dedup.kernels.runs.counting import add_groups
from dedup.kernels.runs.groups import bound_groups, drop_repeated, join_groups
from dedup.kernels.sets import containment
from dedup.kernels.sets.exact import least_shared
from dedup.kernels.sets.jaccard import bin_similarities, count_shared
from dedup.kernels.sets.shingles import shingle_texts
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.foreign import mark_foreign
from dedup.layers.holders import share
from dedup.layers.near.comparison import PAIRS, read_sets
from dedup.tables import arrow

STORED, TEXTS = "holders", "wholes"
"""Tables of a store with HELD, and with WHOLE and the state that has brought each, of documents that stay."""
WHOLE = pa.schema([("doc_id", pa.int64()), ("text", pa.large_string())])
MOST_HOLDERS = 1 << 16
"""Documents up to which those of a shingle are counted: which of two that are more common is rarer matters little."""
PIECE_ROWS = 1 << 12
"""Rows whose pairs are made at a time."""
SHINGLE_BYTES = 8
CONTAINMENTS = "containments"
"""Histogram of the pairs compared, by the bin of their containment."""

SETS = pa.schema([("shingles", pa.binary())])
PREFIXES = arrow.integers("shingle", "doc_id", "turn", "rank", "chosen")
"""`turn` is the size, negative, and `chosen` 1 of those by which a document finds others."""
CLAIMS = arrow.integers("shingle", "doc_id", "place", "seeks", "head_id")
"""Holders of a shingle by their `place` in the order of election, from 0: with `seeks` 1 those that it makes find the
ones before, and of the others those that may be found behind `head_id`, which is the first."""
PAIRED = pa.schema([*PAIRS, ("turn", pa.int64())])
"""Pairs of documents; `turn` says whether they have been compared, and puts those that have first."""
COMPARED, NEXT = range(2)
LEFT = arrow.integers("shingle", "place", "doc_id", "seeks", "is_open")
"""CLAIMS whose documents find others than the first: `is_open` 1 of those that can be found."""
WANTED = pa.schema([*arrow.integers("doc_id", "size"), ("shingles", pa.binary())])
"""Documents to compare, with their shingles: uint64, ascending."""
OVERLAPS = pa.schema([*PAIRS, *arrow.integers("shared", "size_left", "size_right")])
"""Pairs of which one contains the other, with the shingles that both have."""
MISSING = arrow.integers("doc_id", "missed")
"""Documents that find others, with the number of pairs left out."""
VOTING = ("id", "source", "rank", "is_fixed")
"""Columns of documents that decide an election: the last says whether one stays whatever contains it."""
LARGER = "larger_"
"""Begins the names of columns of the other document of a pair."""


def voters(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of documents as an election looks at them."""
    types = (pa.int64(), id_type, pa.string(), pa.int64(), pa.bool_())
    return pa.schema([*zip(("doc_id", *VOTING), types, strict=True)])


def contained(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of CONTAINED: pairs with both of their documents, the second of which contains the first."""
    side = [*voters(id_type), pa.field("size", pa.int64())]
    larger = [pa.field(LARGER + field.name, field.type) for field in side]
    return pa.schema([*side, *larger, ("shared", pa.int64())])


def to_voters(batches: Batches, *, rules: Sequence[tuple[str, str]], schema: pa.Schema) -> Batches:
    """Return ranked documents as `voters` has them."""
    for batch in batches:
        yield conform(batch, schema, is_fixed=mark_foreign(batch, rules))


def shingle_batch(batch: pa.RecordBatch, *, shingle_size: int, tokenizer: Tokenizer) -> Mapping[str, pa.Array]:
    """Return the shingles of documents."""
    _, _, shingles, offsets = shingle_texts(batch["text"], shingle_size, tokenizer)
    return {"shingles": blocks.lists(shingles, offsets)}


COUNT_HOLDERS = share(MOST_HOLDERS)
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


def claim_shingles(most: int) -> Shuffle:
    """Return the shuffle that makes CLAIMS of PREFIXES: see `claim`."""
    return Shuffle(
        emitted=PREFIXES, by=["shingle"], order=["turn", "rank"], work=partial(claim, most=most), schema=CLAIMS
    )


def count_missed(most: int) -> Shuffle:
    """Return the shuffle CLAIMS -> MISSING of the documents that find others."""
    return Shuffle(
        emit=partial(_emit_missed, most=most),
        emitted=MISSING,
        by=("doc_id",),
        work=partial(add_groups, by=("doc_id",), sums=("missed",), firsts=()),
        schema=MISSING,
    )


def _emit_missed(batches: Batches, *, most: int) -> Batches:
    for whole in batches:
        batch = whole.filter(pc.equal(whole["seeks"], 1))
        missed = pc.max_element_wise(pc.subtract(batch["place"], most), 0)
        yield pa.RecordBatch.from_arrays([batch["doc_id"], missed], schema=MISSING)


def name_heads(batches: Batches) -> Batches:
    """CLAIMS -> PAIRS: every document with the first holder of each shingle by which it finds others."""
    for whole in batches:
        batch = whole.filter(pc.equal(whole["seeks"], 1))
        yield _pair(batch["doc_id"].to_numpy(), batch["head_id"].to_numpy())


def _pair(ones: Integers, others: Integers) -> pa.RecordBatch:
    ends = np.minimum(ones, others), np.maximum(ones, others)
    return pa.RecordBatch.from_arrays([*map(pa.array, ends)], schema=PAIRS)


def open_claims(batches: Batches, *, most: int) -> Batches:
    """CLAIMS -> LEFT, of which those whose place is below `most` can be found."""
    for batch in batches:
        places = batch["place"].to_numpy()
        seeks, is_open = (batch["seeks"].to_numpy() == 1) & (places > 1), places < most
        yield conform(batch, LEFT, seeks=seeks, is_open=is_open).filter(pa.array(seeks | is_open))


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
            yield conform(_pair(doc_ids[ones], doc_ids[others]), PAIRED, turn=NEXT)
            held = batch.slice(int(bound_groups(batch, ["shingle"])[-2]))
            held = held.filter(pc.equal(held["is_open"], 1))
            held = held.set_column(3, "seeks", pa.array(np.zeros(held.num_rows, dtype=np.int64)))


PAIR = Shuffle(emitted=LEFT, by=("shingle",), order=("place",), work=pair, schema=PAIRED)
"""LEFT -> PAIRED."""


def _leave_compared(batches: Batches) -> Batches:
    yield from take_equal(drop_repeated(batches, PAIRS.names), schema=PAIRS, turn=NEXT)


LEAVE_COMPARED = Shuffle(emitted=PAIRED, by=tuple(PAIRS.names), order=("turn",), work=_leave_compared, schema=PAIRS)
"""PAIRED -> the distinct pairs that have not been compared."""


def shingle_again(batches: Batches, *, shingle_size: int, tokenizer: Tokenizer) -> Batches:
    """Return the sets of documents that are to be compared."""
    for batch in batches:
        _, _, shingles, offsets = shingle_texts(batch["text"], shingle_size, tokenizer)
        yield conform(batch, WANTED, size=np.diff(offsets), shingles=blocks.lists(shingles, offsets))


def compare(threshold: float) -> Comparison[tuple[Hashes, Integers]]:
    """Return the comparison that keeps pairs of which one contains the other: OVERLAPS."""
    return Comparison(
        columns=("doc_id", "shingles"),
        prepare=read_sets,
        work=partial(_compare, threshold=threshold),
        schema=OVERLAPS,
    )


def _compare(sets: tuple[Hashes, Integers], left: Integers, right: Integers, *, threshold: float) -> Compared:
    sizes, shared = np.diff(sets[1]), count_shared(*sets, left, right)
    smaller = np.minimum(sizes[left], sizes[right])
    chosen = np.flatnonzero(shared >= least_shared(smaller, threshold))
    columns = {"shared": shared, "size_left": sizes[left], "size_right": sizes[right]}
    tally = Tally().add_each(CONTAINMENTS, bin_similarities(shared / smaller))
    return Compared(chosen, {name: pa.array(column[chosen]) for name, column in columns.items()}, tally)


def direct(batches: Batches, *, schema: pa.Schema) -> Batches:
    """OVERLAPS with what `voters` has of both documents -> CONTAINED; of equal sizes the first in rank contains."""
    for batch in batches:
        sides = [
            {"doc_id": batch[f"{end}_id"]} | {name: batch[f"{name}_{end}"] for name in ("size", *VOTING)}
            for end in ("left", "right")
        ]
        (size, rank_of), (other_size, other_rank) = ([side[name] for name in ("size", "rank")] for side in sides)
        is_later = pc.and_(pc.equal(size, other_size), pc.greater(rank_of, other_rank))
        in_right = pc.or_(pc.less(size, other_size), is_later)
        columns = {name: pc.if_else(in_right, one, sides[1][name]) for name, one in sides[0].items()}
        larger = {LARGER + name: pc.if_else(in_right, sides[1][name], one) for name, one in sides[0].items()}
        yield conform(batch, schema, **columns, **larger)


def to_links(batches: Batches) -> Batches:
    """CONTAINED -> PAIRS."""
    for batch in batches:
        yield _pair(batch["doc_id"].to_numpy(), batch[f"{LARGER}doc_id"].to_numpy())


def select_missing(batches: Batches) -> Batches:
    """Take the documents that were not compared with all that may contain them."""
    for batch in batches:
        yield batch.filter(pc.greater(batch["missed"], 0))
