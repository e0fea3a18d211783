"""Corpora of any size from a seed, like natural text in what a deduplication job pays for.

Word frequencies follow Zipf's law over a vocabulary of 500,000 words, one word in a thousand is not ASCII, document
lengths are log-normal. One document in ten is an edited copy of another, one in fifty an exact one.
"""

from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.kernels import Integers
from dedup.kernels.sets import shingles
from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.text.unicode_words import UnicodeWords

VOCABULARY = 500_000
CHUNK = 50_000
NEAR, IDENTICAL = 0.10, 0.02
HOT_PAIRS = 2000
TEMPLATES, TEMPLATED, CLUSTER = 10, 0.01, 0.005
"""The skewed profile: one document in a hundred is made from ten templates, one in two hundred from one document."""
FOOTER = 60
"""The footer profile: words that every document ends with."""
TEMPLATE, OWN, PLANTED = 400, 60, 0.002
"""The template profile: words that every document begins with, and others; the share of near copies, its only ones."""


def forge() -> tuple[str, str]:
    """Return two ids of one XXH64 with Spark's seed: what one block changes in a lane, the next changes back."""
    first, second, mask = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 2**64 - 1
    chance = Random(1)
    blocks = [bytes(chance.choices(range(97, 123), k=32)) for _ in range(2)]

    def lane(word: bytes) -> int:
        mixed = (42 + first + second + int.from_bytes(word, "little") * second) & mask
        return (mixed << 31 | mixed >> 33) * first & mask

    while True:
        word = bytes(chance.choices(range(97, 123), k=8))
        change = (lane(blocks[0][:8]) - lane(word)) * pow(second, -1, 2**64)
        other = ((int.from_bytes(blocks[1][:8], "little") + change) & mask).to_bytes(8, "little")
        if other.isascii() and other.decode().isprintable() and word != blocks[0][:8]:
            return (blocks[0] + blocks[1]).decode(), (word + blocks[0][8:] + other + blocks[1][8:]).decode()


class Corpus:
    """A generator of documents; the same seed and profile always give the same."""

    def __init__(
        self,
        *,
        seed: int = 1,
        mean_tokens: int = 200,
        skewed: bool = False,
        footer: bool = False,
        template: bool = False,
    ) -> None:
        self.skewed = skewed
        self.mean_tokens = mean_tokens
        self.chance = np.random.default_rng(seed)
        weights = 1 / (np.arange(VOCABULARY) + 20.0)
        self.cumulative = np.cumsum(weights) / weights.sum()
        letters = self.chance.choice(list("etaoinshrdlucmfwypvbgk"), size=(VOCABULARY, 12))
        lengths = np.clip(self.chance.normal(6.5, 2.2, VOCABULARY), 2, 12).astype(int)
        letters[np.arange(12) >= lengths[:, None]] = ""
        words = letters.view("U12")[:, 0].tolist()
        for number in range(1000, VOCABULARY, 1000):
            words[number] = f"{words[number]}é"
        self.words = pa.array(words)
        self.shared = [self.draw(100) for _ in range(TEMPLATES)] + [self.draw(mean_tokens)]
        self.footer = self.draw(FOOTER * footer)
        self.template = self.draw(TEMPLATE * template)

    def draw(self, count: int) -> Integers:
        """Draw words by their frequency."""
        return np.searchsorted(self.cumulative, self.chance.random(count))

    def chunk(self, count: int) -> tuple[pa.Array, Integers, Integers, Integers]:
        """Return the texts of `count` documents, the numbers of the copies among them and of what each copies.

        Also the number of the text that each document is made from in the skewed profile, -1 for most.
        """
        copies = int(count * NEAR), int(count * IDENTICAL)
        if self.template.size:
            copies = int(count * PLANTED), 0
        originals = count - sum(copies)
        lengths = self.chance.lognormal(np.log(self.mean_tokens) - 0.18, 0.6, originals).astype(int) + 5
        if self.template.size:
            lengths[:] = OWN
        tokens = self.draw(lengths.sum())
        starts = np.cumsum(lengths) - lengths
        pieces = [tokens[start : start + length] for start, length in zip(starts, lengths, strict=True)]
        if self.template.size:
            pieces = [np.concatenate((self.template, piece)) for piece in pieces]
        sources = self.chance.integers(0, originals, sum(copies))
        made_from = np.full(count, -1)
        if self.skewed:
            shares = [*[TEMPLATED / TEMPLATES] * TEMPLATES, CLUSTER]
            places = iter(self.chance.permutation(originals))
            for number, share in enumerate(shares):
                for place in islice(places, int(count * share)):
                    made_from[place] = number
                    pieces[place] = self.edit(self.shared[number], 2 / self.shared[number].size)
        # From one word in 500 to one in 12: similarities from .99 down to .4.
        rates = np.concatenate((np.exp(self.chance.uniform(-6.2, -2.5, copies[0])), np.zeros(copies[1])))
        pieces += [self.edit(pieces[source], rate) for source, rate in zip(sources, rates, strict=True)]
        order = self.chance.permutation(count)
        places = np.argsort(order)
        pieces = [np.concatenate((pieces[number], self.footer)) for number in order]
        return self.spell(pieces), places[originals:], places[sources], made_from[order]

    def spell(self, pieces: list[Integers]) -> pa.Array:
        """Return the texts of documents of these words."""
        offsets = np.concatenate(([0], np.cumsum([piece.size for piece in pieces])))
        listed = pa.LargeListArray.from_arrays(offsets, self.words.take(pa.array(np.concatenate(pieces))))
        return pc.binary_join(listed, " ").cast(pa.string())

    def edit(self, tokens: Integers, rate: float) -> Integers:
        """Return the tokens with about `rate` of them exchanged."""
        count = int(self.chance.poisson(rate * tokens.size)) if rate else 0
        if not count:
            return tokens
        edited = tokens.copy()
        edited[self.chance.integers(0, tokens.size, count)] = self.draw(count)
        return edited


