"""Oracles of the compiled loops in NumPy: the same bits by another way, fast enough for large arrays.

tests/oracles.py says the same more slowly and shares nothing with the kernels; these share tables and constants.
"""

from itertools import pairwise

import numpy as np
from scipy import sparse

from dedup.kernels.hashing import EMPTY, GOLDEN, KEY_SEED, LOW, expand, mix
from dedup.kernels.runs.bounds import find_bounds, mark_firsts
from dedup.kernels.runs.span_offsets import unite_spans
from dedup.kernels.sets import templates
from dedup.kernels.sets.exact import least_shared
from dedup.kernels.text.characters import MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD
from dedup.kernels.text.tokenizer import read_buffers
from dedup.kernels.text.unicode_words import _ascii_table, classes_of, normaliser


def hash_tokens(texts, words):
    """Return what `UnicodeWords.hash` returns without a key."""
    folded, offsets, starts, ends = find_tokens(texts, words)
    return hash_spans(folded, starts, ends, words.seed), np.searchsorted(starts, offsets)


def find_tokens(texts, words):
    """Return folded bytes, zeros between tokens, offsets of documents, and the bytes at which tokens begin and end."""
    raw, offsets = read_buffers(texts)
    raw, offsets = _fold(raw, offsets, words)
    folded = np.frombuffer(raw.tobytes().translate(_ascii_table(words)) + bytes(8), dtype=np.uint8)
    return folded, offsets, *find_spans(folded[: raw.size] != SEPARATOR, offsets)


def _fold(raw, offsets, words):
    """Normalise each document by the Unicode database, and put separators between its tokens."""
    content = raw.tobytes()
    documents = [content[start:end] for start, end in pairwise(offsets.tolist())]
    normalise = normaliser(words)
    documents = separate([normalise(each.decode("utf-8", "replace")) for each in documents], classes_of(words))
    joined = np.frombuffer(b"".join(documents), dtype=np.uint8)
    return joined, np.cumsum([0, *map(len, documents)], dtype=np.int64)


def separate(texts, table):
    """Return the tokens of normalised texts as UTF-8 with at least one separator between two tokens."""
    points = np.frombuffer("\0".join(texts).encode("utf-32-le"), dtype=np.uint32)
    classes = table[points]
    separated = np.where(classes == SEPARATOR, np.uint32(SEPARATOR), points)
    breaks = np.flatnonzero(mark_breaks(classes))
    separated = np.insert(separated, breaks, SEPARATOR)
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    ends = np.cumsum(lengths) - 1
    ends += np.searchsorted(breaks, ends, side="right")
    widths = 1 + (separated >= 0x80).astype(np.int64) + (separated >= 0x800) + (separated >= 0x10000)
    cuts = np.concatenate(([0], np.cumsum(widths)))[np.concatenate(([0], ends))].tolist()
    encoded = separated.tobytes().decode("utf-32-le").encode()
    return [encoded[start:end] for start, end in pairwise(cuts)]


def mark_breaks(classes):
    """Tell at which code points of these classes a token begins whatever stands before: bool [n].

    Inside a run of token characters that is at an unspaced letter, at an unspaced mark that follows no unspaced letter,
    and at a letter of a spacing script that follows an unspaced token.
    """
    # A mark continues what it follows, so what decides is the last code point that is not a spacing script's mark.
    anchors = np.maximum.accumulate(np.where(classes == MARK, -1, np.arange(classes.size)))
    unspaced = (np.where(anchors < 0, SEPARATOR, classes[anchors]) >= UNSPACED) & (classes != SEPARATOR)
    follows = np.zeros(classes.size, dtype=bool)
    follows[1:] = unspaced[:-1]
    return (classes == UNSPACED) | ((classes == UNSPACED_MARK) & ~follows) | ((classes == WORD) & follows)


