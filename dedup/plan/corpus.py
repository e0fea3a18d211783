"""What a plan knows of a corpus: how long its documents are and how similar to each other."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dedup.plan.curve import Floats

RELATED = ((0.2, 0.3, 2.47), (0.3, 0.4, 1.26), (0.4, 0.5, 0.45), (0.5, 0.6, 0.31), (0.6, 0.7, 0.17), (0.7, 0.8, 0.14))
"""Partners of a document (from, to, how many) besides its copies, where no sample says better.

Measured by `scripts/plan --sample` on 3,088 pages of PowerShell-Docs (CC-BY 4.0); the pages of a site resemble each
other whatever else is in a corpus, so the numbers do not grow with it.
"""
BYTES_PER_TOKEN = 7.0
"""Of English text with its white space; 7.02 in the corpora of tests/corpora.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarities:
    """How many partners of each similarity a document has: `fixed` in any corpus, and a `share` of all others."""

    jaccard: Floats
    fixed: Floats
    share: Floats

    def partners(self, documents: int) -> Floats:
        """Return the partners of a document among so many, of each similarity."""
        counted: Floats = self.fixed + self.share * max(documents - 1, 0)
        return counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Documents as the plan sees them; all numbers are means over documents."""

    source: str
    """Where the numbers come from, in words."""
    documents: int
    text_bytes: float
    tokens: float
    shingles: float
    """Distinct shingles of a document."""
    id_bytes: float
    """Of an id as stored: 8 of an integer, 4 and its length of a string."""
    identical: float
    """Share of documents whose shingle set is that of another with a lesser id."""
    similarities: Similarities
    """Of the others."""

    def resize(self, documents: int) -> Self:
        """Return such a corpus of another size."""
        return replace(self, documents=documents)


def assume_corpus(
    *,
    documents: int,
    tokens: float,
    text_bytes: float | None,
    id_bytes: float,
    duplication: float,
    threshold: float,
    shingle_size: int,
) -> Corpus:
    """Return a corpus of which only a few numbers are known.

    A sixth of the duplicates are exact. The others are edited copies of another document; there are copies less similar
    than the threshold too, and from half of it up to 1 every similarity is as frequent. Besides, documents are related
    as RELATED says.

    Parameters
    ----------
    duplication
        Share of the documents that are removed.
    """
    near, identical = duplication * 5 / 6, duplication / 6
    edges = np.linspace(threshold / 2, 1, 41)
    # Each copy and its original are partners of each other.
    copies = np.diff(edges) * 2 * near / max(1 - threshold, 0.02)
    jaccard = np.concatenate([(edges[1:] + edges[:-1]) / 2, [(low + high) / 2 for low, high, _ in RELATED]])
    fixed = np.concatenate([copies, [partners for *_, partners in RELATED]])
    return Corpus(
        source="assumed",
        documents=documents,
        text_bytes=text_bytes if text_bytes is not None else tokens * BYTES_PER_TOKEN,
        tokens=tokens,
        shingles=max(tokens - shingle_size + 1, 1.0),
        id_bytes=id_bytes,
        identical=identical,
        similarities=Similarities(jaccard=jaccard, fixed=fixed, share=np.zeros_like(fixed)),
    )


def expected_followers(partners: float) -> float:
    """Return the share of documents that are not the first of their family, each with a Poisson number of partners."""
    return 1 + float(np.expm1(-partners)) / partners if partners > 1e-9 else partners / 2
