"""Tables of the layer near that several of its parts read, with what is known of them."""

from typing import Any, Generic, NamedTuple

from dedup.engine.engine import Engine, Rows, Size
from dedup.tables.counts import Signed


class Signatures(NamedTuple, Generic[Rows]):
    """Documents that were signed."""

    documents: Rows
    """SIGNATURES without keys and signatures."""
    identical: Rows
    copies: int
    """Rows of it."""
    heads: Rows
    """HEADS of one document of each shingle set; those without a token are none."""
    counts: Signed


class ShingleSets(NamedTuple, Generic[Rows]):
    """SETS of some documents."""

    rows: Rows
    documents: int
    bytes: int


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
