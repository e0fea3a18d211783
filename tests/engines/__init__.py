"""Corpora for the memory engine: texts in, features and sets as the passes over the text give them."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from dedup.engines.memory import Features, Search, find
from dedup.kernels.sets import lsh, minhash
from dedup.kernels.sets.shingles import digest, shingle
from dedup.kernels.text.unicode_words import UnicodeWords

SEED = 1
SEARCH = Search(threshold=0.8, bands=21, rows=6, max_bucket=150, estimate_sigmas=4.0)


class Row(NamedTuple):
    """A row of the input; rows without an id column have equal ids where they are equal."""

    id: int | str
    text: str
    source: str | None = None
    value: float | None = None
    """Of a column that a rule asks for."""

    @property
    def doc_id(self) -> int:
        """As `documents.to_doc_id`."""
        if isinstance(self.id, int):
            return self.id
        return int(np.uint64(xxhash.xxh64_intdigest(self.id.encode(), 42)).astype(np.int64))


class Corpus:
    """Rows, and the two passes over their texts."""

    def __init__(self, rows: list[Row], shingle_size: int = 5) -> None:
        self.rows = rows
        self.shingle_size = shingle_size
        self.calls: list[list[int]] = []

    def sets(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return shingle(*UnicodeWords().hash(pa.array(texts, pa.string())), self.shingle_size, UnicodeWords())

    def features(self, search: Search) -> Features:
        shingles, offsets = self.sets([row.text for row in self.rows])
        halves = np.frombuffer(b"".join(digest(shingles, offsets)), dtype=">i8").astype(np.int64)
        signatures = minhash.sign(shingles, offsets, search.bands * search.rows, SEED)
        lsh_only = {
            "band_keys": lsh.band_keys(signatures, search.bands, search.rows),
            "signature": minhash.low_bytes(signatures),
        }
        kind = pa.string() if self.rows and isinstance(self.rows[0].id, str) else pa.int64()
        return Features(
            doc_ids=np.array([row.doc_id for row in self.rows], dtype=np.int64),
            ids=pa.array([row.id for row in self.rows], kind),
            shingle_counts=np.diff(offsets).astype(np.int32),
            digest_high=halves[::2],
            digest_low=halves[1::2],
            text_bytes=np.array([len(row.text.encode()) for row in self.rows], dtype=np.int64),
            order_keys=self._order_keys(search),
            sources=pa.array([row.source for row in self.rows], pa.string()),
            **(lsh_only if search.mode == "lsh" else {}),
        )

    def _order_keys(self, search: Search) -> np.ndarray:
        values = np.array([np.nan if row.value is None else row.value for row in self.rows])
        names = [name for name, _ in search.rules if name in {"highest", "latest", "lowest", "earliest"}]
        signs = [-1 if name in {"highest", "latest"} else 1 for name in names]
        return np.stack([sign * values for sign in signs], axis=1) if names else np.empty((values.size, 0))

    def sets_of(self, doc_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.calls.append(doc_ids.tolist())
        texts = {row.doc_id: row.text for row in self.rows}
        return self.sets([texts[doc_id] for doc_id in doc_ids.tolist()])

    def find(self, search: Search, labels: list[tuple] | None = None, **limits):
        """Search, with labels as pairs of doc_ids or None."""
        listed = None
        if labels is not None:
            schema = pa.schema({"left_id": pa.int64(), "right_id": pa.int64()})
            listed = pa.Table.from_pylist([{"left_id": left, "right_id": right} for left, right in labels], schema)
        return find(self.features(search), self.sets_of, search, listed, **limits)


def rows_of(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]
