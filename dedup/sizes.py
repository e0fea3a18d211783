"""How much data a task takes: what the pipeline partitions its stages by, and what a plan of capacity counts with."""

import math

TASK_BYTES = 8 << 20
"""Least data worth a task of its own while cores are free."""
WHOLE_BYTES = 16 << 20
"""Documents that are sent to where pairs are compared without asking which of them have a pair."""
BAND_BYTES = 32 << 20
"""Band rows of one partition: sorting them takes a worker about ten times as much memory."""
MEMBER_BYTES = 100
"""What a member or an edge takes while representatives are elected."""
CELL_PAIRS = 4 << 20
"""Pairs of one cell while candidates are estimated."""
CELL_BYTES = 64 << 20
"""Shingle sets of one cell while candidates are verified."""
SAMPLE_BYTES = 1 << 19
"""Input, as it is stored, whose tokens are counted."""
BROADCAST_ROWS = 2 << 20
"""Ids that are sent to every executor instead of being joined by a shuffle: about 50 MB."""


def ceil_div(whole: int, part: int) -> int:
    """Return the quotient rounded up."""
    return -(-whole // part)


def tasks(data_bytes: int, task_bytes: int, cores: int, least_bytes: int = TASK_BYTES) -> int:
    """Return how many tasks share so many bytes: enough for the limit of one, and for the cores if it pays."""
    return max(ceil_div(data_bytes, task_bytes), min(cores, ceil_div(data_bytes, least_bytes)), 1)


def cell_groups(cells: int) -> int:
    """Return the least number g of groups whose g (g + 1) / 2 pairs are at least so many cells."""
    return math.ceil((math.sqrt(8 * max(cells, 1) + 1) - 1) / 2)
