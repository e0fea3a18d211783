"""Differences of two texts, word by word, in the form that the job compares: lower case, no punctuation."""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import accumulate, pairwise
from zlib import crc32

import numpy as np

from dedup.kernels.text.characters import MARK, SEPARATOR, UNSPACED, UNSPACED_MARK, WORD, unicode_classes
from dedup.kernels.text.marks import to_nfkc

CONTEXT = 6
"""Words shown on either side of a difference."""
LONG = 2000
"""Most words of a text for which the shortest edit is searched; a few tenths of a second at most."""
EFFORT = 64
"""Most pairs of equal words per word for which the shortest edit is searched; texts have ten, a repeated word as many
as there are words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordRun:
    """Run of words that two texts share, or that differs between them."""

    shared: bool
    left: tuple[str, ...]
    """Words of the first text, each with the characters up to the next."""
    right: tuple[str, ...]


def align(left: str, right: str, unit: str = "tokens") -> list[WordRun]:
    """Return the runs of words that make up both texts, in order; shared and differing ones alternate.

    With the unit "set", as of shingles.unit, they are elements, sorted.

    Words agree if their NFKC forms in lower case do. The pieces are a way to turn one text into the other, in long
    texts not always the shortest: there, runs of words are matched first, which keeps the time near linear.
    """
    split = split_elements if unit == "set" else split_words
    one, other = split(left), split(right)
    first, second = ([key for key, _ in words] for words in (one, other))
    if max(len(first), len(second)) <= LONG:
        spans = _match(first, second)
    else:
        spans = []
        runs = [_cut(keys) for keys in (first, second)]
        bounds = [[0, *accumulate(map(len, run))] for run in runs]
        for shared, *places in _match(*runs):
            i, j, k, m = (bounds[number // 2][place] for number, place in enumerate(places))
            inner = [(True, 0, j - i, 0, m - k)] if shared else _match(first[i:j], second[k:m])
            spans += [(same, a + i, b + i, c + k, d + k) for same, a, b, c, d in inner]
    pieces: list[WordRun] = []
    for shared, i, j, k, m in spans:
        words = tuple(word for _, word in one[i:j]), tuple(word for _, word in other[k:m])
        if pieces and pieces[-1].shared == shared:
            earlier = pieces.pop()
            words = earlier.left + words[0], earlier.right + words[1]
        pieces.append(WordRun(shared=shared, left=words[0], right=words[1]))
    return pieces


def shorten(pieces: Sequence[WordRun], *, full: bool = False) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """Yield of each piece its words, after their kind: of shared ones those next to a difference, unless all are shown.

    Kinds are `shared`, `removed` of words of the first text alone, `kept` of those of the second, and `gap` of words
    that are not shown.
    """
    for number, piece in enumerate(pieces):
        runs = [("removed", piece.left), ("kept", piece.right)]
        if piece.shared:
            words = piece.left
            before, after = CONTEXT if number else 0, CONTEXT if number < len(pieces) - 1 else 0
            runs = [("shared", words)]
            if not full and len(words) > before + after + 1:
                end = len(words) - after
                runs = [("shared", words[:before]), ("gap", words[before:end]), ("shared", words[end:])]
        yield [(kind, run) for kind, run in runs if run]


def _match(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[bool, int, int, int, int]]:
    """Return matching and differing spans of both word lists, in order."""
    is_long = max(len(first), len(second)) > LONG
    if _count_pairs(first, second, is_long=is_long) > EFFORT * (len(first) + len(second)):
        return _match_ends(first, second)
    matcher = SequenceMatcher(None, first, second, autojunk=is_long)
    return [(kind == "equal", i, j, k, m) for kind, i, j, k, m in matcher.get_opcodes()]


def _count_pairs(first: Sequence[Hashable], second: Sequence[Hashable], *, is_long: bool) -> int:
    """Return the number of pairs of equal words; `SequenceMatcher` visits each at least once."""
    counts = Counter(second)
    most = len(second) // 100 + 1 if is_long else len(second)
    return sum(count * counts[word] for word, count in Counter(first).items() if counts[word] <= most)


def _match_ends(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[bool, int, int, int, int]]:
    """Match the common beginning and end; everything between is one span."""
    least = min(len(first), len(second))
    head = next((place for place in range(least) if first[place] != second[place]), least)
    most = least - head
    tail = next((place for place in range(most) if first[-1 - place] != second[-1 - place]), most)
    ends = len(first) - tail, len(second) - tail
    spans = [(True, 0, head, 0, head), (False, head, ends[0], head, ends[1])]
    spans.append((True, ends[0], len(first), ends[1], len(second)))
    return [span for span in spans if span[2] > span[1] or span[4] > span[3]]


def _cut(keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Cut words into runs of about 16, each ending at a word chosen by its hash, so that copies are cut alike."""
    cuts = [number + 1 for number, key in enumerate(keys) if crc32(key.encode()) % 16 == 0]
    return [tuple(keys[start:end]) for start, end in pairwise([0, *cuts, len(keys)]) if start < end]


def split_words(text: str) -> list[tuple[str, str]]:
    """Return every token's compared form, and the token as written with the characters up to the next.

    Characters before the first token belong to it.
    """
    found = [(match[1], match[0]) for match in _pattern().finditer(text)]
    return [(to_nfkc(token).lower(), whole) for token, whole in found]


def split_elements(text: str) -> list[tuple[str, str]]:
    """Return the distinct elements of a set's text in order, each twice, as written with the end of its line."""
    return [(line, f"{line}\n") for line in sorted({*text.removesuffix("\n").split("\n")})] if text else []


@cache
def _pattern() -> re.Pattern[str]:
    classes = unicode_classes()
    word, mark, unspaced, unspaced_mark, other = (
        _span(np.flatnonzero(classes == kind)) for kind in (WORD, MARK, UNSPACED, UNSPACED_MARK, SEPARATOR)
    )
    token = rf"[{unspaced}{unspaced_mark}][{mark}{unspaced_mark}]*|[{word}{mark}]+"
    return re.compile(rf"(?:\A[{other}]*)?({token})[{other}]*")


def _span(points: np.ndarray) -> str:
    """Return the code points as the inside of a regular expression's character class; ascending."""
    starts = points[np.flatnonzero(np.diff(points, prepend=-2) != 1)]
    ends = points[np.flatnonzero(np.diff(points, append=points[-1] + 2) != 1)]
    return "".join(rf"\U{start:08x}-\U{end:08x}" for start, end in zip(starts.tolist(), ends.tolist(), strict=True))
