"""Sample of the user's documents, read as a job reads them and measured with the job's kernels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse
from scipy.optimize import brentq

from dedup.errors import ConfigError, DataError
from dedup.files.listing import list_files, naming
from dedup.files.source import open_source
from dedup.files.splits import split_files
from dedup.kernels import Floats, Hashes, Integers
from dedup.kernels.hashing import mix
from dedup.kernels.sets import shingles
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.plan.profile import CorpusProfile, DrawnDocuments, Similarities

CHANCE = 0.1
"""Similarity below which documents resemble each other by chance, so in larger numbers in a larger corpus; from it on
they are related, and a larger corpus has more families rather than larger ones."""
CHARACTER_CHANCE = 0.4
"""The same with shingles of characters: see `chance`."""
EDGES = (0.0, 0.001, 0.003, 0.01, 0.02, 0.05, *(number / 20 for number in range(2, 21)))
"""Bounds of the bins of similarity; narrow near 0, where most pairs are."""
COMPARED = 4000
"""Documents compared pair by pair, in seconds."""
BLOCK = 500
"""Documents compared with all others at a time: bounds memory to some 10 MB per thousand documents."""
LZ4_BLOCK_BYTES = 32 << 10
"""Spark's `spark.io.compression.lz4.blockSize`."""
COMPRESSED_BLOCKS = 200
"""Blocks compressed to measure compression, about."""
SPLIT_BYTES = 64 << 20
MOST_BYTES = 256 << 20
"""Most text to draw: its tokens and shingles take a few times as much memory."""


def measure_corpus(
    path: str,
    *,
    text_columns: Sequence[str],
    drawn: int,
    shingle_size: int,
    tokenizer: Tokenizer,
    id_bytes: float,
    sample_of: int | None = None,
    compared: int = COMPARED,
    chance: float = CHANCE,
    has_sets: bool = False,
) -> CorpusProfile:
    """Measure the user's own documents, with every pair of some of them compared exactly.

    Of n documents drawn from N with equal chance every pair stays with probability (n / N)^2, so the partners that one
    of the drawn has, times (N - 1) / (n - 1), are on average those it has in the corpus.

    Parameters
    ----------
    drawn
        Most documents to search, drawn with equal chance, the same on every run.
    sample_of
        Documents of the corpus from which the file was drawn at random; None: the file is a corpus of its own.
    compared
        Most documents of these to compare all pairs of.
    chance
        Similarity below which documents resemble each other by chance.
    has_sets
        Whether the column holds lists, see `Shingles.has_sets`.

    Raises
    ------
    StorageError
        When nothing can be read there.
    ConfigError
        When it was drawn from fewer documents than it has.
    SchemaError
        When the column is missing or holds no text.
    DataError
        When there are fewer than two documents.
    """
    texts, total = _draw(path, text_columns, drawn, has_sets=has_sets)
    if sample_of is not None and sample_of < total:
        raise ConfigError(f"--sample-of must be at least the {total:,} documents of --sample (got {sample_of:,})")
    tokens, bounds, values, offsets = shingles.shingle_texts(texts, shingle_size, tokenizer)
    digests = np.frombuffer(b"".join(shingles.digest(values, offsets)), dtype="V16")
    full = np.flatnonzero(np.diff(offsets))
    _, firsts, copies = np.unique(digests[full], return_index=True, return_counts=True)
    heads = full[np.sort(firsts)]
    if heads.size < 2:
        raise DataError(f"--sample {path}: must hold two documents that differ (got {heads.size} among {len(texts):,})")
    some = heads[np.sort(np.argsort(mix(heads.astype(np.uint64)))[:compared])]
    counts, means, relatives = _count_pairs(values, offsets, some)
    size, whole = len(texts), sample_of or total
    share = counts / (some.size * (some.size - 1) / 2)
    related = means >= chance
    found = CorpusProfile(
        source=f"measured on {size:,} of {total:,} documents, {counts[means >= 0.5].sum():,.0f} pairs of .5 and more",
        documents=whole,
        text_bytes=pc.sum(pc.binary_length(texts)).as_py() / size,
        text_ratio=compress(np.frombuffer(b"".join(texts.to_pylist()), np.uint8)),
        tokens=tokens.size / size,
        shingles=values.size / size,
        id_bytes=id_bytes,
        identical=1 - heads.size / full.size,
        similarities=Similarities(
            jaccard=means,
            fixed=np.where(related, share * (whole - 1), 0.0),
            share=np.where(related, 0.0, share),
        ),
        evenness=_fit_evenness(relatives),
        drawn=DrawnDocuments(
            shingles=values, offsets=offsets, tokens=tokens, bounds=bounds, total=whole, compared=some.size
        ),
    )
    if whole == size:
        return found
    # Of the others with the same set, as many as of all pairs were not drawn.
    others = np.repeat(copies - 1, copies)
    same = float(others.mean()) * (whole - 1) / max(size - 1, 1)
    return replace(found, identical=1 - replace(found, evenness=_fit_evenness(others)).firsts(same))


