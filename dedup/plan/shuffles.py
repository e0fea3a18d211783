"""Rows and bytes that the verbs of an engine shuffle on Spark: see `dedup.engine.engine.Engine`.

The bytes of a row are those of its schema; what Spark and LZ4 make of them was measured.
"""

import math
from typing import NamedTuple

import pyarrow as pa

from dedup.engine import placement
from dedup.engine.pairing import ADDRESSED

PLACED_BYTES = 12
"""Bytes left by LZ4 of the place of a document that is read again, in tables of Arrow."""
PLACE_BYTES = 4
"""Bytes left by LZ4 of the place of a document in rows that are in the order of the input."""
ROW_BYTES = 9
"""Bytes left by LZ4 of those that a shuffled row of Spark has besides its columns: length, nulls, offsets."""
BLOCK_BYTES = 40
"""Bytes left by LZ4 of those of a row that is a block of numbers, besides the numbers."""
ID_BYTES = 8
REPEAT_BYTES = 4
"""Bytes left by LZ4 of the second and further of equal ids one after another in a block, all together."""


class Item(NamedTuple):
    """Number of things and bytes of each."""

    what: str
    number: float
    each: float

    @property
    def bytes(self) -> float:
        """Number times each."""
        return self.number * self.each


def width(schema: pa.Schema, **varying: float) -> float:
    """Return the bytes of a row's columns, given those of strings and binary cells that are not empty, by name."""
    fixed = {each.name: each.type.bit_width // 8 for each in schema if pa.types.is_primitive(each.type)}
    return math.fsum(varying.get(name, fixed.get(name, 0)) for name in schema.names)


def ids(times: float, partitions: int) -> float:
    """Return the bytes of an id in a row, if a document has so many rows, one after another, for these partitions."""
    reached = partitions * (1 - (1 - 1 / partitions) ** times) if partitions > 1 else 1.0
    return (ID_BYTES * reached + REPEAT_BYTES * (1 - reached / times)) / times


def group(what: str, schema: pa.Schema, rows: float, cores: int, *, each: float | None = None) -> list[Item]:
    """Return what travels for `Engine.group` if numbers are emitted: each task sends a partition a block at a time.

    Parameters
    ----------
    each
        Bytes of a row after LZ4; None for those of the schema.
    """
    partitions = placement.place_rows(len(schema), rows, cores)
    batches = max(min(cores, rows), 8 * len(schema) * rows / placement.SENT_BYTES)
    blocks = batches * partitions * -math.expm1(-rows / max(batches, 1) / partitions)
    sent = Item(what, rows, width(schema) if each is None else each)
    return [sent, Item(f"{what}, in blocks", blocks, BLOCK_BYTES)]


def join(few: float, each: float, *sides: Item) -> list[Item]:
    """Return what travels for `Engine.join`: nothing if the fewer rows, of so many bytes each, go to every worker."""
    return [] if placement.fits_broadcast(few) or placement.fits_worker(few * each) else [*sides]


def fetch(what: str, wanted: float, documents: float) -> list[Item]:
    """Return what travels for `Engine.fetch`: the places of documents, to the tasks that read their splits."""
    every = Item("places of all documents", documents, ROW_BYTES + ID_BYTES + PLACE_BYTES)
    sides = join(wanted, ID_BYTES, every, Item(what, wanted, ROW_BYTES + ID_BYTES))
    return [*sides, Item(f"places of {what}", wanted, PLACED_BYTES)]


def count_visits(distinct: float, among: float, groups: int) -> float:
    """Return how often documents travel to a cell of two of so many groups, given the distinct pairs among them."""
    of_each = 2 * distinct / among if among else 0.0
    return among * groups * (1 - (1 - 1 / groups) ** of_each) if groups > 1 else among


def compare(
    pairs: Item, distinct: float, named: Item, documents: Item, meeting: placement.Meeting, *, cores: int
) -> list[Item]:
    """Return what travels for `Engine.compare`.

    Parameters
    ----------
    distinct, named
        Distinct pairs, and the documents that these name, with the bytes of what is compared of each.
    documents
        All that are given.
    """
    row = ROW_BYTES + ID_BYTES
    if meeting.whole:
        return [pairs, Item("documents, all of them", documents.number, row + documents.each)]
    visits = count_visits(distinct, named.number, meeting.groups)
    found = [
        Item("documents, to find those", documents.number, row + documents.each),
        Item("documents with pairs, to be found", visits, row),
    ]
    return [
        pairs,
        *group("documents with pairs, listed", ADDRESSED, visits, cores),
        *join(visits, width(ADDRESSED), *found),
        Item("documents with pairs", visits, row + named.each),
    ]
