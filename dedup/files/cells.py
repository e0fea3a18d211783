"""Records of CSV as bytes."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dedup.files import records
from dedup.files.records import BOM, COMMA, NEWLINE, QUOTE, RETURN, Block, Stream, drop_blank


def read_cells(stream: Stream, *, count_commas: bool = False) -> Iterator[Block]:
    """Read the records of a CSV file; a record's number is its place among them, and the header's is -1.

    A quote opens only where a cell begins, and closes unless it is doubled; any other is a character of its cell. A
    record ends at a line feed, a carriage return, or both, outside of quotes.

    Parameters
    ----------
    count_commas
        Whether blocks say how many commas part the cells of each record; -1 for one whose quotes do not close.
    """
    rest, row, line, is_first, is_last = b"", -1, 0, True, False
    while not is_last:
        chunk = stream.read(max(records.BLOCK_BYTES, len(rest)))
        is_last = not chunk
        block, rest = _cut_cells(rest + chunk, count_commas=count_commas, is_first=is_first, is_last=is_last)
        if block.data:
            block = drop_blank(replace(block, line=line))
            yield replace(block, rows=np.arange(row, row + len(block.begins)))
            line, row, is_first = line + block.data.count(b"\n"), row + len(block.begins), False


def _cut_cells(data: bytes, *, count_commas: bool, is_first: bool, is_last: bool) -> tuple[Block, bytes]:
    """Cut what begins with a record into whole records and the rest."""
    if not data:
        none = np.empty(0, np.int64)
        return Block(data=b"", begins=none, ends=none, rows=none, line=0), b""
    values = np.frombuffer(data, np.uint8)
    quotes = _find_quotes(data, values, begin=len(BOM) if is_first and data.startswith(BOM) else 0)
    stops = np.flatnonzero((values == NEWLINE) | (values == RETURN))
    stops = stops[np.searchsorted(quotes, stops) & 1 == 0]
    following = values[np.minimum(stops + 1, len(data) - 1)]
    is_end = (values[stops] == NEWLINE) | (following != NEWLINE)
    if not is_last:
        # Whether a line feed follows is in the next chunk.
        is_end &= (values[stops] == NEWLINE) | (stops < len(data) - 1)
    stops = stops[is_end] + 1
    if is_last and (not len(stops) or stops[-1] < len(data)):
        stops = np.append(stops, len(data))
    size = int(stops[-1]) if len(stops) else 0
    begins = np.concatenate([[0], stops[:-1]])[: len(stops)]
    commas = None
    if count_commas:
        places = np.flatnonzero(values == COMMA)
        places = places[np.searchsorted(quotes, places) & 1 == 0]
        commas = np.searchsorted(places, stops) - np.searchsorted(places, begins)
        commas[np.searchsorted(quotes, stops) & 1 == 1] = -1
    return Block(data=data[:size], begins=begins, ends=stops, rows=begins, line=0, commas=commas), data[size:]


def _find_quotes(data: bytes, values: NDArray[np.uint8], *, begin: int) -> NDArray[np.int64]:
    """Find the quotes that open, close or are doubled; a place with an odd number of them before it is quoted."""
    quotes = np.flatnonzero(values == QUOTE)
    if not len(quotes):
        return quotes
    ends_cell = np.zeros(256, bool)
    ends_cell[[COMMA, NEWLINE, RETURN, QUOTE]] = True
    opening, closing = quotes[::2], quotes[1::2]
    may_open = ends_cell[values[opening - 1]] | (opening == begin)
    may_close = ends_cell[values[np.minimum(closing + 1, len(data) - 1)]]
    if may_open.all() and may_close.all():
        return quotes
    found: list[int] = []
    is_open = False
    for place in quotes.tolist():
        if is_open or place == begin or data[place - 1] in b",\r\n":
            found.append(place)
            is_open = not is_open
        elif found and found[-1] == place - 1 and len(found) % 2 == 0:
            # The second of a doubled quote opens again what the first has closed.
            found.append(place)
            is_open = True
    return np.array(found, np.int64)
