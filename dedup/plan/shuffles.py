"""Cost of a stage, and the bytes that shuffles take for its rows."""

import math
from dataclasses import dataclass

from dedup.engine import placement
from dedup.plan.rows import RowCounts

BATCH_ROWS = 4096
"""Rows that Spark sends to Python at a time: `spark.sql.execution.arrow.maxRecordsPerBatch` in conf/*.conf."""
INPUT_SPLIT_BYTES = 128 << 20
"""Input of one task: Spark's `spark.sql.files.maxPartitionBytes`."""
AUTO_BROADCAST_BYTES = 10 << 20
"""Largest table that Spark broadcasts by itself: `spark.sql.autoBroadcastJoinThreshold`."""
SIGNATURE_ROW_BYTES = 60
"""Bytes of a row of SIGNATURES without the user's id, band keys and signature: an id of 8 bytes, a digest of 16, a
place of 16, the length of the text of 8, three times 4."""
ROW_BYTES = 17
"""Bytes left by LZ4 of the 50 to 70 of a shuffled row's own: length, nulls, offsets, a document id, small numbers."""
BLOCK_BYTES = 40
"""Bytes left by LZ4 of those of a row that is a block of numbers."""
PLACE_BYTES = 16
"""Bytes of a document's place (split, file and row) after LZ4."""
REPEAT_BYTES = 4
"""Bytes of a document's id that is repeated in a row within a block, after LZ4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Number of things and bytes of each."""

    what: str
    count: float
    each: float

    @property
    def bytes(self) -> float:
        """Count times each."""
        return self.count * self.each


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """Cost of one stage."""

    name: str
    shuffle: list[Item]
    tables: list[Item]
    """Tables written to OUT.partial."""
    partitions: int
    core_seconds: float

    @property
    def shuffle_bytes(self) -> float:
        """Bytes written to shuffles."""
        return sum(item.bytes for item in self.shuffle)

    @property
    def table_bytes(self) -> float:
        """Bytes written to OUT.partial."""
        return sum(item.bytes for item in self.tables)


def keyed(heads: float, bands: int, partitions: int) -> list[Item]:
    """Return the shuffled bytes of band rows: a key of 8 bytes each, and the id once per partition that it goes to."""
    reached = partitions * (1 - (1 - 1 / partitions) ** bands) if partitions > 1 else 1.0
    return [
        Item(what=f"documents, keys of {bands} bands", count=heads, each=8 * bands),
        Item(what="ids of documents, one a partition reached", count=heads * reached, each=8),
        Item(what="ids of documents, once more", count=heads * (bands - reached), each=REPEAT_BYTES / bands),
    ]


def blocks(rows: float, per_row: int, partitions: int, table_bytes: float, cores: int) -> Item:
    """Return the number of blocks in which rows leave a table: one per partition that occurs in a batch."""
    splits = max(cores, table_bytes / INPUT_SPLIT_BYTES)
    batches = max(min(splits, rows), rows / BATCH_ROWS)
    found = batches * partitions * -math.expm1(-rows * per_row / max(batches, 1) / partitions)
    return Item(what="blocks", count=found, each=BLOCK_BYTES)


def leave_out_identical(rows: RowCounts, payload: float) -> list[Item]:
    """Return the shuffles that drop all but one of identical documents: none while their table is small."""
    if 16 * rows.identical <= AUTO_BROADCAST_BYTES:
        return []
    return [
        Item(what="documents brought to their id", count=rows.documents, each=payload + ROW_BYTES),
        Item(what="identical documents", count=rows.identical, each=ROW_BYTES),
    ]


def meet(
    *,
    pairs: Item,
    ends: float,
    among: float,
    holders: float,
    payload: float,
    own: float | None = None,
    meeting: placement.Meeting,
) -> list[Item]:
    """Return the shuffles of `exchange.meet`.

    Parameters
    ----------
    pairs
        Pairs sent.
    ends
        Ends of distinct pairs; `among` documents have them.
    holders
        Documents that have a payload.
    own
        Bytes of the payload of documents with pairs; None for those of all.
    """
    each = payload + ROW_BYTES
    sent = [pairs]
    groups = meeting.groups
    if meeting.whole and groups == 1:
        return [*sent, Item(what="documents, all of them", count=holders, each=each)]
    of_each = ends / among if among else 0.0
    visits = among * groups * (1 - (1 - 1 / groups) ** of_each) if groups > 1 else among
    sent.append(Item(what="documents with pairs, listed", count=visits, each=ROW_BYTES))
    if not meeting.broadcast:
        sent += [
            Item(what="documents, to find those", count=holders, each=each),
            Item(what="documents with pairs, to be found", count=visits, each=ROW_BYTES),
        ]
    each = each if own is None else own + ROW_BYTES
    return [*sent, Item(what="documents with pairs", count=visits, each=each)]
