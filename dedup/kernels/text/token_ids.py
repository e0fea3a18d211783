"""Token ids of a language model's tokenizer, by the library `tokenizers` of Hugging Face."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from dedup.kernels import Bytes, Hashes, Integers
from dedup.kernels.hashing import expand, mix
from dedup.kernels.text.tokenizer import TokenPlaces, hash_keyed, read_texts

ID_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIds:
    """Tokenizer whose tokens are the ids that a tokenizer file gives to a text as it is.

    Parameters
    ----------
    content
        The file, JSON. It goes with the value to workers, which may not see the file.
    seed, key
        As of `UnicodeWords`.
    """

    content: bytes = field(repr=False)
    seed: int = 1
    key: bytes = field(default=b"", repr=False)

    @property
    def basis(self) -> str:
        """See `Tokenizer.basis`."""
        from tokenizers import __version__

        return f"tokenizers {__version__}, file {blake2b(self.content, digest_size=16).hexdigest()}"

    def hash(self, texts: pa.Array) -> tuple[Hashes, Integers]:
        """Hash the ids of every text, each as a token of 8 bytes, little-endian; see `Tokenizer.hash`."""
        ids, bounds = _read_ids(_encode(load(self.content).encode_batch_fast, texts))
        return hash_ids(ids, self), bounds

    def locate(self, texts: pa.Array) -> TokenPlaces:
        """Find the tokens in the texts, where the library says that they are; see `Tokenizer.locate`."""
        encodings = _encode(load(self.content).encode_batch, texts)
        ids, bounds = _read_ids(encodings)
        places = np.array([*chain.from_iterable(each.offsets for each in encodings)], dtype=np.int64).reshape(-1, 2)
        begins, ends = places.T.copy()
        return TokenPlaces(begins, ends, bounds, _to_bytes(ids), np.arange(ids.size + 1) * ID_BYTES)


def hash_ids(ids: Hashes, tokenizer: TokenIds) -> Hashes:
    """Hash ids, each as a token of 8 bytes."""
    if tokenizer.key:
        return hash_keyed(_to_bytes(ids), np.full(ids.size, ID_BYTES), tokenizer)
    return mix(ids ^ expand(tokenizer.seed, 1)[0])


@lru_cache(maxsize=4)
def load(content: bytes) -> Any:  # noqa: ANN401 - a tokenizer of the library, which is an extra
    """Return the tokenizer of a file, which cuts off and fills up nothing.

    Raises
    ------
    ValueError
        When it is none of a tokenizer, or one that draws tokens at random.
    """
    # It forks no thread beside the processes of a run, and complains of none that were forked before.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer

    try:
        found = Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises no narrower one
        raise ValueError(str(error)) from error
    if json.loads(content)["model"].get("dropout"):
        raise ValueError("its model drops merges at random, by dropout")
    found.no_truncation()
    found.no_padding()
    return found


def _encode(encode: Callable[..., Sequence[Any]], texts: pa.Array) -> Sequence[Any]:
    return encode(read_texts(texts), add_special_tokens=False)


def _read_ids(encodings: Sequence[Any]) -> tuple[Hashes, Integers]:
    ids = [np.array(each.ids, dtype=np.uint64) for each in encodings]
    bounds = np.cumsum([0, *map(len, ids)])
    return np.concatenate([np.empty(0, np.uint64), *ids]), bounds


def _to_bytes(ids: Hashes) -> Bytes:
    return ids.astype("<u8").view(np.uint8)
