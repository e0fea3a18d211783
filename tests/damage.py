"""Harm to a parquet file that a test does."""

from pathlib import Path

import pyarrow.parquet as pq


def flip(file: Path) -> None:
    """Flip the last byte of the first column's pages."""
    content = bytearray(file.read_bytes())
    column = pq.read_metadata(file).row_group(0).column(0)
    last = column.data_page_offset + column.total_compressed_size - 1
    content[last] = 255 - content[last]
    file.write_bytes(content)