def _fit_evenness(partners: Integers) -> float:
    """Return the size k of the negative binomial distribution with this mean and share of zeros.

    Sampling changes the mean but not k. The share of zeros is (1 + mean / k)^-k.
    """
    # Where none is without, fewer than one in so many are.
    mean, zeros = float(partners.mean()), max(float(np.mean(partners == 0)), 0.5 / partners.size)
    if not 0 < -math.log(zeros) < mean:
        return math.inf
    found: float = brentq(lambda size: size * math.log1p(mean / size) + math.log(zeros), 1e-6, 1e6)
    return found


def compress(content: np.ndarray) -> float:
    """Return the share of bytes left by LZ4, in a few blocks as Spark makes them."""
    content, codec = np.ascontiguousarray(content).reshape(-1).view(np.uint8), pa.Codec("lz4_raw")
    starts = range(0, content.size, LZ4_BLOCK_BYTES)
    blocks = [content[start : start + LZ4_BLOCK_BYTES] for start in starts[:: 1 + len(starts) // COMPRESSED_BLOCKS]]
    # What does not compress is stored as it is.
    left = sum(min(codec.compress(block).size, block.size) for block in blocks)
    return left / sum(block.size for block in blocks) if blocks else 1.0


def _count_pairs(values: npt.NDArray[np.uint64], offsets: Integers, heads: Integers) -> tuple[Floats, Floats, Integers]:
    """Return the pairs that share a shingle by bin of similarity, each bin's mean, and the documents' relatives.

    Relatives are partners of a similarity of .5 and more.
    """
    distinct, columns = np.unique(values, return_inverse=True)
    matrix = sparse.csr_array(
        (np.ones(values.size, dtype=np.int32), columns, offsets), shape=(offsets.size - 1, distinct.size)
    )[heads]
    sizes = np.diff(matrix.indptr)
    shared = matrix[:, np.bincount(matrix.indices, minlength=distinct.size) > 1]
    turned = shared.T.tocsr()
    counts, sums = np.zeros(len(EDGES) - 1), np.zeros(len(EDGES) - 1)
    relatives = np.zeros(heads.size, dtype=np.int64)
    for start in range(0, heads.size, BLOCK):
        found = (shared[start : start + BLOCK] @ turned).tocoo()
        left, right = found.row + start, found.col
        once = right > left
        both = found.data[once]
        jaccard = both / (sizes[left[once]] + sizes[right[once]] - both)
        counts += np.histogram(jaccard, bins=EDGES)[0]
        sums += np.histogram(jaccard, bins=EDGES, weights=jaccard)[0]
        for ends in (left, right):
            relatives += np.bincount(ends[once][jaccard >= 0.5], minlength=heads.size)
    seen = counts > 0
    return counts[seen], sums[seen] / counts[seen], relatives


def _draw(path: str, text_columns: Sequence[str], most: int, *, has_sets: bool) -> tuple[pa.Array, int]:
    """Return texts drawn with equal chance, limited in number and by MOST_BYTES, and the number of all documents."""
    pool, total = _Pool(most), 0
    for batch in _read(path, text_columns, has_sets=has_sets):
        pool.add(batch, mix(np.arange(total + 1, total + 1 + len(batch), dtype=np.uint64)))
        total += len(batch)
    if not total:
        raise DataError(f"--sample {path}: must hold documents (it has none)")
    return pool.prune(), total


class _Pool:
    """Pool of the texts with the least ranks, and some more, so that each is copied a few times only."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._texts, self._ranks = [pa.array([], pa.large_binary())], [np.empty(0, dtype=np.uint64)]
        self._held = self._nbytes = 0
        self._bound = np.uint64(np.iinfo(np.uint64).max)
        """Bound above the ranks of all kept texts."""

    def add(self, texts: pa.Array, ranks: Hashes) -> None:
        """Add the texts that may be among the least."""
        low = np.flatnonzero(ranks < self._bound)
        own = texts.take(pa.array(low))
        self._texts.append(own)
        self._ranks.append(ranks[low])
        self._held += low.size
        self._nbytes += own.nbytes
        if self._held > 2 * self._most or self._nbytes > 2 * MOST_BYTES:
            self.prune()

    def prune(self) -> pa.Array:
        """Keep the texts of the least ranks, and return them in order."""
        texts, ranks = pa.concat_arrays(self._texts), np.concatenate(self._ranks)
        if texts.nbytes > MOST_BYTES:
            self._most = min(self._most, max(int(len(texts) * MOST_BYTES / texts.nbytes), 2))
        if len(texts) > self._most:
            order = np.argpartition(ranks, self._most)
            self._bound = ranks[order[self._most]]
            kept = np.sort(order[: self._most])
            texts, ranks = texts.take(pa.array(kept)), ranks[kept]
        self._texts, self._ranks, self._held, self._nbytes = [texts], [ranks], len(texts), texts.nbytes
        return texts


def _read(path: str, text_columns: Sequence[str], *, has_sets: bool) -> Iterator[pa.Array]:
    """Yield the texts of a file or folder, in any format that a job reads, as large_binary arrays."""
    with naming("--sample"):
        listing = list_files([path], format="auto")
        source = open_source(listing, id_column="", text_columns=text_columns, has_sets=has_sets)
        for split in split_files(listing, SPLIT_BYTES):
            for piece in source.read(split):
                yield piece.batch["text"].cast(pa.large_binary()).fill_null(b"")
