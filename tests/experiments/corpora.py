"""The corpora of the experiments, with their features."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.kernels import Hashes, Integers, components
from dedup.kernels.sample_search import find_heads
from dedup.kernels.sets import exact, shingles
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.corpora import write_corpus

DOCUMENTS = 100_000
THRESHOLD = 0.8
SHINGLE = 5
REAL = Path(__file__).resolve().parent.parent / "data" / "history.parquet"


class Sets(NamedTuple):
    """Shingle sets of a corpus, end to end, and the pairs that should be found."""

    shingles: Hashes
    offsets: Integers
    left: Integers
    right: Integers


def make(profile: dict[str, Any]) -> Sets:
    """Return a generated corpus and its planted pairs at or above the threshold."""
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(Path(folder, "corpus"), DOCUMENTS, **profile)
        texts = pq.read_table(Path(folder, "corpus", "documents"))["text"].combine_chunks()
        truth = pa.concat_tables([pq.read_table(file) for file in Path(folder, "corpus").glob("*.parquet")])
    similar = truth["jaccard"].to_numpy() >= THRESHOLD
    left, right = (truth[name].to_numpy()[similar] for name in ("left", "right"))
    return Sets(*shingle(texts), left, right)


def read_real(data: str = "") -> Iterator[tuple[str, Sets, pa.Array]]:
    """Yield name, distinct sets and their texts of the real corpus at hand, and of the parquet files of a folder."""
    for file in (REAL, *(sorted(Path(data).glob("*.parquet")) if data else ())):
        texts = pq.read_table(file)["text"].combine_chunks()
        values, offsets = shingle(texts)
        heads = find_heads(np.arange(offsets.size - 1), values, offsets)
        own = np.flatnonzero((heads == np.arange(heads.size)) & (np.diff(offsets) > 0))
        taken = exact.take(values, offsets, own)
        yield file.stem, Sets(*taken, *search(*taken)), texts.take(pa.array(own))


def search(values: Hashes, offsets: Integers, threshold: float = THRESHOLD) -> tuple[Integers, Integers]:
    """Return all pairs left < right of sets at or above a threshold."""
    batches = [
        (left, right) for left, right, _ in exact.search(exact.index(values, offsets, threshold), values, offsets)
    ]
    left, right = (np.concatenate(each) for each in zip(*batches, strict=True))
    return left[left < right], right[left < right]


def shingle(texts: pa.Array) -> tuple[Hashes, Integers]:
    """Return the sets of texts, and their offsets."""
    return shingles.shingle(*UnicodeWords().hash(texts), SHINGLE, UnicodeWords())


def count_lost(sets: Sets, left: Integers, right: Integers) -> int:
    """Return the pairs that should be found and are not in one component of those that are."""
    ids, least = components.connect(left, right)
    places = np.full(sets.offsets.size - 1, -1)
    places[ids] = least
    found = (places[sets.left] >= 0) & (places[sets.left] == places[sets.right])
    return int(np.count_nonzero(~found))
