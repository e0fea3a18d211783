"""DOCUMENTS -> VECTORS: the vector of every document, once all are known to be vectors of one length."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Tally, Work, read_histogram
from dedup.errors import DataError
from dedup.files.columns import VECTOR_SETTING
from dedup.kernels.runs.batches import conform
from dedup.kernels.vectors.products import VALUE_BYTES, find_bad, to_matrix
from dedup.tables import arrow
from dedup.tables.ids import SHOWN

SOUND, NONE, NOT_FINITE, ZEROS, RAGGED = range(5)
FAULTS = {NOT_FINITE: "NaN or infinity", ZEROS: "zeros alone", RAGGED: "bytes that are no 32-bit floats"}
"""Faults of vectors, by their numbers."""
HELD = pa.schema([("values", pa.binary()), ("length", pa.int64()), ("fault", pa.int64())])
"""Vector of a document, null without one, its values and its fault."""
VECTORS = pa.schema([("doc_id", pa.int64()), ("values", pa.binary())])
"""Documents that have a vector, perhaps repeated."""
FAULTY = ("id", "length", "fault")


def read_vectors(engine: Engine[Rows], encode: Work, setting: str) -> tuple[Rows, int, int]:
    """Return REGISTER with HELD, the number of VECTORS, and their dimensions.

    Parameters
    ----------
    encode
        Work that gives documents their `vector`, the bytes of 32-bit floats, null of those without one.
    setting
        Setting that says where they come from.

    Raises
    ------
    DataError
        When vectors are none, or of other lengths; names documents.
    """
    schema = pa.schema([*arrow.register(engine.id_type), *HELD])
    documents = engine.scan("vectors", partial(_check, encode=encode, schema=schema), schema)
    tally = engine.tally(documents)
    faults, lengths = read_histogram(tally, "faults"), read_histogram(tally, "lengths")
    # Of two that are as frequent the greater is right.
    length = max(lengths, key=lambda each: (lengths[each], each), default=0)
    if any(fault in FAULTS for fault in faults) or len(lengths) > 1:
        raise _refuse(engine, documents, length, setting)
    return documents, faults.get(SOUND, 0), length


def _check(batches: Batches, *, encode: Work, schema: pa.Schema) -> Iterator[pa.RecordBatch | Tally]:
    for batch in encode(batches):
        if isinstance(batch, Tally):
            yield batch
            continue
        values = batch["vector"]
        sizes = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        faults = np.where(values.is_null().to_numpy(zero_copy_only=False) | (sizes == 0), NONE, SOUND)
        faults[sizes % VALUE_BYTES > 0] = RAGGED
        for size in np.unique(sizes[faults == SOUND]).tolist():
            rows = np.flatnonzero((sizes == size) & (faults == SOUND))
            for fault, found in zip((NOT_FINITE, ZEROS), find_bad(to_matrix(values.take(pa.array(rows)))), strict=True):
                faults[rows[found]] = fault
        lengths = sizes // VALUE_BYTES
        yield Tally().add_each("faults", faults).add_each("lengths", lengths[faults == SOUND])
        held = pc.if_else(pa.array(faults == SOUND), values, pa.scalar(None, pa.binary()))
        yield conform(batch, schema, values=held, length=lengths, fault=faults)


def _refuse(engine: Engine[Rows], documents: Rows, length: int, setting: str) -> DataError:
    schema = pa.schema([("id", engine.id_type), *arrow.integers("length", "fault")])
    work = partial(_select_faulty, length=length)
    found = engine.collect(engine.map(engine.select(documents, *FAULTY), work, schema)).sort_by("id").slice(0, SHOWN)
    shown = [
        f"{FAULTS.get(row['fault'], 'length {:,}'.format(row['length']))} in document {row['id']!r}"
        for row in found.to_pylist()
    ]
    # Encoders have no null.
    told = "; a document without a vector has null" if setting == VECTOR_SETTING else ""
    return DataError(
        f"{setting}: vectors must have one length, here {length:,}, and finite values that are not all zero "
        f"(got {', '.join(shown)}){told}"
    )


def _select_faulty(batches: Batches, *, length: int) -> Batches:
    """Yield the first documents of every batch whose vector is at fault."""
    for batch in batches:
        faults, lengths = (batch[name].to_numpy() for name in ("fault", "length"))
        wrong = (faults > NONE) | ((faults == SOUND) & (lengths != length))
        yield batch.filter(pa.array(wrong)).sort_by("id").slice(0, SHOWN)
