"""Stores of small corpora, and what one run over all of their documents finds."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from dedup.engines.values import Found, Search
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.settings.files import load_config
from dedup.settings.hashspec import HashSpec
from dedup.store.adding import Batch, Grown, grow
from dedup.store.changing import find_heads, read_links
from dedup.store.deleting import Deleted, delete
from dedup.store.election import find_components
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Snapshot
from dedup.store.state import create, read_state
from dedup.store.tables import Tables
from tests.engines import SEED, Corpus, Row


def tell_spec(search: Search) -> HashSpec:
    config = load_config(settings={"lsh.bands": search.bands, "lsh.rows": search.rows, "seed": SEED})
    return HashSpec.of(config, UnicodeWords())


def prepare(
    tables: Tables, name: str, rows: Sequence[Row], search: Search, *, anew: bool = False
) -> tuple[Batch, Grown]:
    """Find what a batch brings."""
    corpus = Corpus(list(rows))
    features = corpus.features(search)

    def sets_of(numbers):
        for part in np.array_split(numbers, 3):
            if part.size:
                yield corpus.sets([corpus.rows[number].text for number in part.tolist()])

    batch = Batch(name=name, content=name, features=features, sets_of=sets_of, id_column="id")
    if not tables.exists():
        create(tables, features.ids.type)
    state = read_state(tables).begin(id_type=features.ids.type, spec=tell_spec(search), settings={}, search=search)
    return batch, grow(tables, state, batch, anew=anew)


def add(tables: Tables, name: str, rows: Sequence[Row], search: Search, *, anew: bool = False) -> Grown:
    batch, grown = prepare(tables, name, rows, search, anew=anew)
    grown.finish(batch, "add")
    return grown


def take_down(tables: Tables, ids: Sequence[int], search: Search, *, readmit: bool = False) -> Deleted:
    return delete(tables, read_state(tables), pa.array(ids), search, seed=SEED, readmit=readmit)


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


def list_members(tables: Tables) -> dict[int, tuple]:
    """Return of every document of several in a component: component, whether kept, representative, kind, similarity."""
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    places, links = snapshot.places(), read_links(snapshot)
    full = places.sets != NO_SET
    doc_ids, component = places.doc_ids[full], find_components(links, places.sets[full])
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


def find_union(rows: Iterable[Row], search: Search) -> Found:
    """Search all rows at once."""
    return Corpus(list(rows)).find(search)


def edges_of(found: Found) -> list[tuple]:
    edges = [tuple(row.values()) for row in found.edges.to_pylist()]
    return sorted([*edges, *((row["set_id"], row["doc_id"], 1.0) for row in found.identical.to_pylist())])


def members_of(found: Found) -> dict[int, tuple]:
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
