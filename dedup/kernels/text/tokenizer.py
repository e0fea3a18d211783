"""Tokenizers: strategies that cut texts into tokens. `unicode_words.UnicodeWords` is the one of the text contract."""

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Hashes, Integers, loops


class TokenPlaces(NamedTuple):
    """The tokens of n texts, each of its own length."""

    begins: Integers
    """First character of each token in its text; int64 [tokens]."""
    ends: Integers
    """Character after the last of each token; a character of two tokens, with its marks, belongs to both as a whole."""
    offsets: Integers
    """Text i owns the tokens from `offsets[i]` to `offsets[i + 1]`; int64 [n + 1]."""
    digested: Bytes
    """Bytes of the tokens, end to end."""
    widths: Integers
    """Begin of each token in these bytes; int64 [tokens + 1]."""

    def digest(self, begins: Integers, ends: Integers, key: bytes) -> Integers:
        """Return 128 bits that identify runs of tokens: BLAKE2b of their bytes and lengths; int64 [runs, 2].

        They share nothing with the 64-bit hashes of tokens, and take a nanosecond a byte; a run equal to the one before
        takes its digest.

        Parameters
        ----------
        begins, ends : int64 [runs]
            The first token of each, and the one after its last.
        """
        differs = np.ones(begins.size, dtype=bool)
        loops.tokens.compare(self.digested, self.widths, begins, ends, differs)
        lengths, digest = (
            np.diff(self.widths).astype("<i8"),
            partial(blake2b, digest_size=16, key=key, person=b"passage"),
        )
        digests = []
        for begin, end in zip(begins[differs].tolist(), ends[differs].tolist(), strict=True):
            hashed = digest(self.digested[self.widths[begin] : self.widths[end]].data)
            hashed.update(lengths[begin:end].data)
            digests.append(hashed.digest())
        found: Integers = np.frombuffer(b"".join(digests), dtype="<i8").reshape(-1, 2)[np.cumsum(differs) - 1]
        return found


class Tokenizer(Protocol):
    """Strategy by which texts become tokens: a value, equal and pickled by its settings.

    Tokens of two tokenizers are never compared. Whatever else is hashed of tokens (shingles, grams, lines, passages)
    takes its seed and key from their tokenizer.
    """

    @property
    def seed(self) -> int:
        """Number that changes every hash; 0 to 2^63 - 1."""

    @property
    def key(self) -> bytes:
        """Secret without which nobody can find colliding hashes; at most 64 bytes, empty for none."""

    @property
    def basis(self) -> str:
        """Digest of a file and versions of libraries that decide tokens besides the settings; empty for none."""

    def hash(self, texts: pa.Array) -> tuple[Hashes, Integers]:
        """Hash the tokens of every text.

        Parameters
        ----------
        texts
            string or binary array, n values; null counts as empty, bytes that are not UTF-8 as U+FFFD.

        Returns
        -------
        hashes : uint64 [tokens]
        offsets : int64 [n + 1]
            Text i owns `hashes[offsets[i]:offsets[i + 1]]`, in the order of the text.
        """

    def locate(self, texts: pa.Array) -> TokenPlaces:
        """Find the tokens that `hash` hashes in the texts; bytes that are not UTF-8 are as many U+FFFD as in Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedTokenizer:
    """Seed, key and basis of a tokenizer that changes texts for another one."""

    tokenizer: Tokenizer
    """Tokenizer of the texts that come out."""

    @property
    def seed(self) -> int:
        """See `Tokenizer.seed`."""
        return self.tokenizer.seed

    @property
    def key(self) -> bytes:
        """See `Tokenizer.key`."""
        return self.tokenizer.key

    @property
    def basis(self) -> str:
        """See `Tokenizer.basis`."""
        return self.tokenizer.basis


def hash_keyed(tokens: Bytes, lengths: Integers, tokenizer: Tokenizer) -> Hashes:
    """Hash tokens that lie end to end with the key, equal ones once: BLAKE2b of 8 bytes, the seed for its salt.

    Parameters
    ----------
    lengths : int64 [tokens]
        Bytes of each.
    """
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    encoded = to_cells(tokens, offsets).dictionary_encode()
    keyed = partial(blake2b, digest_size=8, key=tokenizer.key, salt=tokenizer.seed.to_bytes(16, "little"))
    digests = [keyed(token).digest() for token in encoded.dictionary.to_pylist()]
    hashes: Hashes = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[encoded.indices.to_numpy()]
    return hashes


def read_texts(texts: pa.Array) -> list[str]:
    """Return texts as Python's, null as empty and bytes that are not UTF-8 as U+FFFD."""
    return [(each or b"").decode("utf-8", "replace") for each in texts.cast(pa.large_binary()).to_pylist()]


def read_buffers(texts: pa.Array) -> tuple[Bytes, Integers]:
    """Return the bytes of all texts and the offsets of each text; the bytes are not copied."""
    texts = texts.cast(pa.large_binary())
    if texts.null_count:
        texts = texts.fill_null(b"")
    _, positions, data = texts.buffers()
    offsets = np.frombuffer(positions, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    return raw[offsets[0] : offsets[-1]], offsets - offsets[0]


def to_cells(raw: Bytes, bounds: Integers, kind: pa.DataType | None = None) -> pa.Array:
    """Return runs of bytes that lie end to end, without copying them; large_binary, or of another kind."""
    return pa.Array.from_buffers(
        kind or pa.large_binary(), bounds.size - 1, [None, pa.py_buffer(bounds), pa.py_buffer(raw)]
    )
