"""Finds of the layer of passages in a sample."""

from collections.abc import Mapping

import numpy as np

from dedup.kernels import Flags, Floats, Integers
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.sets.exact import take
from dedup.kernels.text.passages import find_asked, find_pieces, roll, select_grams
from dedup.layers.passages import Passages
from dedup.plan.profile import DrawnDocuments
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config


def count_passages(drawn: DrawnDocuments, kept: Flags, config: Config) -> Mapping[str, Floats]:
    """Return the counts of the layer's search for each drawn document that earlier layers keep.

    Returns
    -------
    dict
        float64 [n] each: `reaching`, 1 for those documents; their `tokens`, `grams` selected and `shared_grams`;
        `asked`, 1 for documents that hold one of these; `asked_windows` in question, `repeated_windows`, and `pieces`
        that are held against another place.
    """
    documents = np.flatnonzero(kept)
    settings, tokenizer = config.of(Passages), load_tokenizer(config)
    length = settings.tokens
    tokens, offsets = take(drawn.tokens, drawn.bounds, documents)
    counts = np.diff(offsets)
    grams, places, bounds = select_grams(tokens, offsets, length, tokenizer)
    owners = np.repeat(np.arange(documents.size), np.diff(bounds))
    shared = _mark_shared(grams)
    begins, of = find_asked(places[shared], owners[shared], counts, length).list()
    windows = roll(tokens, offsets, length, tokenizer)[offsets[of] + begins]
    repeated = _mark_shared(windows)

    def tally(places: Integers) -> Floats:
        return np.bincount(documents[places], minlength=drawn.documents).astype(np.float64)

    everyone = np.arange(documents.size)
    return {
        "reaching": tally(everyone),
        "tokens": tally(np.repeat(everyone, counts)),
        "grams": tally(owners),
        "shared_grams": tally(owners[shared]),
        "asked": tally(np.unique(owners[shared])),
        "asked_windows": tally(of),
        "repeated_windows": tally(of[repeated]),
        "pieces": tally(_find_pieces(windows[repeated], of[repeated], begins[repeated], settings)),
    }


def _mark_shared(hashes: np.ndarray) -> Flags:
    """Flag hashes that occur twice."""
    _, numbers, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    shared: Flags = counts[numbers] > 1
    return shared


def _find_pieces(windows: np.ndarray, documents: Integers, begins: Integers, settings: Passages) -> Integers:
    """Return the document of every piece, given windows that all occur twice."""
    order = np.argsort(windows, kind="stable")
    bounds = find_bounds(windows[order])
    firsts = np.repeat(order[bounds[:-1]], np.diff(bounds))
    others = np.empty_like(order)
    others[order] = firsts
    is_first = others == np.arange(others.size)
    others[order[bounds[:-1]]] = order[bounds[:-1] + 1]
    found = find_pieces(
        documents,
        begins,
        documents[others],
        begins[others],
        is_first,
        length=settings.tokens,
        keep_first=settings.keep_first,
    )
    return found.doc_ids
