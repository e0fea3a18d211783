"""Neighbours of a few drawn documents in a whole corpus, found piece by piece."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Hashes, Integers, sample_search
from dedup.kernels.hashing import mix
from dedup.kernels.runs.bounds import rank
from dedup.kernels.sets import exact, minhash, shingles
from dedup.kernels.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, eq=False)
class Seeds:
    """Drawn documents, prepared to be compared with all others."""

    doc_ids: Integers
    index: exact.PrefixIndex
    signatures: Hashes
    """Signatures; uint64 [n, K]."""
    signature_seed: int
    settings: Sequence[sample_search.Setting]

    @cached_property
    def keys(self) -> list[tuple[Hashes, Integers]]:
        """Band keys of each setting, ascending, and the document of each key."""
        return [_sort_keys(sample_search.band_keys(self.signatures, setting)) for setting in self.settings]

    @cached_property
    def low(self) -> Bytes:
        """Low bytes of the signatures, as from `minhash.low_bytes`."""
        return minhash.low_bytes(self.signatures)


def find_neighbours(
    pieces: Iterable[tuple[Integers, pa.Array]],
    seeds: Seeds,
    *,
    most: int,
    tokenizer: Tokenizer,
    shingle_size: int,
    counts: Counter[str],
) -> tuple[Integers, Integers]:
    """Find the documents that resemble a seed, by an exact search, which finds also what the bands of no setting would.

    Parameters
    ----------
    pieces
        doc_ids and texts, piece by piece.
    most
        Neighbours of one seed, those with the least hash of their doc_id, so that seeds of one large family have the
        same ones.
    counts
        Takes `documents`, and `paired N` and `compared N` for setting number N: pairs of a seed and another document
        that share a bucket, and those of them that sizes and estimate let pass; identical copies are counted one by
        one, and no cap is applied.

    Returns
    -------
    seeds, doc_ids : int64 [m]
        Positions of seeds, and documents that resemble them.
    """
    near, others = np.empty(0, np.int64), np.empty(0, np.int64)
    for doc_ids, texts in pieces:
        found = _compare(seeds, doc_ids, texts, tokenizer=tokenizer, shingle_size=shingle_size, counts=counts)
        near, others = select_least(np.concatenate((near, found[0])), np.concatenate((others, found[1])), most)
    return near, others


def _compare(
    seeds: Seeds, doc_ids: Integers, texts: pa.Array, *, tokenizer: Tokenizer, shingle_size: int, counts: Counter[str]
) -> tuple[Integers, Integers]:
    """Compare a piece with the seeds; see `find_neighbours`."""
    _, _, values, offsets = shingles.shingle_texts(texts, shingle_size, tokenizer)
    counts["documents"] += doc_ids.size
    if seeds.settings:
        _count_pairs(seeds, doc_ids, values, offsets, counts)
    found = list(exact.search(seeds.index, values, offsets))
    near = np.concatenate([left for left, _, _ in found] or [np.empty(0, np.int64)])
    return near, doc_ids[np.concatenate([right for _, right, _ in found] or [np.empty(0, np.int64)])]


def _count_pairs(seeds: Seeds, doc_ids: Integers, values: Hashes, offsets: Integers, counts: Counter[str]) -> None:
    """Count for each setting the pairs of a seed and another document that it finds and compares."""
    seed_sizes, full = np.diff(seeds.index.offsets), np.flatnonzero(np.diff(offsets))
    signatures = minhash.sign(*exact.take(values, offsets, full), seeds.signatures.shape[1], seeds.signature_seed)
    low, sizes = minhash.low_bytes(signatures), np.diff(offsets)[full]
    for number, (setting, (keys, owners)) in enumerate(zip(seeds.settings, seeds.keys, strict=True)):
        held = sample_search.band_keys(signatures, setting).reshape(-1)
        for left, right in exact.pair_owners(keys, owners, held, np.repeat(np.arange(full.size), setting.bands)):
            other = seeds.doc_ids[left] != doc_ids[full][right]
            left, right = left[other], right[other] + seed_sizes.size  # noqa: PLW2901 - what is left of them
            both = np.concatenate((seeds.low, low))[:, : setting.size]
            likely = sample_search.select_likely(np.concatenate((seed_sizes, sizes)), both, left, right, setting)
            counts[f"paired {number}"] += left.size
            counts[f"compared {number}"] += likely.size


def select_least(seeds: Integers, doc_ids: Integers, most: int) -> tuple[Integers, Integers]:
    """Return for every seed the `most` documents of least hash."""
    order = np.lexsort((mix(doc_ids.view(np.uint64)), seeds))
    chosen = order[rank(seeds[order]) < most]
    return seeds[chosen], doc_ids[chosen]


def _sort_keys(keys: Hashes) -> tuple[Hashes, Integers]:
    """Return all keys, ascending, and the document of each; documents without shingles have none."""
    owners = np.repeat(np.arange(keys.shape[0]), keys.shape[1])
    order = np.argsort(keys, axis=None)
    return keys.reshape(-1)[order], owners[order]