def find_spans(inside, offsets):
    """Return the first and the past-the-end position of every run of `inside` that crosses no document boundary."""
    outside_before = np.ones(inside.size + 1, dtype=bool)
    np.logical_not(inside, out=outside_before[1:])
    outside_before[offsets] = True
    starts = np.flatnonzero(inside & outside_before[:-1])
    outside_after = np.ones(inside.size + 1, dtype=bool)
    np.logical_not(inside, out=outside_after[:-1])
    outside_after[offsets] = True
    ends = np.flatnonzero(inside & outside_after[1:]) + 1
    return starts, ends


def hash_spans(padded, starts, ends, seed):
    """Hash the bytes of every span; `padded` has 8 bytes more than the last span needs."""
    key = expand(seed, 1)[0]
    lengths = ends - starts
    hashes = mix(_blocks(padded, starts, np.minimum(lengths, 8)) ^ key)
    long = np.flatnonzero(lengths > 8)
    if long.size:
        counts = (lengths[long] - 1) // 8
        firsts = np.cumsum(counts) - counts
        numbers = np.arange(counts.sum()) - np.repeat(firsts, counts) + 1
        begins = np.repeat(starts[long], counts) + numbers * 8
        widths = np.minimum(np.repeat(ends[long], counts) - begins, 8)
        keys = key + numbers.astype(np.uint64) * GOLDEN
        hashes[long] += np.add.reduceat(mix(_blocks(padded, begins, widths) ^ keys), firsts)
    return hashes


def _blocks(padded, begins, widths):
    """Load `widths` (1 to 8) bytes from each position as a little-endian integer."""
    blocks = np.lib.stride_tricks.sliding_window_view(padded, 8)[begins].view("<u8")[:, 0]
    return blocks & (np.uint64(0xFFFFFFFFFFFFFFFF) >> ((8 - widths) << 3).astype(np.uint64))


def shingle(tokens, offsets, weights):
    counts = np.diff(offsets)
    owned = np.where(counts > 0, np.maximum(counts - weights.size + 1, 1), 0)
    bounds = np.concatenate(([0], np.cumsum(owned)))
    # Positions of the windows that cross no boundary: documents lie end to end in both arrays.
    index = np.arange(bounds[-1]) + np.repeat(offsets[:-1] - bounds[:-1], owned)
    shingles = _sum_windows(tokens, weights)[index]
    for document in np.flatnonzero((counts > 0) & (counts < weights.size)):
        short = tokens[offsets[document] : offsets[document + 1]]
        shingles[bounds[document]] = _sum_windows(short, weights[: short.size])[0]
    found = [np.unique(mix(shingles[begin:end])) for begin, end in pairwise(bounds.tolist())]
    return np.concatenate([shingles[:0], *found]), np.cumsum([0, *map(len, found)])


def _sum_windows(tokens, weights):
    """Return the weighted sum of as many tokens as weights from each position on; the last ones are meaningless."""
    size = weights.size
    sums = np.full(tokens.size, np.uint64(size * int(GOLDEN) & 0xFFFFFFFFFFFFFFFF))
    for distance in range(size):
        sums[: max(tokens.size - distance, 0)] += tokens[distance:] * weights[size - 1 - distance]
    return sums


