"""How much of each batch is in each other, of one store or of two."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import ConfigError
from dedup.files.systems import redact
from dedup.kernels.exact import compare as compare_sets
from dedup.kernels.pairs import decode, encode
from dedup.settings.hashspec import HashSpec
from dedup.store.arrays import distinct, expand
from dedup.store.changing import read_links
from dedup.store.growth import sign
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot, to_sets
from dedup.store.state import read_state
from dedup.store.tables import Tables


def compare(one: Tables, other: Tables | None = None) -> list[dict[str, Any]]:
    """Return of every two batches how many documents of the first resemble one of the second, itself not counted.

    Parameters
    ----------
    one
        Only read, as the other.
    other
        By default the same store, whose edges then tell.

    Returns
    -------
    list of dict
        batch, documents, of, found, share; `of` is the batch that is searched.

    Raises
    ------
    ConfigError
        When the stores have other hash specifications.
    """
    mine = Snapshot(tables=one, state=read_state(one))
    theirs = mine if other is None else Snapshot(tables=other, state=read_state(other))
    own, held = HashSpec(**mine.state.spec), HashSpec(**theirs.state.spec)
    for name, (ours, others) in own.difference(held).items():
        where = redact(theirs.tables.path)
        raise ConfigError(f"{where}: hash specification: {name} must be {ours!r}, as in the first (got {others!r})")
    relation = _read_relation(mine) if other is None else _find_relation(mine, theirs)
    rows, held_rows = _read_batches(mine), _read_batches(theirs)
    met = rows.join(relation, "set", join_type="inner").join(
        held_rows.rename_columns(["other_id", "other", "of"]), "other", join_type="inner"
    )
    if other is None:
        met = met.filter(pc.not_equal(met["doc_id"], met["other_id"]))
    counts = (
        met.group_by(["batch", "of", "doc_id"]).aggregate([]).group_by(["batch", "of"]).aggregate([([], "count_all")])
    )
    found = {(row["batch"], row["of"]): row["count_all"] for row in counts.to_pylist()}
    sizes = {row["values"]: row["counts"] for row in pc.value_counts(_list_batches(mine)).to_pylist()}
    columns = sorted(_list_batches(theirs).unique().to_pylist())
    return [
        {
            "batch": batch,
            "documents": sizes[batch],
            "of": column,
            "found": found.get((batch, column), 0),
            "share": found.get((batch, column), 0) / sizes[batch],
        }
        for batch in sorted(sizes)
        for column in columns
    ]


def _list_batches(snapshot: Snapshot) -> pa.ChunkedArray:
    return snapshot.read("documents", ["batch"])["batch"]


def _read_batches(snapshot: Snapshot) -> pa.Table:
    """Return doc_id, set and batch of documents that have a token."""
    rows = snapshot.read("documents", ["doc_id", "set", "batch"])
    return rows.filter(pc.not_equal(rows["set"], NO_SET))


def _read_relation(snapshot: Snapshot) -> pa.Table:
    """Return the sets that resemble each other, themselves among them."""
    links = read_links(snapshot)
    own = np.sort(snapshot.read("sets", ["set"])["set"].to_numpy())
    return pa.table(
        {"set": np.concatenate((links.left, links.right, own)), "other": np.concatenate((links.right, links.left, own))}
    )


def _find_relation(mine: Snapshot, theirs: Snapshot) -> pa.Table:
    """Search the sets of one store in another, file by file."""
    search, seed = mine.state.search, mine.state.spec["signature_seed"]
    parts = [pa.schema([("set", pa.int64()), ("other", pa.int64())]).empty_table()]
    for file in mine.list_files("sets"):
        with mine.tables.read("sets", file) as found:
            for part in found.iter_batches(1 << 15, columns=["set", "shingles"]):
                rows = pa.Table.from_batches([part])
                own = to_sets(rows["shingles"])
                _, keys = sign(*own, search, seed)
                flat = keys.view(np.int64).reshape(-1)
                order = np.argsort(flat)
                ordered = flat[order]
                hits = theirs.find("bands", distinct(ordered))
                first = np.searchsorted(ordered, hits["key"].to_numpy())
                counts = np.searchsorted(ordered, hits["key"].to_numpy(), side="right") - first
                owners = order[expand(first, counts)] // search.bands
                left, right = decode(distinct(encode(owners, np.repeat(hits["set"].to_numpy(), counts))))
                known = distinct(right)
                exact = compare_sets(own, theirs.find_sets(known), left, np.searchsorted(known, right))
                similar = exact >= search.threshold
                parts.append(pa.table({"set": rows["set"].to_numpy()[left[similar]], "other": right[similar]}))
    return pa.concat_tables(parts)
