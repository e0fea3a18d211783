"""Documents that were signed, as a batch that a store takes."""

from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from dedup.engines import memory
from dedup.engines.values import Features
from dedup.kernels import Hashes, Integers
from dedup.kernels.runs import find_bounds
from dedup.run.searching import Reading, Signatures, shingle_split
from dedup.settings.options import Config
from dedup.store.adding import Batch
from dedup.tables.ids import SHOWN

TOGETHER = 100_000
"""Shingle sets read at a time, at least those of a split: bounds memory."""


def to_batch(reading: Reading, signed: Signatures, name: str, config: Config) -> Batch:
    """Return what was signed as a batch of this name.

    Raises
    ------
    DataError
        When ids are null or repeated.
    """
    part = signed.part
    features = Features(
        doc_ids=part.doc_ids,
        ids=part.ids,
        shingle_counts=part.shingle_counts.astype(np.int32),
        digest_high=part.digest_high,
        digest_low=part.digest_low,
        band_keys=part.band_keys,
        signature=part.signature,
        sources=part.sources if config.input.source_column else None,
        text_bytes=part.text_bytes,
        order_keys=part.order_keys.flatten().to_numpy(zero_copy_only=False).reshape(part.doc_ids.size, -1),
    )
    memory.check_ids(features, id_column=config.input.id_column, null_texts=signed.begins[:SHOWN])
    order = np.lexsort((part.digest_low, part.digest_high, part.doc_ids))
    content = blake2b(digest_size=16)
    for column in (part.doc_ids, part.digest_high, part.digest_low):
        content.update(np.ascontiguousarray(column[order]).tobytes())
    return Batch(
        name=name,
        content=content.hexdigest(),
        features=features,
        sets_of=partial(_read_sets, reading, signed),
        id_column=config.input.id_column,
    )


def _read_sets(reading: Reading, signed: Signatures, rows: Integers) -> Iterator[tuple[Hashes, Integers]]:
    """Yield the shingle sets of rows in the order of reading, a few splits at a time."""
    part = signed.part
    task = partial(shingle_split, contract=reading.signing.contract, shingle_size=reading.signing.shingle_size)
    items, waiting = [], 0
    bounds = find_bounds(signed.splits[rows]).tolist()
    for begin, end in pairwise(bounds):
        files, places = part.files[rows[begin:end]], part.rows[rows[begin:end]]
        wanted = {int(files[a]): places[a:b] for a, b in pairwise(find_bounds(files).tolist())}
        split = reading.engine.splits[int(signed.splits[rows[begin]])]
        items.append((split, reading.engine.narrow(split), wanted))
        waiting += end - begin
        if waiting >= TOGETHER or end == rows.size:
            found = list(reading.engine.workers.map(task, items))
            sizes = np.concatenate([each for _, each in found])
            yield np.concatenate([values for values, _ in found]), np.concatenate(([0], np.cumsum(sizes)))
            items, waiting = [], 0
