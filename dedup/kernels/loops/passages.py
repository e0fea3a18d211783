"""Rolling hashes of windows of tokens, selection of grams by winnowing, and pieces of windows that occur twice."""

from typing import Any

import numpy as np

from dedup.kernels import Flags, Hashes, Integers
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix


@compiled
def roll(tokens: Hashes, offsets: Integers, size: int, base: np.uint64, hashes: Hashes) -> None:
    """Write the hash of every window where it begins; see `passages.roll`."""
    power = np.uint64(1)
    for _ in range(size - 1):
        power *= base
    for document in range(offsets.size - 1):
        begin, end = offsets[document], offsets[document + 1]
        summed = np.uint64(0)
        for position in range(begin, end):
            if position >= begin + size:
                summed -= tokens[position - size] * power
            summed = summed * base + tokens[position]
            if position >= begin + size - 1:
                hashes[position - size + 1] = mix(summed)


@compiled
def winnow(grams: Hashes, offsets: Integers, size: int, width: int, places: Integers, bounds: Integers) -> None:
    """Write the places of the grams selected, and where those of each document end; see `passages.select_grams`."""
    count = 0
    for document in range(offsets.size - 1):
        begin, end = offsets[document], offsets[document + 1] - size + 1
        least: Any = begin - 1
        for last in range(begin + width - 1, end):
            first = last - width + 1
            if least < first:
                least = first
                for place in range(first + 1, last + 1):
                    if grams[place] <= grams[least]:
                        least = place
            elif grams[last] < grams[least] or (
                grams[last] == grams[least]
                and (count < bounds[document] + 2 or grams[begin + places[count - 2]] != grams[last])
            ):
                least = last
            else:
                continue
            places[count] = least - begin
            count += 1
        bounds[document + 1] = count


@compiled
def recur(
    hashes: Hashes,
    offsets: Integers,
    documents: Integers,
    begins: Integers,
    ends: Integers,
    shift: np.uint64,
    table: Integers,
    windows: Integers,
    runs: Integers,
) -> tuple[int, int]:
    """Fill in rows of windows and of runs, and return the count of each; see `passages.find_recurring`.

    The leading bits of a hash say where in `table` it is looked for: its latest occurrence, as 1 more than the token
    among those of all documents, and the row of its second, or -1. What is of a document before is free.
    """
    count = run = 0
    for each in range(documents.size):
        document = documents[each]
        base = offsets[document]
        for begin in range(begins[each], ends[each]):
            token = base + begin
            place = np.int64(hashes[token] >> shift)
            while table[place, 0] > base and hashes[table[place, 0] - 1] != hashes[token]:
                place = (place + 1) % table.shape[0]
            before = table[place, 0] - 1
            table[place, 0] = token + 1
            if before < base or table[place, 1] < 0:
                table[place, 1] = -1 if before < base else count
                windows[count, 0], windows[count, 1], windows[count, 2] = document, begin, 1
                count += 1
                continue
            windows[table[place, 1], 2] += 1
            back = token - before
            if (
                not run
                or runs[run - 1, 0] != document
                or runs[run - 1, 1] + runs[run - 1, 2] != begin
                or runs[run - 1, 3] != back
            ):
                runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3] = document, begin, 0, back
                run += 1
            runs[run - 1, 2] += 1
    return count, run


@compiled
def repeat(
    doc_ids: Integers,
    begins: Integers,
    other_ids: Integers,
    other_begins: Integers,
    times: Integers,
    found: Integers,
) -> None:
    """Fill in the columns of windows, those of runs one by one; see `passages.repeat_windows`."""
    count = first = 0
    for row in range(doc_ids.size):
        if row and doc_ids[row] != doc_ids[row - 1]:
            first = count
        if times[row] >= 0:
            found[0, count], found[1, count] = doc_ids[row], begins[row]
            found[2, count], found[3, count], found[4, count] = other_ids[row], other_begins[row], times[row]
            count += 1
            continue
        source = first + np.searchsorted(found[1, first:count], other_begins[row])
        for step in range(-times[row]):
            found[0, count], found[1, count] = doc_ids[row], begins[row] + step
            found[2, count], found[3, count] = found[2, source + step], found[3, source + step]
            found[4, count] = 0
            count += 1


@compiled
def span(doc_ids: Integers, begins: Integers, stays: Flags, length: int, spans: Integers) -> int:
    """Fill in document, begin and end of what windows cover that do not stay, less those that do; return the count."""
    count = covered = kept = 0
    for row in range(doc_ids.size):
        if row and doc_ids[row] != doc_ids[row - 1]:
            covered = kept = 0
        if stays[row]:
            kept = begins[row] + length
        else:
            covered = begins[row] + length
        # Up to the next window nothing changes.
        begin, end = max(begins[row], kept), covered
        if row + 1 < doc_ids.size and doc_ids[row + 1] == doc_ids[row]:
            end = min(end, begins[row + 1])
        if begin >= end:
            continue
        if not count or spans[count - 1, 0] != doc_ids[row] or spans[count - 1, 2] != begin:
            spans[count, 0], spans[count, 1] = doc_ids[row], begin
            count += 1
        spans[count - 1, 2] = end
    return count


@compiled
def cut(
    doc_ids: Integers,
    begins: Integers,
    other_ids: Integers,
    other_begins: Integers,
    stays: Flags,
    length: int,
    spans: Integers,
    pieces: Integers,
) -> int:
    """Fill in the rows of the pieces of spans and return their count; see `passages.find_pieces`.

    A run is of windows a token apart whose other occurrences are so too.
    """
    count = row = run = end = 0
    for each in range(spans.shape[0]):
        document, low, high = spans[each]
        while low < high:
            # Runs end in the order in which they begin, so the last that has begun reaches furthest.
            while row < doc_ids.size and (doc_ids[row] < document or (doc_ids[row] == document and begins[row] <= low)):
                row += 1
                if stays[row - 1]:
                    continue
                run = row - 1
                while (
                    row < doc_ids.size
                    and not stays[row]
                    and doc_ids[row] == doc_ids[run]
                    and begins[row] == begins[row - 1] + 1
                    and other_ids[row] == other_ids[run]
                    and other_begins[row] == other_begins[row - 1] + 1
                ):
                    row += 1
                end = row
            stop = min(begins[end - 1] + length, high)
            pieces[count, 0], pieces[count, 1], pieces[count, 2] = document, low, stop
            pieces[count, 3], pieces[count, 4] = other_ids[run], low + other_begins[run] - begins[run]
            count += 1
            low = stop
    return count
