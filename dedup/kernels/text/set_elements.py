"""Elements of sets as tokens, for documents that are no text: tags, k-mers, ids of users."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dedup.kernels import Hashes, Integers, loops
from dedup.kernels.hashing import expand
from dedup.kernels.text.tokenizer import TokenPlaces, hash_keyed, read_buffers

LINE_FEED = ord("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetElements:
    """Tokenizer of sets that are written as texts, an element a line, integers in decimal.

    A backslash of an element is written as two, a line feed as backslash and n, so that a line feed ends an element and
    nothing else, and a zero byte as backslash and 0, as hashes fill the last block up with such; the last element may
    lack its line feed.

    Parameters
    ----------
    seed, key
        As of `UnicodeWords`.
    """

    seed: int = 1
    key: bytes = field(default=b"", repr=False)

    @property
    def basis(self) -> str:
        """See `Tokenizer.basis`."""
        return ""

    def hash(self, texts: pa.Array) -> tuple[Hashes, Integers]:
        """Hash the elements of every set, each the bytes of its line; see `Tokenizer.hash`."""
        raw, offsets = read_buffers(texts)
        lines, ends = np.flatnonzero(raw == LINE_FEED), offsets[1:][np.diff(offsets) > 0]
        torn = ends[raw[ends - 1] != LINE_FEED]
        ends = np.concatenate((torn, lines))
        order = np.argsort(ends, kind="stable")
        ends, is_line = ends[order], order >= torn.size
        starts = np.concatenate((np.zeros(1, np.int64), ends + is_line))[: ends.size]
        bounds = np.searchsorted(starts, offsets)
        if self.key:
            return hash_keyed(raw[raw != LINE_FEED], ends - starts, self), bounds
        hashes = np.empty(starts.size, dtype=np.uint64)
        # Eight bytes are read from anywhere in it.
        padded = np.concatenate((raw, np.zeros(8, np.uint8)))
        loops.tokens.hash_spans(padded, starts, ends, expand(self.seed, 1)[0], hashes)
        return hashes, bounds

    def locate(self, texts: pa.Array) -> TokenPlaces:
        """Refuse, as a set has no places; layers that ask refuse the setting."""
        raise ValueError(f'shingles.unit: must not be "set" where places are asked for (got {len(texts)} texts)')
