"""SIGNATURES -> IDENTICAL, BUCKETS: documents of one shingle set, and those that agree in a band or share a shingle."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Shuffle, Tally
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs import blocks
from dedup.kernels.runs.counting import UNBOUNDED
from dedup.kernels.runs.groups import join_groups
from dedup.kernels.sets import lsh
from dedup.kernels.sets.containment import mark_prefixes
from dedup.kernels.sets.identical import find_identical
from dedup.layers.holders import SHARED, share
from dedup.tables import arrow

DIGESTS = arrow.integers("digest_high", "digest_low", "doc_id")
IDENTICAL = arrow.integers("doc_id", "set_id")
"""Documents whose shingle set is that of another with a lesser id, `set_id` the least of them."""
KEYED = arrow.integers("key", "doc_id")


def _emit_digests(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(DIGESTS.names).filter(pc.greater(batch["size"], 0))


def _collapse(batches: Batches) -> Batches:
    high, low, doc_ids = (column.to_numpy() for column in pa.Table.from_batches(batches, DIGESTS).columns)
    yield pa.RecordBatch.from_arrays([*map(pa.array, find_identical(high, low, doc_ids))], schema=IDENTICAL)


COLLAPSE = Shuffle(
    emit=_emit_digests,
    emitted=DIGESTS,
    by=("digest_high", "digest_low"),
    work=_collapse,
    schema=IDENTICAL,
    repeated=True,
    in_order=False,
)
"""SIGNATURES -> IDENTICAL; documents without a token are identical to none."""


def take_heads(batches: Batches) -> Batches:
    """Yield one document of each shingle set, of documents with the `set_id` of IDENTICAL.

    Those without a token agree in all bands, and have nothing in common.
    """
    for batch in batches:
        yield batch.filter(pc.and_(pc.is_null(batch["set_id"]), pc.greater(batch["size"], 0)))


def _emit_bands(batches: Batches) -> Batches:
    for batch in take_heads(batches):
        keys, bounds = blocks.unlists(batch["band_keys"], "<i8")
        yield pa.RecordBatch.from_arrays([keys, np.repeat(batch["doc_id"].to_numpy(), np.diff(bounds))], schema=KEYED)


def _bucket(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    given, doc_ids = (column.to_numpy() for column in pa.Table.from_batches(batches, KEYED).columns)
    keys, members, offsets = lsh.group(given.view(np.uint64), doc_ids)
    yield Tally(members=members.size).add_each("sizes", np.diff(offsets))
    yield from to_buckets(keys, members, offsets)


def to_buckets(keys: Hashes, members: Integers, offsets: Integers, most: int = 1 << 27) -> Iterator[pa.RecordBatch]:
    """Yield BUCKETS as from `lsh.group`, with at most so many members in a batch, or one bucket."""
    begin = 0
    while begin < keys.size:
        end = max(int(np.searchsorted(offsets, offsets[begin] + most, side="right")) - 1, begin + 1)
        bounds = offsets[begin : end + 1] - offsets[begin]
        cells = blocks.lists(members[offsets[begin] : offsets[end]], bounds)
        columns = [pa.array(keys[begin:end].view(np.int64)), pa.array(np.diff(bounds)), cells]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow.BUCKETS)
        begin = end


BUCKET = Shuffle(
    emit=_emit_bands,
    emitted=KEYED,
    by=("key",),
    work=_bucket,
    schema=arrow.BUCKETS,
    repeated=True,
    in_order=False,
)
"""SIGNATURES of heads -> BUCKETS of documents that agree in a band; 16 bytes x bands a document travel.

The tally has `members`, and the histogram `sizes` of buckets."""
BUCKET_KEYED = replace(BUCKET, emit=None)
"""KEYED -> BUCKETS of documents that share a key, such as a shingle of their prefixes."""


SHARE = share(UNBOUNDED)
"""SETS -> their shingles that several documents have."""


def choose_prefixes(threshold: float) -> Shuffle:
    """Return the shuffle SHARED -> the prefixes of exact mode, as KEYED.

    Two sets with Jaccard at least t share one of the first `n - ceil(t n) + 1` shingles of each, in any one order of
    all shingles: rarest first makes the fewest pairs [1]_. A shingle of one document shares nothing, so it takes its
    place in the prefix and no row.

    References
    ----------
    .. [1] S. Chaudhuri, V. Ganti, R. Kaushik: A primitive operator for similarity joins in data cleaning. ICDE 2006;
       R. J. Bayardo, Y. Ma, R. Srikant: Scaling up all pairs similarity search. WWW 2007.
    """
    return Shuffle(
        emitted=SHARED,
        by=("doc_id",),
        order=("holders", "shingle"),
        work=partial(_select_prefixes, threshold=threshold),
        schema=KEYED,
    )


def _select_prefixes(batches: Batches, *, threshold: float) -> Batches:
    for batch in join_groups(batches, ["doc_id"]):
        chosen = mark_prefixes(batch["doc_id"].to_numpy(), batch["size"].to_numpy(), threshold)
        yield pa.RecordBatch.from_arrays([batch["shingle"], batch["doc_id"]], schema=KEYED).filter(pa.array(chosen))
