"""Comparison of snapshots of a corpus, batches of one store or of several: how much of each is in each other."""

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import ConfigError
from dedup.kernels import Flags, Integers
from dedup.kernels.runs.bounds import find_bounds, mark_firsts
from dedup.layers.near.signing import to_sets
from dedup.settings.hashspec import HashSpec
from dedup.store.arrays import NONE, distinct, is_in, look_up
from dedup.store.links import Links, find_links, join, read_links
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot

TOGETHER = 1 << 15
"""Shingle sets searched at a time, which meet `cap` others in a band at most: bounds memory."""


class Side(NamedTuple):
    """A store that takes part."""

    snapshot: Snapshot
    names: list[str]
    """Names of its batches."""
    rows: pa.Table
    """doc_id, set and batch, its position in names, of all documents by doc_id."""


class SnapshotComparison(NamedTuple):
    """Result of a comparison."""

    matrix: list[dict[str, Any]]
    """A dictionary for every two snapshots: snapshot, documents, of, found, share, unsure. `found` documents of the
    first resemble one of the second, themselves not counted; of `unsure` more it is not known, as they are in buckets
    over the cap, not all of whose pairs are compared."""
    duplicates: pa.Table
    """For every document found: snapshot, id, of, other_id, jaccard. The other is the most similar that was met."""


def compare(snapshots: Mapping[str, Snapshot]) -> SnapshotComparison:
    """Search every batch in every other and in itself, at the threshold, by exact Jaccard similarity.

    Parameters
    ----------
    snapshots
        Stores by the names under which their batches are told: NAME of the only batch of one, NAME/BATCH of several,
        and BATCH where there is one store.

    Raises
    ------
    ConfigError
        When two have other hash specifications or thresholds.
    """
    sides = _open(snapshots)
    rows, matrix = [_DUPLICATES.empty_table()], []
    for one, other in combinations_with_replacement(sides, 2):
        links, (own, theirs) = _read_related(one) if one is other else _find_related(one, other)
        turned = Links(links.right, links.left, links.jaccard)
        ways = [(one, other, links, own), (other, one, turned, theirs)]
        if one is other:
            ways = [(one, one, join(links, turned), own)]
        for mine, yours, met, doubtful in ways:
            found = _choose(mine, yours, met)
            matrix += _count(mine, yours, found, doubtful)
            rows.append(_name(mine, yours, found))
    order = [name for side in sides for name in side.names]
    matrix.sort(key=lambda row: (order.index(row["snapshot"]), order.index(row["of"])))
    return SnapshotComparison(matrix, pa.concat_tables(rows))


_FOUND = ("doc_id", "of", "other", "jaccard")
_DUPLICATES = pa.schema(
    {"snapshot": pa.string(), "id": pa.string(), "of": pa.string(), "other_id": pa.string(), "jaccard": pa.float64()}
)


def _open(snapshots: Mapping[str, Snapshot]) -> list[Side]:
    sides: list[Side] = []
    first: tuple[HashSpec, float] | None = None
    for name, snapshot in snapshots.items():
        state, where = snapshot.state, f"--against {name}"
        spec, threshold = HashSpec(**state.spec), state.search.threshold
        first = first or (spec, threshold)
        for each, (ours, theirs) in first[0].difference(spec).items():
            raise ConfigError(
                f"{where}: hash specification: {each} must be {ours!r}, as in the first snapshot (got {theirs!r})"
            )
        if threshold != first[1]:
            raise ConfigError(f"{where}: threshold must be {first[1]:g}, as in the first snapshot (got {threshold:g})")
        rows = snapshot.read("documents", ["doc_id", "set", "batch"]).sort_by("doc_id")
        batches = pc.unique(rows["batch"]).sort()
        rows = rows.set_column(2, "batch", pc.cast(pc.index_in(rows["batch"], batches), pa.int64()))
        names = batches.to_pylist()
        if len(snapshots) > 1:
            names = [name] if len(names) == 1 else [f"{name}/{batch}" for batch in names]
        sides.append(Side(snapshot, names, rows))
    return sides


def _read_related(side: Side) -> tuple[Links, tuple[Integers, Integers]]:
    """Return the edges of a store, and the sets in its buckets over the cap, as `_find_related` does."""
    hot = np.sort(side.snapshot.read("hot")["key"].to_numpy())
    doubtful = distinct(side.snapshot.find("bands", hot)["set"].to_numpy())
    return read_links(side.snapshot), (doubtful, doubtful)


