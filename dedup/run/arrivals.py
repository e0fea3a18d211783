"""Documents that were signed, as a batch that a store takes."""

from collections.abc import Iterator
from functools import partial

from dedup.kernels import Hashes, Integers
from dedup.kernels.runs.bounds import find_bounds
from dedup.run.signing import Reading, Signatures
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
    """Yield the shingle sets of rows in the order of reading, whole splits at a time."""
    begin = 0
    for end in find_bounds(signed.splits[rows])[1:].tolist():
        if end - begin >= TOGETHER or end == rows.size:
            yield reading.collect(signed, rows[begin:end])
            begin = end
