"""Texts with the spans that a run has cut put back, and without them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dedup.explain.differ import WordRun
from dedup.files.delete_spans import delete_spans
from dedup.kernels.runs.span_offsets import unite_spans

WORD = re.compile(r"(?:\A\s*)?\S+\s*")


def restore(text: str, spans: Iterable[Mapping[str, Any]]) -> str:
    """Return the whole text, with its lost spans put back; spans in any order with `begin`, `end` and `text`.

    A span can hold others, which an earlier layer had cut.
    """
    parts, position, end = [], 0, 0
    for span in sorted(spans, key=lambda span: (span["begin"], -span["end"])):
        if span["end"] > end:
            kept = span["begin"] - end
            parts += [text[position : position + kept], span["text"]]
            position, end = position + kept, span["end"]
    return "".join([*parts, text[position:]])


def remove(text: str, spans: Iterable[Mapping[str, Any]]) -> str:
    """Return a whole text without spans, which may be in any order with `begin` and `end`."""
    bounds = np.array([(span["begin"], span["end"]) for span in spans], np.int64).reshape(-1, 2)
    begins, ends = unite_spans(bounds[:, 0], bounds[:, 1])
    return delete_spans(text, begins.tolist(), ends.tolist())


def part(text: str, spans: Iterable[Mapping[str, Any]]) -> list[WordRun]:
    """Return the pieces of a whole text; shared ones stay when the spans are cut."""
    bounds = np.array([(span["begin"], span["end"]) for span in spans], np.int64).reshape(-1, 2)
    begins, ends = (each.tolist() for each in unite_spans(bounds[:, 0], bounds[:, 1]))
    edges = [0, *(edge for span in zip(begins, ends, strict=True) for edge in span), len(text)]
    words = [tuple(WORD.findall(text[begin:end])) for begin, end in pairwise(edges)]
    pieces = [
        WordRun(shared=number % 2 == 0, left=each, right=() if number % 2 else each)
        for number, each in enumerate(words)
    ]
    return [piece for piece in pieces if piece.left]


def take_as_searched(text: str, spans: Sequence[Mapping[str, Any]], *, before: Collection[str], is_cut: bool) -> str:
    """Return the text that a layer saw, from the text of an output.

    Parameters
    ----------
    spans
        Spans of the text, as in OUT/spans.
    before
        The layers before that layer.
    is_cut
        Whether the text has lost the spans of all layers.
    """
    whole = restore(text, (span for span in spans if span["effect"] == "cut")) if is_cut else text
    return remove(whole, (span for span in spans if span["layer"] in before and span["effect"] != "mark"))
