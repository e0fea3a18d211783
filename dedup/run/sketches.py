"""Sketches of outputs and stores in, estimates of how much of each is in each other out; no text is read."""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.errors import ConfigError, StorageError
from dedup.files.storage import Storage, find_result
from dedup.files.systems import whole
from dedup.kernels.sets.exact import take
from dedup.kernels.sets.sketch import ShingleSample, Sketch, Sketcher, compare
from dedup.layers.near.signing import to_sets
from dedup.layers.near.sketching import SKETCH, Sketches, name_spec
from dedup.report.answers import show_matrix
from dedup.run.apart import check_outside
from dedup.run.comparing import name_snapshots
from dedup.store.arrays import list_ranges
from dedup.store.snapshot import Snapshot
from dedup.store.tables import Tables

TOLD = "that the column's snapshot has too, by a sample of the distinct shingles of both, with its standard error"


def estimate_overlaps(
    given: Sequence[str], *, by_source: bool = False, output: str | None = None
) -> list[dict[str, Any]]:
    """Estimate how much of each corpus is in each other.

    Parameters
    ----------
    given
        PATH or NAME=PATH of outputs, stores, and files or folders of sketches, which are their union.
    by_source
        Whether each source, or batch of a store, is a corpus of its own, called NAME/SOURCE; null is called (none), in
        more parentheses where a source has that name.
    output
        Folder that must not exist yet, for `matrix.json` and `matrix.html`.

    Returns
    -------
    list of dict
        For every two: `snapshot`, `shingles`, `of`, `union`, `jaccard` and `share`, the part of the shingles of the
        first that the second has; numbers with their standard errors, as `jaccard_error`, None where nothing tells.

    Raises
    ------
    DedupError
        When a path has no sketch, hashes are not comparable, or the output does not allow it.
    """
    storage = Storage()
    if output is not None:
        check_outside(storage, output)
        if storage.exists(output):
            raise StorageError(f"--output {output}: must not exist yet")
    samples = dict(_sample(storage, name_snapshots(given, "overlap"), by_source=by_source))
    matrix = [_compare(*one, *other) for one, other in product(samples.items(), repeat=2)]
    if output is not None:
        storage.write_text(f"{output}/matrix.html", show_matrix(matrix, of="shingles", told=TOLD))
        storage.write_text(f"{output}/matrix.json", json.dumps(matrix, indent=1, ensure_ascii=False) + "\n")
    return matrix


def _sample(storage: Storage, paths: dict[str, str], *, by_source: bool) -> Iterator[tuple[str, ShingleSample]]:
    first: dict[str, Any] = {}
    for name, path in paths.items():
        spec, sketch = _open(storage, name, path)
        first = first or spec
        for each in spec.keys() & first.keys():
            if spec[each] != first[each]:
                raise ConfigError(
                    f"overlap: hash specification: {each} of {name} must be {first[each]!r}, as in the first corpus "
                    f"(got {spec[each]!r})"
                )
        if not by_source:
            yield name, sketch.sample()
            continue
        sources, none = pc.unique(sketch.sources).to_pylist(), "(none)"
        while none in sources:
            none = f"({none})"
        for source in sources:
            yield f"{name}/{none if source is None else source}", sketch.sample(source)


def _open(storage: Storage, name: str, path: str) -> tuple[dict[str, Any], Sketch]:
    if Tables(path).exists():
        return _sketch_store(Snapshot.open(Tables(path)))
    sketches = Sketches()
    for file in _list_files(storage, path):
        with whole(file), storage.open(file) as stream:
            rows = pq.read_table(stream)
        if not {*SKETCH.names} <= {*rows.column_names}:
            raise StorageError(f"overlap: {path} must be an output, a store or a sketch (it has columns of others)")
        sketches.add(rows)
    found = sketches.finish() or {"{}": Sketcher().finish()}
    if len(found) > 1:
        raise ConfigError(f"overlap: {name} must be of one hash specification (it has {len(found)}, of profiles)")
    [(spec, sketch)] = found.items()
    return json.loads(spec), sketch


def _list_files(storage: Storage, path: str) -> list[str]:
    """Return the files of a sketch."""
    is_file = storage.exists(path) and not storage.is_folder(path)
    if is_file and path.endswith(".parquet"):
        return [path]
    result = find_result(storage, path)
    for folder in () if is_file else (f"{result}/sketch", path):
        files = [entry.path for entry in storage.list(folder) if entry.path.endswith(".parquet")]
        if files:
            return [f"{folder}/{each}" for each in sorted(files)]
    raise StorageError(
        f"overlap: {path} must be an output, a store, or a sketch (it has no sketch, which runs of this release with "
        "the layer near make)"
    )


def _sketch_store(snapshot: Snapshot) -> tuple[dict[str, Any], Sketch]:
    """Return a sketch of the shingle sets of a store, whose sources are batches."""
    sketcher = Sketcher()
    rows = snapshot.read("documents", ["set", "batch"]).group_by(["set", "batch"]).aggregate([]).sort_by("set")
    numbers, batches = rows["set"].to_numpy(), rows["batch"].combine_chunks()
    for part in snapshot.scan_sets():
        sets = part["set"].to_numpy()
        begins, ends = (np.searchsorted(numbers, sets, side=side) for side in ("left", "right"))
        # Once for each batch that has it, and not where all of its documents are deleted.
        hashes, offsets = take(*to_sets(part["shingles"]), np.repeat(np.arange(sets.size), ends - begins))
        sketcher.add(hashes, np.diff(offsets), batches.take(pa.array(list_ranges(begins, ends - begins))))
    return json.loads(name_spec(snapshot.state.spec)), sketcher.finish()


def _compare(name: str, one: ShingleSample, of: str, other: ShingleSample) -> dict[str, Any]:
    shingles, error = one.estimate_size()
    told = {"snapshot": name, "shingles": round(shingles), "shingles_error": error, "of": of}
    found = compare(one, other)._asdict()
    return told | {key: None if math.isnan(value) else value for key, value in found.items()}
