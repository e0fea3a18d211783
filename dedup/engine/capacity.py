"""Memory that the memory engine needs: estimated before a run, and checked once pairs and sets are counted."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from dedup.display import size
from dedup.errors import CapacityError

DOCUMENT_BYTES = 260
"""A document: its ids, digest and size, and its place in the arrays of the search and of members."""
KEY_BYTES = 100
"""A band key, or a shingle of a prefix, that several documents have, while they are brought together."""
PAIR_BYTES = 100
"""A distinct pair while it is made distinct, estimated and compared."""
SHINGLE_BYTES: Mapping[str, int] = MappingProxyType({"lsh": 16, "exact": 16 + KEY_BYTES})
"""A shingle of a set, by mode: twice its size, as sets are read in parts and put together."""


class Assumed(NamedTuple):
    """Assumptions about a corpus that has not been searched yet."""

    text_bytes: int
    """Text of one shingle."""
    shared: float
    """Share of documents that have a candidate, and of keys that several have."""
    pairs: int
    """Distinct pairs of a document."""


MOST = Assumed(text_bytes=3, shared=0.5, pairs=8)
"""Pessimistic assumption: few corpora exceed it. A character of Chinese or Japanese has three bytes."""
USUAL = Assumed(text_bytes=6, shared=0.2, pairs=1)
"""A word of European languages has 6 to 7 bytes."""


def estimate_bytes(
    *,
    documents: int,
    bands: int,
    rows: int,
    mode: str = "lsh",
    shingles: int | None = None,
    text_bytes: int = 0,
    assumed: Assumed = MOST,
) -> int:
    """Return an estimate of what a search takes at its peak with its features.

    It is no bound, though the corpora of tests/engine/test_capacity.py took less: those in which most documents
    resemble many others can take more, and `find` refuses them once it has counted.

    Parameters
    ----------
    bands, rows
        Bands of a signature; ignored in exact mode.
    shingles
        Distinct ones of every document, summed; None before they are known.
    text_bytes
        From which shingles are guessed where they are not known.
    """
    if shingles is None:
        shingles = text_bytes // assumed.text_bytes
    if mode == "exact":
        return documents * (DOCUMENT_BYTES + assumed.pairs * PAIR_BYTES) + shingles * SHINGLE_BYTES[mode]
    # A key is stored, has four bytes of a table in which repetitions are found, and may be brought together.
    signature = bands * rows + bands * (8 + 4 + assumed.shared * KEY_BYTES)
    per_document = DOCUMENT_BYTES + signature + assumed.pairs * PAIR_BYTES
    return int(documents * per_document + assumed.shared * shingles * SHINGLE_BYTES[mode])


def check_fits(needed_bytes: int, free_bytes: int | None) -> None:
    """Refuse what does not fit.

    Parameters
    ----------
    free_bytes
        None where any number will do.

    Raises
    ------
    CapacityError
        Says what is needed, what is free, and what to do.
    """
    if free_bytes is not None and needed_bytes > free_bytes:
        raise CapacityError(
            f'engine: "memory" must have {size(needed_bytes)} of memory free (got {size(free_bytes)}); '
            'set engine = "spark", which works in parts'
        )
