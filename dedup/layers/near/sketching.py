"""SIGNATURES -> SKETCH: the shingles of a corpus by source, as far as they are sampled."""

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.kernels.runs.batches import conform, conform_each
from dedup.kernels.sets.sketch import Sketch, Sketcher

SKETCH = pa.schema([("spec", pa.string()), ("bound", pa.int64()), ("source", pa.string()), ("hash", pa.int64())])
"""Pairs of sketches, each with its bound and, as JSON, all that decides hashes; these and bounds are bits of uint64."""
OF_BANDS = ("bands", "rows", "signature_seed")
"""Parts of a hash specification that no shingle depends on."""
CELLS = pa.schema([("key", pa.int64()), ("sketch", pa.binary())])


def name_spec(spec: Mapping[str, Any]) -> str:
    """Return what of a hash specification decides shingles, as JSON."""
    return json.dumps({name: value for name, value in spec.items() if name not in OF_BANDS}, sort_keys=True)


def to_rows(sketch: Sketch, spec: str) -> pa.RecordBatch:
    """Return SKETCH."""
    rows = pa.record_batch({"source": sketch.sources, "hash": sketch.hashes.view(np.int64)})
    return conform(rows, SKETCH, spec=spec, bound=int(np.uint64(sketch.bound).view(np.int64)))


def to_cell(rows: pa.RecordBatch) -> bytes:
    """Return SKETCH as a cell of SIGNATURES."""
    columns = [each.dictionary_encode() if pa.types.is_string(each.type) else each for each in rows.columns]
    packed, sink = pa.RecordBatch.from_arrays(columns, names=rows.schema.names), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, packed.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(packed)
    return bytes(sink.getvalue())


class Sketches:
    """Sketches of what was added, by their `spec`."""

    def __init__(self) -> None:
        self._sketchers: dict[str, Sketcher] = defaultdict(Sketcher)

    def add(self, rows: pa.Table) -> None:
        """Add SKETCH, in any order; rows of several sketches are their union."""
        for spec, bound in {*zip(rows["spec"].to_pylist(), rows["bound"].to_pylist(), strict=True)}:
            own = rows.filter(pc.and_(pc.equal(rows["spec"], spec), pc.equal(rows["bound"], bound)))
            hashes = own["hash"].to_numpy().view(np.uint64)
            sketch = Sketch(hashes, own["source"].combine_chunks(), int(np.int64(bound).view(np.uint64)))
            self._sketchers[spec].merge(sketch)

    def finish(self) -> dict[str, Sketch]:
        """Return the sketches."""
        return {spec: each.finish() for spec, each in sorted(self._sketchers.items())}


def merge_cells(engine: Engine[Rows], cells: Rows) -> Rows:
    """Return SKETCH of the cells of SIGNATURES."""
    shuffle = Shuffle(
        emit=partial(conform_each, schema=CELLS, key=0), emitted=CELLS, by=("key",), work=_merge, schema=SKETCH
    )
    return engine.group("sketch", cells, shuffle, once=True)


def _merge(batches: Batches) -> Batches:
    sketches = Sketches()
    for cell in (cell for batch in batches for cell in batch["sketch"].to_pylist()):
        with pa.ipc.open_stream(cell) as stream:
            sketches.add(stream.read_all().cast(SKETCH))
    for spec, sketch in sketches.finish().items():
        yield to_rows(sketch, spec)
