"""Shingle sets of documents that have come: those that are held, and others made of their texts again."""

from collections.abc import Iterator
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Tally, Work
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform, slice_by_bytes
from dedup.kernels.sets.shingles import shingle_texts
from dedup.layers.near.signing import PIECE_BYTES, Signing, slice_texts
from dedup.layers.near.templates import MEMBERS
from dedup.store.numbering import DIGESTS
from dedup.store.writing import FILES
from dedup.tables import arrow

HELD = pa.schema([*arrow.integers("doc_id", "set", *DIGESTS), ("shingles", pa.binary())])
"""Rows of `sets`, with a document of each."""


class Supply(Protocol[Rows]):
    """A pass over documents that gives their shingle sets to some work."""

    def __call__(self, engine: Engine[Rows], fresh: Rows, work: Work, /) -> Rows:
        """Return FILES that the work makes of HELD of these FRESH, which ascend by set, or do so in parts."""


def supply_texts(engine: Engine[Rows], fresh: Rows, work: Work, *, documents: Rows, signing: Signing) -> Rows:
    """Give the shingle sets of documents of texts to some work, those that are not held made again: see `Supply`."""
    wanted, shingling = engine.select(fresh, *HELD.names[:-1]), partial(_shingle, work=work, signing=signing)
    if signing.holds == "none":
        return engine.fetch("sets", wanted, shingling, FILES)
    joined = _join_held(engine, fresh, documents)
    rest = engine.join(wanted, engine.map(joined, _list_held, MEMBERS), "doc_id", how="anti")
    return engine.concat(_save(engine, joined, work), engine.fetch("sets", rest, shingling, FILES))


def supply_held(engine: Engine[Rows], fresh: Rows, work: Work, *, documents: Rows) -> Rows:
    """Give the shingle sets that all documents hold to some work: see `Supply`."""
    return _save(engine, _join_held(engine, fresh, documents), work)


def _join_held(engine: Engine[Rows], fresh: Rows, documents: Rows) -> Rows:
    return engine.join(
        engine.select(documents, "doc_id", "shingles", here_file="file", here_row="row"), fresh, "doc_id", how="left"
    )


def _save(engine: Engine[Rows], joined: Rows, work: Work) -> Rows:
    return engine.map(joined, partial(_save_held, work=work), FILES, name="sets_held")


def _list_held(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([batch["doc_id"].filter(_mark_held(batch))], schema=MEMBERS)


def _mark_held(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Flag the rows whose sets are fresh and held; of equal rows the first has its set."""
    is_first = pc.and_(pc.equal(batch["here_file"], batch["file"]), pc.equal(batch["here_row"], batch["row"]))
    return pc.and_(is_first, batch["shingles"].is_valid())


def _save_held(batches: Batches, *, work: Work) -> Iterator[pa.RecordBatch | Tally]:
    """Give sets to some work piece by piece, without a copy of all."""
    return iter(work(piece for batch in batches for piece in _take_held(batch)))


def _take_held(batch: pa.RecordBatch) -> Batches:
    batch = batch.append_column("is_held", _mark_held(batch))
    sets = batch["set"].filter(batch["is_held"]).to_numpy()
    ascend = bool((sets[1:] >= sets[:-1]).all())
    for piece in slice_by_bytes(batch, PIECE_BYTES, "shingles") if ascend else [batch]:
        taken = piece.filter(piece["is_held"]).select(HELD.names)
        yield taken if ascend else taken.sort_by("set")


def _shingle(batches: Batches, *, work: Work, signing: Signing) -> Iterator[pa.RecordBatch | Tally]:
    return iter(work(_list_sets(batches, signing)))


def _list_sets(batches: Batches, signing: Signing) -> Batches:
    for batch in slice_texts(batches):
        _, _, values, offsets = shingle_texts(batch["text"], signing.shingle_size, signing.tokenizer)
        yield conform(batch, HELD, shingles=blocks.lists(values, offsets))
