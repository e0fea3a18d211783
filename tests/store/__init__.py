"""Stores of small corpora, and what one run over all of their documents finds."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.kernels.components import connect
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers.near.search import Search
from dedup.settings.files import load_config
from dedup.settings.hashspec import HashSpec
from dedup.store.adding import Arrival, Grown, grow
from dedup.store.deleting import Deleted, delete
from dedup.store.links import Links, read_links
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Places, Snapshot
from dedup.store.state import create, read_state
from dedup.store.supply import supply_texts
from dedup.store.tables import Tables
from dedup.tables.counts import Signed
from tests.engine import SEED, Corpus, Row, make_layer


def tell_spec(search: Search) -> HashSpec:
    config = load_config(settings={"lsh.bands": search.bands, "lsh.rows": search.rows, "seed": SEED})
    return HashSpec.of(config, UnicodeWords())


class Brought(NamedTuple):
    """What a batch brings, and the engine of its tables."""

    engine: Any
    signed: Signed
    grown: Grown


def bring(
    tables: Tables, name: str, rows: Sequence[Row], search: Search, *, anew: bool = False, engine: Any = None
) -> Brought:
    """Find what a batch brings, by the memory engine unless another is given."""
    corpus = Corpus(list(rows))
    engine = engine or corpus.open(search)
    layer = make_layer(search, corpus.shingle_size, holds="all")
    documents, signed = layer.sign(engine)
    arrival = Arrival(
        name=name,
        content=name,
        register=documents,
        documents=documents,
        supply=partial(supply_texts, documents=documents, signing=layer.signing),
        id_column="id",
    )
    if not tables.exists():
        create(tables, engine.id_type)
    state, spec = read_state(tables), tell_spec(search).to_dict()
    if not state.number:
        state = replace(state, id_type=str(engine.id_type), spec=spec, searched=asdict(search))
    return Brought(engine, signed, grow(engine, tables, state, arrival, anew=anew))


def prepare(tables: Tables, name: str, rows: Sequence[Row], search: Search) -> Grown:
    """Find what a batch brings."""
    return bring(tables, name, rows, search).grown


def add(tables: Tables, name: str, rows: Sequence[Row], search: Search, *, anew: bool = False) -> Grown:
    grown = bring(tables, name, rows, search, anew=anew).grown
    grown.finish("add")
    return grown


def restore(folder: Path) -> None:
    """Make a folder what it was at the first call, where it was: a store names outputs and inputs by whole paths."""
    pristine = folder.with_name(f"{folder.name} as it was")
    if pristine.exists():
        shutil.rmtree(folder)
        shutil.copytree(pristine, folder)
    else:
        shutil.copytree(folder, pristine)


def take_down(tables: Tables, ids: Sequence[int], *, readmit: bool = False) -> Deleted:
    return delete(tables, read_state(tables), pa.array(ids), readmit=readmit)


def find_heads(places: Places, count: int) -> np.ndarray:
    """Return the least document of each of so many sets."""
    heads = np.full(count, np.iinfo(np.int64).max)
    full = places.sets != NO_SET
    np.minimum.at(heads, places.sets[full], places.doc_ids[full])
    return heads


def list_edges(tables: Tables) -> list[tuple]:
    """Return all edges of a store by document, identical documents among them, as `edges` of an output has them."""
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    places, links = snapshot.places(), read_links(snapshot)
    heads = find_heads(places, snapshot.state.sets)
    ends = [np.minimum(heads[links.left], heads[links.right]), np.maximum(heads[links.left], heads[links.right])]
    found = list(zip(ends[0].tolist(), ends[1].tolist(), links.jaccard.tolist(), strict=True))
    full = places.sets != NO_SET
    same = zip(places.doc_ids[full].tolist(), heads[places.sets[full]].tolist(), strict=True)
    return sorted([*found, *((head, doc_id, 1.0) for doc_id, head in same if doc_id != head)])


def _label(sets: np.ndarray, links: Links) -> np.ndarray:
    """Return the least set of the component of each set."""
    labels = dict(zip(*(each.tolist() for each in connect(links.left, links.right)), strict=True))
    return np.array([labels.get(number, number) for number in sets.tolist()], np.int64)


def list_members(tables: Tables) -> dict[int, tuple]:
    """Return of every document of several in a component: component, whether kept, representative, kind, similarity."""
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    places, links = snapshot.places(), read_links(snapshot)
    full = places.sets != NO_SET
    doc_ids, component = places.doc_ids[full], _label(places.sets[full], links)
    least = {}
    for doc_id, number in zip(doc_ids.tolist(), component.tolist(), strict=True):
        least[number] = min(least.get(number, doc_id), doc_id)
    sizes = np.unique(component, return_inverse=True, return_counts=True)
    several = sizes[2][sizes[1]] > 1
    rows = {row["doc_id"]: row for row in snapshot.members().to_pylist()}
    found = {}
    for doc_id, number in zip(doc_ids[several].tolist(), component[several].tolist(), strict=True):
        row = rows[doc_id]
        found[doc_id] = (least[number], row["kept"], row["representative"], row["kind"], row["jaccard"])
    return found


def find_union(rows: Iterable[Row], search: Search) -> SimpleNamespace:
    """Search all rows at once."""
    return Corpus(list(rows)).find(search)


def edges_of(found: SimpleNamespace) -> list[tuple]:
    edges = [tuple(row.values()) for row in found.edges.to_pylist()]
    return sorted([*edges, *((row["set_id"], row["doc_id"], 1.0) for row in found.identical.to_pylist())])


def members_of(found: SimpleNamespace) -> dict[int, tuple]:
    doc_ids = {row["id"]: row["doc_id"] for row in found.members.to_pylist()}
    return {
        row["doc_id"]: (
            row["component_id"],
            row["kind"] == "kept",
            doc_ids[row["representative_id"]],
            row["kind"],
            row["jaccard"],
        )
        for row in found.members.to_pylist()
    }
