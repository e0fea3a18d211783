"""Numbers of many that are among few others."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import loops

FEWER = 8
"""Least ratio of values to those wanted from which a look through the values pays."""
SPARSITY = 5
"""Bits by which the places of a table outnumber the numbers wanted: of others one in 32 or fewer is looked at again."""
LEAST_BITS = 19
"""Bits of the number of places at least: a table that a core's own cache holds anyway."""


def mark_wanted(column: pa.ChunkedArray, wanted: pa.ChunkedArray) -> pa.BooleanArray:
    """Flag the values of a column that are among those wanted, as Arrow's `is_in` does.

    Where these are few numbers, one bit tells most of the others apart (Bloom, 1970), in a fourth of the time of a look
    into a hash table.
    """
    is_plain = column.type == wanted.type == pa.int64() and not column.null_count and not wanted.null_count
    if not is_plain or len(column) < FEWER * len(wanted):
        return pc.is_in(column, wanted).combine_chunks()
    bits = max(len(wanted).bit_length() + SPARSITY, LEAST_BITS)
    shift, table = np.uint64(64 - bits), np.zeros(1 << bits - 6, dtype=np.uint64)
    loops.pairs.mark_places(wanted.to_numpy().view(np.uint64), shift, table)
    flags, begin = np.zeros(len(column), dtype=bool), 0
    for chunk in column.chunks:
        loops.pairs.test_places(chunk.to_numpy().view(np.uint64), shift, table, flags[begin : begin + len(chunk)])
        begin += len(chunk)
    perhaps = pa.array(flags)
    flags[flags] = pc.is_in(column.filter(perhaps), wanted)
    return pa.array(flags)
