"""Tables of the layer near that several of its parts read, with what is known of them."""

from typing import Any, Generic, NamedTuple

from dedup.engine.engine import Engine, Rows, Size
from dedup.tables.counts import Bucketed, Signed


class Signatures(NamedTuple, Generic[Rows]):
    """Documents that were signed."""

    register: Rows
    """REGISTER of all rows, of which several may be a document."""
    documents: Rows
    """SIGNATURES without keys and signatures."""
    identical: Rows
    copies: int
    """Rows of it."""
    searched: Rows
    """SEARCHED of all documents."""
    counts: Signed


class ShingleSets(NamedTuple, Generic[Rows]):
    """SETS of some documents."""

    rows: Rows
    documents: int
    bytes: int


class Bucketing(NamedTuple, Generic[Rows]):
    """BUCKETS to pair, and how many pairs they give."""

    rows: Rows
    linked: Rows | None
    """The part of the rows that stands for buckets over the cap; None without any."""
    sets: ShingleSets[Rows] | None
    """Shingle sets of the members of buckets over the cap; None without any."""
    counts: Bucketed
    """Counts before buckets over the cap were replaced."""
    compared: int
    """Pairs that the rows give, each as often as it shares a bucket."""
    uncompared: int
    """Pairs that the cap leaves out."""
    settled: int
    """Pairs that need no comparison, since those compared connect what these could."""
    members: int
    """Members of all rows."""
    undecided: int
    """Documents whose pairs are compared under the cap."""


class Connection(NamedTuple, Generic[Rows]):
    """EDGES, near misses, and COMPONENTS of the edges."""

    edges: Rows
    near_misses: Rows
    components: Rows


def count_sets(engine: Engine[Rows], rows: Rows) -> ShingleSets[Rows]:
    """Return SETS with what their tally says."""
    tally = engine.tally(rows)
    return ShingleSets(rows, tally["rows"], tally.get("bytes", 0))


def join_sets(engine: Engine[Rows], one: ShingleSets[Rows], other: ShingleSets[Rows]) -> ShingleSets[Rows]:
    """Return the sets of both."""
    return ShingleSets(engine.concat(one.rows, other.rows), one.documents + other.documents, one.bytes + other.bytes)


def sets_size(sets: ShingleSets[Any], pairs: int) -> Size:
    """Return what a comparison of so many pairs of shingle sets moves."""
    return Size(pairs, 2 * pairs, sets.documents, sets.bytes)
