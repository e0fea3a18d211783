"""Data that a task takes: pure arithmetic, by which groups are partitioned and a plan of capacity is made."""

import math
from dataclasses import dataclass

TASK_BYTES = 8 << 20
"""Least data worth a task of its own while cores are free."""
WHOLE_BYTES = 16 << 20
"""Documents that are sent to where pairs are compared without asking which of them have a pair."""
READ_BYTES = 64 << 20
"""Rows, as workers have written them, that a task reads by itself; and those that it joins them with."""
SENT_BYTES = 4 << 20
"""Rows of numbers that a task divides among partitions at a time."""
BAND_BYTES = 32 << 20
"""Rows of one partition, such as band keys: sorting them takes a worker about ten times as much memory."""
MEMBER_BYTES = 100
"""Memory of a row with other columns than numbers, as of members and edges while representatives are elected."""
CELL_PAIRS = 4 << 20
"""Pairs of one cell, as while candidates are estimated."""
CELL_BYTES = 64 << 20
"""Bytes of the documents of one cell, as of shingle sets while candidates are verified."""
SAMPLE_BYTES = 1 << 19
"""Input, as it is stored, whose tokens are counted."""
COLLECTABLE_BYTES = 256 << 20
"""Table that the driver takes whole."""
BROADCAST_ROWS = 2 << 20
"""Ids that are sent to every executor instead of being joined by a shuffle: about 50 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Plan by which pairs and their documents come together; see `exchange.meet`."""

    groups: int
    """Groups of documents; a cell holds the pairs of two."""
    whole: bool
    """Whether all documents are sent to the one cell, without asking which have a pair."""

    @property
    def cells(self) -> int:
        """Partitions, one for each unordered pair of groups."""
        return self.groups * (self.groups + 1) // 2


def ceil_div(whole: int, part: int) -> int:
    """Return the quotient rounded up."""
    return -(-whole // part)


def fits_broadcast(rows: float) -> bool:
    """Tell whether so many ids are sent to every executor."""
    return rows <= BROADCAST_ROWS


def fits_worker(size: float) -> bool:
    """Tell whether rows of so many bytes are read whole by each worker that joins others with them."""
    return size <= READ_BYTES


def tasks(data_bytes: float, task_bytes: int, cores: int) -> int:
    """Return how many tasks share so many bytes: enough for the limit of one, and for the cores if it pays."""
    data_bytes = math.ceil(data_bytes)
    return max(ceil_div(data_bytes, task_bytes), min(cores, ceil_div(data_bytes, TASK_BYTES)), 1)


def cell_groups(cells: int) -> int:
    """Return the least number g of groups whose g (g + 1) / 2 pairs are at least so many cells."""
    return math.ceil((math.sqrt(8 * max(cells, 1) + 1) - 1) / 2)


def sample_share(input_bytes: int) -> float:
    """Return the share of the documents whose tokens are counted."""
    return min(SAMPLE_BYTES / max(input_bytes, 1), 1.0)


def place_rows(numbers: int | None, rows: float, cores: int) -> int:
    """Return the partitions in which rows come together by key.

    Parameters
    ----------
    numbers
        Columns of the rows, which are int64; None of rows with others.
    """
    return tasks((MEMBER_BYTES if numbers is None else 8 * numbers) * rows, BAND_BYTES, cores)


def place_cells(pairs: float, ends: float, documents: float, size: float, cores: int) -> Meeting:
    """Return how pairs meet what is compared of their documents.

    Parameters
    ----------
    pairs
        Each as often as it is named.
    ends
        Documents named.
    documents, size
        Documents given, and the bytes of what is compared of them.
    """
    moved, whole = min(size, ends * size / max(documents, 1)), size <= WHOLE_BYTES
    # To ask which documents have a pair, so that several tasks compare, takes longer than they save.
    least = 1 if whole else tasks(moved, CELL_BYTES, cores)
    groups = cell_groups(max(least, ceil_div(math.ceil(pairs), CELL_PAIRS)))
    return Meeting(groups=groups, whole=whole and groups == 1)
