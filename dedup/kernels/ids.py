"""Document ids, made of the user's ids."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from dedup.kernels import Integers

SEED = 42
"""Seed of XXH64, the same as in Spark's `xxhash64`."""


def to_doc_ids(ids: pa.Array) -> Integers:
    """Return the 64-bit document id of every id, 0 where it is null.

    Parameters
    ----------
    ids
        int64, which are their own document ids, or string, which are hashed (XXH64 of the UTF-8 bytes).
    """
    if pa.types.is_integer(ids.type):
        own: Integers = ids.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return own
    return np.array([hash_id(each, SEED) for each in ids.cast(pa.binary()).to_pylist()], dtype=np.int64)


def parse_ids(texts: pa.Array, id_type: pa.DataType) -> pa.Array:
    """Return texts as ids of a type.

    Raises
    ------
    ArrowInvalid
        When ids are integers and a text is not.
    """
    # Arrow would read hexadecimal numbers, ids of documents that nobody has named.
    odd = texts.filter(pc.match_substring(texts, "x", ignore_case=True)) if pa.types.is_integer(id_type) else []
    if len(odd):
        raise pa.ArrowInvalid(f"got {odd[0].as_py()!r}")
    return texts.cast(id_type)


def hash_id(user_id: bytes | None, seed: int) -> int:
    """Return XXH64 as a signed number; 0 for null."""
    hashed = 0 if user_id is None else xxhash.xxh64_intdigest(user_id, seed)
    return hashed - (1 << 64) if hashed >> 63 else hashed


def rename(collided: Iterable[Sequence[str]], find_taken: Callable[[list[int]], set[int]]) -> dict[str, int]:
    """Return new document ids for ids that share one: for all but the least id of each group.

    The same for any order. Each takes the first hash, by the seeds that follow, which no document has and no other
    of them takes at the same time.

    Parameters
    ----------
    find_taken
        Tells which of some numbers are document ids.
    """
    waiting = sorted(each for group in collided for each in sorted(group, key=str.encode)[1:])
    renamed: dict[str, int] = {}
    seed = SEED
    while waiting:
        seed += 1
        hashed = {each: hash_id(each.encode(), seed) for each in waiting}
        counts = Counter(hashed.values())
        taken = find_taken(list(counts)) | set(renamed.values()) | {one for one, count in counts.items() if count > 1}
        renamed |= {each: one for each, one in hashed.items() if one not in taken}
        waiting = [each for each in waiting if each not in renamed]
    return renamed


def apply_renamed(doc_ids: Integers, ids: pa.Array, renamed: Mapping[str, int]) -> Integers:
    """Return document ids, replaced for renamed ids."""
    if not renamed:
        return doc_ids
    places = pc.index_in(ids, pa.array(list(renamed), ids.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(places >= 0, np.array(list(renamed.values()), dtype=np.int64)[places], doc_ids)
