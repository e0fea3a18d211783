"""How many documents files hold, and how much text, guessed from a few of them without reading the rest."""

from dataclasses import dataclass

import pyarrow as pa

from dedup.files.listing import COMPRESSIBLE, File, Listing
from dedup.files.records import damaged, open_bytes
from dedup.files.tables import Parquet, open_table

SAMPLED_FILES = 16
SAMPLED_BYTES = 1 << 20
"""Read of a file of lines or cells, from its beginning."""
UNPACKED = 4
"""Bytes of text for a byte of a file whose content is compressed, where nothing tells better."""
BETTER = 1.25
"""How much smaller than zstd makes them the bytes of lines may have become by another method or by more effort."""
DOCUMENT_BYTES = 500
"""Assumed bytes of a document where nothing tells better; short, so that the number guessed is rather too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Guess of what files hold."""

    documents: int
    text_bytes: int


def guess(listing: Listing, text_column: str) -> Guess:
    """Guess from up to SAMPLED_FILES files, evenly spread over the listing.

    Of parquet the footer tells rows and the bytes of the text column, of lines and cells the first megabyte tells their
    length and how much compression makes of them; other formats are taken for compressed short documents.

    Raises
    ------
    DataError
        When one of these files is damaged.
    """
    files = listing.files
    if listing.format == "text":
        ratio = UNPACKED if any(file.compression for file in files) else 1
        return Guess(documents=len(files), text_bytes=listing.size * ratio)
    sample = [file for file in files[:: -(-len(files) // SAMPLED_FILES)] if file.size]
    looks = [_look(file, text_column) for file in sample]
    scale = listing.size / max(sum(file.size for file in sample), 1)
    return Guess(
        documents=round(scale * sum(look.documents for look in looks)),
        text_bytes=round(scale * sum(look.text_bytes for look in looks)),
    )


def _look(file: File, text_column: str) -> Guess:
    if file.format == "parquet":
        with damaged(file):
            table = open_table(file)
            assert isinstance(table, Parquet)
            rows = sum(table.count_rows())
            text_bytes = rows * table.value_bytes(text_column.split("."))
        # A column that is stored as a dictionary decodes to more.
        return Guess(documents=rows, text_bytes=max(round(text_bytes), file.size))
    if file.format not in COMPRESSIBLE:
        text_bytes = file.size * UNPACKED
        return Guess(documents=-(-text_bytes // DOCUMENT_BYTES), text_bytes=text_bytes)
    with damaged(file), open_bytes(file) as stream:
        begin = stream.read(SAMPLED_BYTES)
    ratio = BETTER * len(begin) / len(pa.compress(begin, "zstd")) if file.compression else 1
    text_bytes = round(file.size * ratio)
    length = max(len(begin) // max(begin.count(b"\n"), 1), 1)
    return Guess(documents=-(-text_bytes // length), text_bytes=text_bytes)