def sign(shingles, offsets, size, seed):
    """Sign all sets together, round by round, until no row is empty."""
    counts, seeds = np.diff(offsets), expand(seed, 2 * size)
    signatures = np.full((counts.size, size), EMPTY)
    owners = np.repeat(np.arange(counts.size), counts)
    for number in range(2 * size):
        vacant = (signatures == EMPTY)[:, number - size] if number >= size else (signatures == EMPTY).any(axis=1)
        taken = vacant[owners]
        hashes = mix(shingles[taken] ^ seeds[number])
        rows = (((hashes >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)).astype(np.int64)
        # A filled row holds a value of an earlier round, which is less than any of this one.
        values = (hashes & LOW) | np.uint64(number << 32)
        np.minimum.at(signatures, (owners[taken], rows if number < size else number - size), values)
    return signatures


def band_keys(signatures, bands, rows):
    salted = mix((signatures & LOW) + expand(KEY_SEED, bands * rows))
    return mix(salted.reshape(signatures.shape[0], bands, rows).sum(axis=2, dtype=np.uint64))


def count_shared(shingles, offsets, left, right):
    """Multiply rows of a sparse matrix, each of which is a set."""
    distinct, columns = np.unique(shingles, return_inverse=True)
    shape = offsets.size - 1, max(distinct.size, 1)
    matrix = sparse.csr_array((np.ones(shingles.size, dtype=np.int32), columns, offsets), shape=shape)
    return np.asarray((matrix[left] * matrix[right]).sum(axis=1), dtype=np.int64)


def place(shingles, offsets, numbers, begins, placed):
    sizes = np.diff(offsets)[numbers]
    steps = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    placed[np.repeat(begins, sizes) + steps] = shingles[np.repeat(offsets[numbers], sizes) + steps]


def count_slots(shingles, most):
    bits = templates.choose_bits(shingles.size)
    shift = np.uint64(64 - bits)
    counts = np.bincount((shingles >> shift).astype(np.int64), minlength=1 << bits)
    return templates.Slots(np.minimum(counts, most + 1), shift)


def cut_items(items, slots, threshold, most):
    sizes = np.diff(items.offsets)
    owners = np.repeat(np.arange(sizes.size), sizes)
    frequencies = slots.counts[(items.shingles >> slots.shift).astype(np.int64)]
    hot = np.bincount(owners[frequencies > most], minlength=sizes.size)
    lengths = sizes - least_shared(items.totals, threshold) + 1
    lengths -= np.bincount(owners[frequencies == 1], minlength=sizes.size)
    rare = (frequencies > 1) & (frequencies <= most) & (lengths[owners] > 0)
    return templates.Cut(*templates.shorten(items.shingles[rare], owners[rare], frequencies[rare], lengths), hot)


def mark_hot(items, chosen, slots, most):
    parts = templates.select_hot(items, chosen, slots, most)
    owners = np.repeat(np.arange(chosen.size), np.diff(parts.offsets))
    return templates.sum_marks(parts.shingles, owners, chosen.size)


def winnow(grams, width):
    """Return the places of the grams selected in one document: of every `width` consecutive ones the last least.

    Of a hash that the last two selected have, the last of these instead, as long as it is among them.
    """
    if grams.size < width:
        return np.empty(0, dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(grams, width)
    lasts = np.arange(windows.shape[0]) + width - 1 - windows[:, ::-1].argmin(axis=1)
    chosen = lasts[:1].tolist()
    for first, last in enumerate(lasts.tolist()):
        known = [grams[place] for place in chosen[-2:]]
        if last > chosen[-1] and (chosen[-1] < first or known != [grams[last]] * 2):
            chosen.append(last)
    return np.array(chosen)


def find_recurring(hashes, offsets, asked):
    """Return windows whose first two occurrences in a document stand for all, and runs of the others."""
    begins, documents = asked.list()
    values = hashes[offsets[documents] + begins]
    order = np.lexsort((begins, values, documents))
    firsts = mark_firsts(documents[order], values[order])
    starts = np.flatnonzero(firsts)
    places = np.arange(order.size) - np.repeat(starts, np.diff(np.append(starts, order.size)))
    numbers, backs, times = (np.zeros_like(order) for _ in range(3))
    numbers[order] = places
    backs[order[places > 0]] = (begins[order] - np.roll(begins[order], 1))[places > 0]
    sizes = np.diff(np.append(starts, order.size))
    times[order[starts]] = 1
    times[order[starts[sizes > 1] + 1]] = sizes[sizes > 1] - 1
    sent, later = np.flatnonzero(times), np.flatnonzero(times == 0)
    bounds = find_bounds(documents[later], begins[later] - np.arange(later.size), backs[later])
    heads = later[bounds[:-1]]
    windows = np.stack((documents[sent], begins[sent], times[sent]), axis=1)
    return windows, np.stack((documents[heads], begins[heads], np.diff(bounds), backs[heads]), axis=1)


def repeat_windows(columns):
    """Return windows one by one, a document after another."""
    rows = {}
    for doc_id, begin, other_id, other_begin, times in zip(*(column.tolist() for column in columns), strict=True):
        for step in range(max(-times, 1)):
            place = doc_id, begin + step
            rows[place] = (other_id, other_begin, times) if times >= 0 else rows[doc_id, other_begin + step]
    return np.array([(*place, *row) for place, row in rows.items()], dtype=np.int64).reshape(-1, 5).T


def find_pieces(doc_ids, begins, other_ids, other_begins, is_first, *, length, keep_first):
    """Return the columns of pieces by intervals of all documents end to end."""
    documents = np.cumsum(mark_firsts(doc_ids)) - 1
    stride = np.int64(begins.max(initial=0) + length + 1)
    places = documents * stride + begins
    chosen = ~is_first if keep_first else np.ones(places.size, dtype=bool)
    spans = unite_spans(places[chosen], places[chosen] + length)
    if keep_first:
        lows, highs = subtract(*spans, *unite_spans(places[is_first], places[is_first] + length))
        whole = highs - lows >= length
        spans = lows[whole], highs[whole]
    rows = np.flatnonzero(chosen)
    shifts = other_begins[rows] - begins[rows]
    bounds = find_bounds(documents[rows], begins[rows] - np.arange(rows.size), other_ids[rows], shifts)
    firsts, lasts = bounds[:-1], bounds[1:] - 1
    reaches, cover = places[rows[lasts]] + length, places[rows[firsts]]
    found = []
    lows, highs = spans
    while lows.size:
        # Runs end in the order in which they begin, so the last that has begun reaches furthest.
        run = np.searchsorted(cover, lows, side="right") - 1
        ends = np.minimum(reaches[run], highs)
        found.append((lows, ends, run))
        more = ends < highs
        lows, highs = ends[more], highs[more]
    lows, ends, run = (np.concatenate(columns) for columns in zip(*found, strict=True)) if found else (lows,) * 3
    order = np.argsort(lows)
    lows, ends, run = lows[order], ends[order], run[order]
    taken = rows[firsts[run]]
    own = lows - documents[taken] * stride
    return doc_ids[taken], own, own + ends - lows, other_ids[taken], own + shifts[firsts[run]]


def subtract(begins, ends, less_begins, less_ends):
    """Return the first intervals without the second; within each collection none touch."""
    points = np.concatenate((begins, ends, less_begins, less_ends))
    steps = np.repeat([1, -1, -2, 2], [begins.size, ends.size, less_begins.size, less_ends.size])
    order = np.argsort(points, kind="stable")
    points, levels = points[order], np.cumsum(steps[order])
    left = np.flatnonzero((levels[:-1] == 1) & (points[1:] > points[:-1]))
    return points[left], points[left + 1]


def differ(tokens, widths, begins, ends):
    """Tell of which runs of tokens the run before is another."""
    runs = [
        [tokens[low:high].tobytes() for low, high in pairwise(widths[begin : end + 1].tolist())]
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return np.array([not number or run != runs[number - 1] for number, run in enumerate(runs)], dtype=bool)


def roll(tokens, offsets, size, base):
    """Hash windows by sums of tokens from the first on, each over a power that grows: two tell all between them."""
    hashes = np.zeros(tokens.size, dtype=np.uint64)
    begins = find_windows(offsets, size)
    powers = _powers(base, tokens.size + size)
    over = _powers(pow(base, -1, 1 << 64), tokens.size)
    sums = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(tokens * over)))
    hashes[begins] = mix((sums[begins + size] - sums[begins]) * powers[begins + size - 1])
    return hashes


def _powers(base, count):
    factors = np.full(count, base, dtype=np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def find_windows(offsets, size):
    """Return where the windows of `size` tokens begin that cross no boundary of documents."""
    owned = np.maximum(np.diff(offsets) - size + 1, 0)
    bounds = np.concatenate(([0], np.cumsum(owned)))
    return np.arange(bounds[-1]) + np.repeat(offsets[:-1] - bounds[:-1], owned)
