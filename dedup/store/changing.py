"""What adding and deleting have in common: from the edges that a step changes to the rows that it writes."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.kernels import Integers
from dedup.kernels.components import connect
from dedup.store.arrays import distinct, is_in
from dedup.store.election import Verdict, Voters, gather
from dedup.store.growth import Links, Settled, join
from dedup.store.schemas import NO_SET
from dedup.store.snapshot import Places, Snapshot
from dedup.store.writing import Writing


def find_heads(places: Places, count: int) -> Integers:
    """Return the least document of each of so many sets; the greatest number of those without one."""
    heads = np.full(count, np.iinfo(np.int64).max)
    full = places.sets != NO_SET
    np.minimum.at(heads, places.sets[full], places.doc_ids[full])
    return heads


def read_links(snapshot: Snapshot) -> Links:
    """Return the edges of the table."""
    return to_links(snapshot.read("edges"))


def to_links(rows: pa.Table) -> Links:
    """Return rows of `edges`."""
    return Links(*(rows[name].to_numpy() for name in Links._fields))


def merge(known: Links, settled: Settled) -> tuple[Links, Links]:
    """Return the edges after a step, and those of them that are new."""
    added = settled.found.select(~is_in(settled.found.encode(), distinct(known.encode())))
    stays = known.select(~is_in(known.encode(), distinct(settled.withdrawn.encode())))
    return join(stays, added), added


def choose_voters(
    snapshot: Snapshot,
    everyone: Places,
    links: Links,
    *,
    before: pa.Table,
    touched: Integers,
    documents: pa.Table,
    new: Integers,
    anew: bool,
) -> Voters:
    """Return the documents of the components that sets touched are in, but for those that have come and are alone.

    Parameters
    ----------
    touched
        Numbers of sets, repetitions and NO_SET among them.
    documents
        Rows of `documents` that are not in the store yet.
    anew
        Whether components wait for an election are to have it.
    """
    full = everyone.sets != NO_SET
    doc_ids, sets = everyone.doc_ids[full], everyone.sets[full]
    labels = _label_sets(links, max(each.max(initial=NO_SET) for each in (sets, touched, *links[:2])) + 1)
    component = labels[sets]
    chosen = distinct(labels[touched[touched != NO_SET]])
    if anew:
        waiting = before.filter(pc.invert(before["settled"]))["doc_id"].to_numpy()
        chosen = distinct(chosen, component[is_in(doc_ids, distinct(waiting))])
    is_chosen = np.zeros(labels.size, dtype=bool)
    is_chosen[chosen] = True
    votes = is_chosen[component]
    doc_ids, component = doc_ids[votes], component[votes]
    _, members, sizes = np.unique(component, return_inverse=True, return_counts=True)
    wanted = np.sort(doc_ids[(sizes[members] > 1) | ~is_in(doc_ids, new)])
    own = documents.filter(pa.array(is_in(documents["doc_id"].to_numpy(), wanted)))
    found = pa.concat_tables([snapshot.find("documents", wanted), own.cast(snapshot.layout("documents").schema)])
    return gather(found, labels[found["set"].to_numpy()])


def _label_sets(links: Links, count: int) -> Integers:
    """Return the least set of the component of each of so many sets, itself where it has no edge."""
    labels = np.arange(count)
    if links.left.size:
        ids, least = connect(links.left, links.right)
        labels[ids] = least
    return labels


def write_changes(writing: Writing, added: Links, gone: Links, hot: Integers, verdict: Verdict) -> None:
    """Write what a step makes of edges, hot keys and members."""
    state = writing.snapshot.state
    if gone.left.size:
        lost = distinct(gone.encode())
        writing.rewrite("edges", lambda rows: ~is_in(to_links(rows).encode(), lost), Links._fields)
    writing.write("edges", [pa.table(added._asdict()).sort_by([("left", "ascending"), ("right", "ascending")])])
    since = pa.array(np.full(verdict.members.num_rows, state.number + 1))
    writing.write("members", [verdict.members.append_column("since", since)])
    if not np.array_equal(hot, np.sort(writing.snapshot.read("hot")["key"].to_numpy())):
        writing.write("hot", [pa.table({"key": hot})])
        writing.replaced["hot"] = list(state.segments["hot"])