def _find_related(one: Side, other: Side) -> tuple[Links, tuple[Integers, Integers]]:
    """Search the sets of one store in another, file by file.

    Returns
    -------
    links
        From a set of the one side to one of the other.
    doubtful
        Sets of either side that may have had another partner but for the cap, ascending.
    """
    mine, theirs = one.snapshot, other.snapshot
    search = mine.state.search
    links, doubts = [Links(NONE, NONE, NONE.astype(np.float64))], [(NONE, NONE)]
    for rows in mine.scan_sets(TOGETHER):
        own, numbers = to_sets(rows["shingles"]), rows["set"].to_numpy()
        _, keys = mine.state.signer.sign(*own)
        met, doubtful = find_links(theirs, own, keys, search.threshold, search.cap)
        links.append(met._replace(left=numbers[met.left]))
        doubts.append((distinct(numbers[doubtful[0]]), doubtful[1]))
    ours, others = zip(*doubts, strict=True)
    return join(*links), (distinct(*ours), distinct(*others))


def _choose(one: Side, other: Side, links: Links) -> pa.Table:
    """Return the document of every batch of the other side that each of the one resembles most: _FOUND."""
    rows = one.rows.filter(pc.not_equal(one.rows["set"], NO_SET)).rename_columns(["doc_id", "left", "own"])
    leading = _lead(other.rows.filter(pc.not_equal(other.rows["set"], NO_SET)))
    # Of each set the best of each batch, which its documents then share.
    met = pa.table(links._asdict()).join(leading, "right", join_type="inner")
    met = _pick(met, ["left", "of"])
    found = rows.join(met.select(["left", "of", "other", "jaccard"]), "left", join_type="inner").select(_FOUND)
    if one is other:
        same = rows.join(leading, "left", "right", join_type="inner")
        partner = pc.if_else(pc.equal(same["other"], same["doc_id"]), same["following"], same["other"])
        same = pa.table(
            {"doc_id": same["doc_id"], "of": same["of"], "other": partner, "jaccard": np.ones(same.num_rows)}
        )
        found = pa.concat_tables([found, same.filter(pc.is_valid(partner))])
    return _pick(found, ["doc_id", "of"])


def _lead(rows: pa.Table) -> pa.Table:
    """Return the two least documents of every set and batch: right, of, other, following; null without a second."""
    ordered = rows.sort_by([(name, "ascending") for name in ("set", "batch", "doc_id")])
    doc_ids, sets, batches = (ordered[name].to_numpy() for name in ("doc_id", "set", "batch"))
    bounds = find_bounds(sets, batches)
    firsts = bounds[:-1]
    following = pa.array(np.append(doc_ids, 0)[firsts + 1], mask=np.diff(bounds) == 1)
    return pa.table({"right": sets[firsts], "of": batches[firsts], "other": doc_ids[firsts], "following": following})


def _pick(rows: pa.Table, names: list[str]) -> pa.Table:
    """Return the most similar row of each of these names, the least document among equals."""
    ascending = [(name, "ascending") for name in names]
    rows = rows.sort_by([*ascending, ("jaccard", "descending"), ("other", "ascending")])
    return rows.filter(pa.array(mark_firsts(*(rows[name].to_numpy() for name in names))))


def _count(one: Side, other: Side, found: pa.Table, doubtful: Integers) -> list[dict[str, Any]]:
    """Return the rows of the matrix."""
    doc_ids, sets, batches = (one.rows[name].to_numpy() for name in ("doc_id", "set", "batch"))
    places = np.searchsorted(doc_ids, found["doc_id"].to_numpy())
    is_doubtful: Flags = is_in(sets, doubtful)
    shape = len(one.names), len(other.names)
    of = np.ravel_multi_index((batches[places], found["of"].to_numpy()), shape)
    sizes, unsure = np.bincount(batches), np.bincount(batches, weights=is_doubtful).astype(np.int64)
    met = np.bincount(of, minlength=shape[0] * shape[1]).reshape(shape)
    sure = np.bincount(of, weights=is_doubtful[places], minlength=shape[0] * shape[1]).astype(np.int64).reshape(shape)
    return [
        {
            "snapshot": name,
            "documents": int(sizes[number]),
            "of": column,
            "found": int(met[number, place]),
            "share": float(met[number, place] / sizes[number]),
            "unsure": int(unsure[number] - sure[number, place]),
        }
        for number, name in enumerate(one.names)
        for place, column in enumerate(other.names)
    ]


def _name(one: Side, other: Side, found: pa.Table) -> pa.Table:
    """Return what was found in the user's terms."""

    def list_ids(side: Side, doc_ids: Integers) -> pa.ChunkedArray:
        wanted = distinct(doc_ids)
        rows = side.snapshot.find("documents", wanted, ["doc_id", "id"]).sort_by("doc_id")
        return rows["id"].take(pa.array(look_up(wanted, doc_ids))).cast(pa.string())

    doc_ids = found["doc_id"].to_numpy()
    batches = one.rows["batch"].to_numpy()[np.searchsorted(one.rows["doc_id"].to_numpy(), doc_ids)]
    return pa.table(
        {
            "snapshot": pa.array(one.names, pa.string()).take(pa.array(batches)),
            "id": list_ids(one, doc_ids),
            "of": pa.array(other.names, pa.string()).take(pa.array(found["of"].to_numpy())),
            "other_id": list_ids(other, found["other"].to_numpy()),
            "jaccard": found["jaccard"],
        }
    )
