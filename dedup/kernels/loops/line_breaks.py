"""Cutting texts into lines and paragraphs."""

from typing import Any

from dedup.kernels import Bytes, Integers
from dedup.kernels.loops.compiler import compiled

LINE_FEED = 0x0A


@compiled
def is_space(text: Bytes, position: int, width: int) -> Any:  # noqa: ANN401 - a flag, Python's or NumPy's
    """Tell whether a character of this width is white space, as by `str.isspace`; bytes."""
    first = text[position]
    if width == 1:
        return first == 0x20 or 0x09 <= first <= 0x0D or 0x1C <= first <= 0x1F
    last = text[position + width - 1]
    if width == 2:
        return first == 0xC2 and last in (0x85, 0xA0)
    middle = text[position + 1]
    if width > 3 or not 0xE1 <= first <= 0xE3:
        return False
    if first == 0xE2:
        general = middle == 0x80 and (last <= 0x8A or last in (0xA8, 0xA9, 0xAF))
        return general or (middle == 0x81 and last == 0x9F)
    return last == 0x80 and middle == (0x9A if first == 0xE1 else 0x80)


@compiled
def cut(
    text: Bytes,
    offsets: Integers,
    least: int,
    by_paragraph: bool,  # noqa: FBT001 - as PLR0917
    begins: Integers,
    ends: Integers,
    said: Bytes,
    limits: Integers,
    bounds: Integers,
) -> int:
    """Cut documents; return the number of lines with enough characters between white space.

    Parameters
    ----------
    begins, ends
        Take the characters of each, for which as many places as lines are enough.
    said
        Takes what they say without white space at both ends, end to end.
    limits
        Takes for every line the number of the first byte after what it says, behind a zero.
    bounds
        Takes for every document the number of the first line after it, behind a zero.
    """
    count = written = 0
    for document in range(offsets.size - 1):
        position, end = offsets[document], offsets[document + 1]
        # Characters read; those before the block in work, and before and behind what it says; the bytes of that.
        read: Any = 0
        begin: Any = 0
        head: Any = 0
        tail: Any = 0
        first: Any = 0
        last: Any = 0
        was_blank = False
        while position <= end:
            # A line; behind the last an empty one, which ends the block in work.
            start, is_blank = read, True
            line_head = line_tail = line_first = line_last = read
            while position < end:
                byte, width = text[position], 1
                if byte >= 0x80:
                    while position + width < end and text[position + width] & 0xC0 == 0x80:
                        width += 1
                if not is_space(text, position, width):
                    if is_blank:
                        line_head, line_first, is_blank = read, position, False
                    line_tail, line_last = read + 1, position + width
                read += 1
                position += width
                if byte == LINE_FEED:
                    break
            is_over = read == start
            if is_over or not by_paragraph or (was_blank and not is_blank):
                if tail - head >= least:
                    begins[count], ends[count] = begin, start
                    count += 1
                    for place in range(first, last):
                        said[written] = text[place]
                        written += 1
                    limits[count] = written
                begin, head, tail = start, 0, 0
            if is_over:
                break
            if not is_blank:
                if tail == head:
                    head, first = line_head, line_first
                tail, last = line_tail, line_last
            was_blank = is_blank
        bounds[document + 1] = count
    return count
