"""Data that a task takes: pure arithmetic, by which groups are partitioned and a plan of capacity is made."""

import math
from dataclasses import dataclass

TASK_BYTES = 8 << 20
"""Least data worth a task of its own while cores are free."""
WHOLE_BYTES = 16 << 20
"""Documents that are sent to where pairs are compared without asking which of them have a pair."""
BAND_BYTES = 32 << 20
"""Band rows of one partition: sorting them takes a worker about ten times as much memory."""
MEMBER_BYTES = 100
"""Memory of a member or an edge while representatives are elected."""
CELL_PAIRS = 4 << 20
"""Pairs of one cell while candidates are estimated."""
CELL_BYTES = 64 << 20
"""Shingle sets of one cell while candidates are verified."""
SAMPLE_BYTES = 1 << 19
"""Input, as it is stored, whose tokens are counted."""
BROADCAST_ROWS = 2 << 20
"""Ids that are sent to every executor instead of being joined by a shuffle: about 50 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Plan by which pairs and their documents come together; see `exchange.meet`."""

    groups: int
    """Groups of documents; a cell holds the pairs of two."""
    broadcast: bool
    """Whether the list of (document, cell) fits into every executor's memory."""
    whole: bool
    """Whether all documents are sent where there is one cell, without asking which have a pair."""

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


def place_identical(documents: float, cores: int) -> int:
    """Return the partitions in which digests and ids, 32 bytes a document, are brought together."""
    return tasks(32 * documents, BAND_BYTES, cores)


def place_bands(documents: float, bands: int, cores: int) -> int:
    """Return the partitions in which band rows of 16 bytes are brought together."""
    return tasks(16 * bands * documents, BAND_BYTES, cores)


def place_prefixes(shingles: float, cores: int) -> int:
    """Return the partitions in which prefixes of exact mode, at most a row of 16 bytes a shingle, come together."""
    return tasks(16 * shingles, BAND_BYTES, cores)


def place_pairs(pairs: float, members: float, documents: float, signature_size: int) -> Meeting:
    """Return how the pairs of all buckets meet the signatures of their documents.

    Parameters
    ----------
    pairs
        Pairs of the buckets, each as often as it shares one.
    members
        Members of all buckets.
    """
    groups = cell_groups(ceil_div(math.ceil(pairs), CELL_PAIRS))
    return Meeting(
        groups=groups,
        broadcast=fits_broadcast(min(2 * pairs, members, groups * documents)),
        whole=documents * signature_size <= WHOLE_BYTES,
    )


def place_comparison(pairs: float, sets: float, set_bytes: float, cores: int) -> Meeting:
    """Return how pairs meet the shingle sets of their documents.

    Parameters
    ----------
    sets, set_bytes
        Number of sets, and the bytes of all.
    """
    ends = 2 * pairs
    groups = cell_groups(tasks(min(set_bytes, ends * set_bytes // max(sets, 1)), CELL_BYTES, cores))
    return Meeting(groups=groups, broadcast=fits_broadcast(min(ends, groups * sets)), whole=set_bytes <= WHOLE_BYTES)


def place_members(members: float, edges: float, cores: int) -> int:
    """Return the partitions in which whole components come to one place each."""
    return tasks(MEMBER_BYTES * (members + edges), BAND_BYTES, cores)


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
    moved = min(size, ends * size / max(documents, 1))
    groups = cell_groups(max(tasks(moved, CELL_BYTES, cores), ceil_div(math.ceil(pairs), CELL_PAIRS)))
    return Meeting(groups=groups, broadcast=fits_broadcast(min(ends, groups * documents)), whole=size <= WHOLE_BYTES)
