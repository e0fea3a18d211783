"""Documents that were signed, as a batch that a store takes."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from dedup.kernels import Hashes, Integers
from dedup.run.searching import Item, Reading, Signatures
from dedup.store.adding import Batch
from dedup.store.content import name_content, sum_content

TOGETHER = 100_000
"""Shingle sets read at a time, at least those of a split: bounds memory."""


def to_batch(reading: Reading, signed: Signatures, name: str) -> Batch:
    """Return what was signed as a batch of this name.

    Raises
    ------
    DataError
        When ids are null or repeated.
    """
    part = signed.part
    features = reading.describe(signed)
    return Batch(
        name=name,
        content=name_content(*sum_content(part.doc_ids, part.digest_high, part.digest_low)),
        features=features,
        sets_of=partial(_read_sets, reading, signed),
        id_column=reading.config.input.id_column,
    )


def _read_sets(reading: Reading, signed: Signatures, rows: Integers) -> Iterator[tuple[Hashes, Integers]]:
    """Yield the shingle sets of rows in the order of reading, a few splits at a time."""
    items: list[Item] = []
    for item in reading.plan(signed, rows):
        items.append(item)
        if sum(places.size for *_, wanted in items for places in wanted.values()) >= TOGETHER:
            yield _shingle(reading, items)
            items = []
    if items:
        yield _shingle(reading, items)


def _shingle(reading: Reading, items: list[Item]) -> tuple[Hashes, Integers]:
    """Return the shingle sets of some work of a plan end to end, and where each begins."""
    found = reading.shingle(items)
    sizes = np.concatenate([each for _, each in found])
    return np.concatenate([values for values, _ in found]), np.concatenate(([0], np.cumsum(sizes)))