def write_corpus(folder: Path, documents: int, **profile: Any) -> None:
    """Write `documents/` (doc_id, text) and `truth.parquet` (left, right, jaccard) of the planted pairs.

    The skewed profile has also `hot.parquet`, of at most HOT_PAIRS random pairs from each of its large families.

    Parameters
    ----------
    profile
        As for `Corpus`.
    """
    corpus = Corpus(**profile)
    (folder / "documents").mkdir(parents=True)
    truth, hot = [], []
    for first in range(0, documents, CHUNK):
        count = min(CHUNK, documents - first)
        texts, copies, sources, made_from = corpus.chunk(count)
        table = pa.table({"doc_id": np.arange(first, first + count), "text": texts})
        pq.write_table(table, folder / "documents" / f"{first:010}.parquet", compression="zstd")
        truth.append(compare(table, copies, sources))
        hot.append(table.append_column("made_from", pa.array(made_from)).filter(pc.field("made_from") >= 0))
    if corpus.skewed:
        families = pa.concat_tables(hot).sort_by("made_from").combine_chunks()
        sizes = families.group_by("made_from").aggregate([("doc_id", "count")]).sort_by("made_from")["doc_id_count"]
        starts = np.cumsum(sizes) - sizes.to_numpy()
        drawn = [
            start + corpus.chance.integers(0, size, (2, HOT_PAIRS))
            for start, size in zip(starts.tolist(), sizes.to_pylist(), strict=True)
        ]
        left, right = np.concatenate(drawn, axis=1)
        # No document is a pair with itself.
        pq.write_table(compare(families, left[left != right], right[left != right]), folder / "hot.parquet")
    pq.write_table(pa.concat_tables(truth), folder / "truth.parquet")


def compare(documents: pa.Table, left: Integers, right: Integers) -> pa.Table:
    """Return the ids of the documents at these positions, and the exact Jaccard of each pair."""
    tokens, bounds = UnicodeWords().hash(documents["text"].combine_chunks())
    exact = jaccard(*shingles.shingle(tokens, bounds, 5, UnicodeWords()), left, right)
    ids = documents["doc_id"].to_numpy()
    return pa.table({"left": ids[left], "right": ids[right], "jaccard": exact})
