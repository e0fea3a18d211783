"""Profile of a corpus: the lengths of its documents and their similarities."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from dedup.kernels import Floats, Hashes, Integers
from dedup.plan.chance import estimate_chance

RELATED = ((0.2, 0.3, 2.47), (0.3, 0.4, 1.26), (0.4, 0.5, 0.45), (0.5, 0.6, 0.31), (0.6, 0.7, 0.17), (0.7, 0.8, 0.14))
"""Partners of a document (from, to, number) besides its copies, where no sample says better.

Measured by `dedup plan --sample` on 3,088 pages of PowerShell-Docs (CC-BY 4.0); the pages of a site resemble each
other whatever else is in a corpus, so the numbers do not grow with it.
"""
TEXT_RATIO = 0.5
"""Assumption without a sample: .40 on PowerShell-Docs, .47 on licences; prose that repeats less has more."""
Counts: TypeAlias = Mapping[str, float]
"""Counts per document; names that end in `_bytes` hold the bytes of one item in a shuffle after LZ4."""
NODES = 40
"""Nodes of the quadrature in `CorpusProfile.firsts`."""
UNIT_BYTES: Mapping[str, float] = MappingProxyType({"tokens": 7.0, "char": 1.0, "ids": 4.0, "set": 7.0})
"""Assumption for English text with its white space, by shingles.unit; 7.02 in the corpora of tests/corpora.py. Elements
of sets count as words."""
TEXT_BYTES = 1400.0
"""Assumption of the bytes of a text: 200 tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Similarities:
    """Partners of a document by similarity: a `fixed` number in any corpus, and a `share` of all other documents."""

    jaccard: Floats
    fixed: Floats
    share: Floats

    def partners(self, documents: int) -> Floats:
        """Return the partners of a document among so many, of each similarity."""
        counted: Floats = self.fixed + self.share * max(documents - 1, 0)
        return counted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DrawnDocuments:
    """Documents drawn from a corpus with equal chance, as tokens and as sets of shingles."""

    shingles: Hashes
    offsets: Integers
    """Offsets of the shingle sets, as from `shingles.shingle`, in the order of the files."""
    tokens: Hashes
    bounds: Integers
    """Offsets of the tokens, as from `Tokenizer.hash`."""
    total: int
    """Documents of the corpus."""
    compared: int
    """Drawn documents whose pairs were all counted."""

    @property
    def documents(self) -> int:
        """Number of drawn documents."""
        return int(self.offsets.size - 1)

    @property
    def share(self) -> float:
        """Share of the corpus, drawn at random; 1 for all of it."""
        return self.documents / self.total


class Trial(NamedTuple):
    """Counts of a search among drawn documents, per document; see `dedup.plan.trial`."""

    point: Counts
    """Counts with the seed of the settings."""
    others: Sequence[Counts] = ()
    """Counts with other seeds, and with other families of duplicates if the corpus is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusProfile:
    """Corpus as the plan sees it; all numbers are means over documents."""

    source: str
    """Origin of the numbers, in words."""
    documents: int
    text_bytes: float
    text_ratio: float
    """Share of a text's bytes left by LZ4, which Spark compresses shuffles with."""
    tokens: float
    shingles: float
    """Distinct shingles of a document."""
    id_bytes: float
    """Bytes of a stored id: 8 for an integer, 4 and its length for a string."""
    identical: float
    """Share of documents with the shingle set of another document with a lesser id."""
    similarities: Similarities
    """Similarities of the other documents."""
    evenness: float = math.inf
    """Evenness of the partners among the documents: the size k of their negative binomial distribution. Infinite if
    chance alone decides (Poisson), below 1 if most documents have no partner and a few have many."""
    drawn: DrawnDocuments | None = None
    """Drawn documents of the corpus; None without a sample."""

    def resize(self, documents: int) -> Self:
        """Return the same corpus at another size."""
        return replace(self, documents=documents)

    def alone(self, partners: float) -> float:
        """Return the share of documents with no partner, given the mean number of partners."""
        if not math.isfinite(self.evenness):
            return math.exp(-partners)
        return math.pow(1 + partners / self.evenness, -self.evenness)

    def firsts(self, partners: float) -> float:
        """Return the mean of 1 / (1 + partners of a document): families for each document, if partners are families.

        The integral of the generating function (1 + (1 - t) partners / k)^-k over t from 0 to 1.
        """
        # Near 0, and near a logarithm, the closed forms lose their digits.
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        return float(sum(weights * np.array([self.alone(partners * (1 + node) / 2) for node in nodes])) / 2)


def assume_corpus(
    *,
    documents: int,
    tokens: float,
    text_bytes: float | None,
    id_bytes: float,
    duplication: float,
    threshold: float,
    shingle_size: int,
    unit: str = "tokens",
) -> CorpusProfile:
    """Return a corpus from a few known numbers.

    A sixth of the duplicates are exact. The others are edited copies of another document; there are copies less similar
    than the threshold too, and from half of it up to 1 every similarity is as frequent. Besides, documents are related
    as RELATED says, and with characters for tokens, of `unit` "char", all resemble each other as `chance` says.

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
    share = np.zeros_like(fixed)
    if unit == "char":
        jaccard = np.append(jaccard, estimate_chance(tokens, shingle_size))
        fixed, share = np.append(fixed, 0.0), np.append(share, 1.0)
    return CorpusProfile(
        source=f"assumed, with {duplication:.0%} of documents removed (--sample PATH measures yours)",
        documents=documents,
        text_bytes=text_bytes if text_bytes is not None else tokens * UNIT_BYTES[unit],
        text_ratio=TEXT_RATIO,
        tokens=tokens,
        shingles=max(tokens - shingle_size + 1, 1.0),
        id_bytes=id_bytes,
        identical=identical,
        similarities=Similarities(jaccard=jaccard, fixed=fixed, share=share),
    )
