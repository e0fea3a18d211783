"""Where tokens stand in the text as it was written, which normalising may lengthen, shorten and reorder."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.kernels import Integers
from dedup.kernels.characters import SEPARATOR
from dedup.kernels.spans import find_spans, mark_breaks
from dedup.kernels.text import Contract, _normaliser, classes_of

_WORD = re.compile("[^\0-\x20]+")
"""What nothing around it can change: the space and the control characters of ASCII compose with nothing."""
_SIGMAS = str.maketrans("\u03c2", "\u03c3")
"""Which of both a capital sigma becomes depends on its neighbours; either way it is one character."""


class Places(NamedTuple):
    """The tokens of n texts."""

    begins: Integers
    """int64 [tokens], the first character of each in its text."""
    ends: Integers
    """The character after the last. Where a character, with the marks on it, is of two tokens, both have all of it."""
    offsets: Integers
    """int64 [n + 1], text i owns the tokens from `offsets[i]` to `offsets[i + 1]`."""


def locate(texts: pa.Array, contract: Contract) -> Places:
    """Find the tokens of `dedup.kernels.text.tokenise` in the texts.

    Texts of ASCII take a fifth of a microsecond a character, others two, so it is for the few of which spans are cut.

    Parameters
    ----------
    texts
        string or large_string array, n values; null counts as empty.
    """
    found = [_locate(text or "", contract) for text in texts.to_pylist()]
    nothing = np.empty(0, dtype=np.int64)
    begins, ends = (np.concatenate([nothing, *(each[side] for each in found)]) for side in (0, 1))
    return Places(begins, ends, np.cumsum([0, *(each.size for each, _ in found)]))


def _locate(text: str, contract: Contract) -> tuple[Integers, Integers]:
    normalise = _normaliser(contract)
    clusters = [*_cut_clusters(text, normalise)]
    folded = [part for _, part in clusters]
    points = np.frombuffer("".join(folded).encode("utf-32-le"), dtype=np.uint32)
    classes = classes_of(contract)[points]
    breaks = np.flatnonzero(mark_breaks(classes))
    starts, stops = find_spans(classes != SEPARATOR, np.concatenate(([0], breaks, [points.size])))
    owners = np.repeat(np.arange(len(folded)), [*map(len, folded)])
    bounds = np.cumsum([0, *(len(cluster) for cluster, _ in clusters)])
    return bounds[owners[starts]], bounds[owners[stops - 1] + 1]


def _cut_clusters(text: str, normalise: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yield runs of characters that are normalised apart from their neighbours, with what they become."""
    place = 0
    for match in _WORD.finditer(text):
        if match.start() > place:
            yield text[place : match.start()], " "
        word, place = match[0], match.end()
        clusters = [*word] if word.isascii() else _split(word)
        folded = [*map(normalise, clusters)]
        if "".join(folded).translate(_SIGMAS) == normalise(word).translate(_SIGMAS):
            yield from zip(clusters, folded, strict=True)
        else:
            yield word, normalise(word)
    if place < len(text):
        yield text[place:], " "


def _split(word: str) -> list[str]:
    """Cut a word where NFKC composes nothing."""
    normal, bounds = unicodedata.normalize, [0]
    for place in range(1, len(word)):
        first = unicodedata.normalize("NFKD", word[place])[:1]
        before, both = word[bounds[-1] : place], word[bounds[-1] : place + 1]
        if not unicodedata.combining(first) and all(
            normal(form, both) == normal(form, before) + normal(form, word[place]) for form in ("NFKC", "NFC")
        ):
            bounds.append(place)
    return [word[begin:end] for begin, end in pairwise([*bounds, len(word)])]
