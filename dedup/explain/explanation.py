"""Fate of a document and the reasons for it, from the output of a run alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from dedup.errors import DataError
from dedup.explain.comparison import compare, has_tokens, tell_verdict
from dedup.explain.graph import PAIR, Graph
from dedup.explain.result import PublishedOutput
from dedup.explain.spans import part
from dedup.explain.values import Component, Explanation, Pair, Removal, Span, Top
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.sets.jaccard import CLOSEST
from dedup.layers import NEAR

COPIES = ("url", "exact", NEAR)
"""Layers that `keep.drop` is for."""
LISTED = 10
"""Most removed documents listed under the one kept for them."""
BEGIN = 60
"""Characters of a text shown to identify it."""


def explain(result: PublishedOutput, given: str, other: str | None = None) -> Explanation:
    """Explain the fate of a document; of two, also how they are related.

    Raises
    ------
    ConfigError, DataError
        When there is no document of such an id.
    """
    doc_id = result.parse_id("--id", given)
    if other is not None:
        return _explain_pair(result, doc_id, result.parse_id("--with", other))
    found, reached = _count_component(result, _find_fate(result, doc_id))
    found = (_explain_kept if found.fate == "kept" else _explain_removed)(result, found, reached)
    return _add_spans(result, replace(found, profile=result.name_profile(doc_id)))


def _add_spans(result: PublishedOutput, found: Explanation) -> Explanation:
    rows = result.list_spans(found.id)
    names = [each.name for each in fields(Span)]
    cut = [row for row in rows if row["effect"] == "cut"]
    return replace(
        found,
        spans=tuple(Span(**{name: row[name] for name in names}) for row in rows),
        text=tuple(part(result.find_whole(found.id), cut)) if cut else (),
    )


def list_top(result: PublishedOutput, count: int) -> Top:
    """List the largest components, the removals with the longest chains, and those with the least direct similarity."""
    duplicates, graph = result.duplicates, Graph(result.read_table("edges"))
    orders = [("documents", "descending"), ("component_id", "ascending")]
    largest = _list_components(duplicates, Graph(result.links())).sort_by(orders).slice(0, count).to_pylist()
    texts = _texts(result, result.find([_name(row) for row in largest]))
    # What a layer removes by itself has no document kept.
    duplicates = duplicates.filter(pc.field("representative_id").is_valid())
    steps = graph.steps(duplicates["id"], duplicates["representative_id"])
    table = duplicates.append_column("steps", pa.array(steps))
    orders = [("steps", "descending"), ("jaccard", "ascending"), ("id", "ascending")]
    longest, least = (
        table.sort_by([orders[number] for number in order]).slice(0, count) for order in ((0, 1, 2), (1, 0, 2))
    )
    return Top(
        largest=tuple(
            Component(
                component_id=row["component_id"],
                representative_id=row["representative_id"],
                documents=row["documents"],
                text=" ".join(texts.get(_name(row), "")[: 4 * BEGIN].split())[:BEGIN],
            )
            for row in largest
        ),
        longest=_removals(longest),
        least_similar=_removals(least),
    )


def _list_components(duplicates: pa.Table, graph: Graph) -> pa.Table:
    """List the components that have lost documents: their `documents`, as `_count_component` counts them.

    `representative_id` is the document for which most of them went; null where none is kept.
    """
    names = ["component_id", "representative_id"]
    stars = duplicates.group_by(names).aggregate([([], "count_all")])
    stars = stars.sort_by([("count_all", "descending"), ("representative_id", "ascending")])
    kept = stars.group_by("component_id", use_threads=False).aggregate([("representative_id", "first")])
    both = [duplicates.select([names[0], name]).rename_columns([names[0], "id"]) for name in ("id", names[1])]
    members = pa.concat_tables(both).filter(pc.field("id").is_valid()).group_by([names[0], "id"]).aggregate([])
    groups, sizes = graph.connect(members["id"])
    parts = pa.table({"component_id": members["component_id"], "group": groups, "documents": sizes})
    counted = (
        parts.group_by(parts.column_names).aggregate([]).group_by("component_id").aggregate([("documents", "sum")])
    )
    return counted.join(kept, "component_id").rename_columns(["component_id", "documents", "representative_id"])


def _name(row: Mapping[str, Any]) -> Any:  # noqa: ANN401 - an integer or a string
    """Return the document kept of a component, and if there is none the one that names it."""
    kept = row["representative_id"]
    return row["component_id"] if kept is None else kept


def _removals(rows: pa.Table) -> tuple[Removal, ...]:
    chosen = rows.select(["id", "layer", "representative_id", "steps", "jaccard"])
    return tuple(Removal(**row) for row in chosen.to_pylist())


def _find_fate(result: PublishedOutput, doc_id: Any) -> Explanation:  # noqa: ANN401 - an integer or a string
    """Return the row of OUT/duplicates for a document, as an explanation without details."""
    duplicates = result.duplicates
    own = duplicates.filter(pc.field("id") == doc_id)
    row = own.slice(0, 1).to_pylist()
    # Wholly equal rows without an id column are one document, of which one row stays unless all are duplicates.
    if row and row[0]["representative_id"] != doc_id:
        members = _members(result, row[0]["component_id"]).num_rows
        return Explanation(
            id=doc_id,
            fate="removed",
            layer=row[0]["layer"],
            kind=row[0]["kind"],
            representative_id=row[0]["representative_id"],
            component_id=row[0]["component_id"],
            documents=members + (row[0]["representative_id"] is not None),
            # Others without a representative are removed by their layer alone, or for one that has been erased since.
            is_dropped=row[0]["representative_id"] is None
            and members > 1
            and result.config.keep.drop == "all"
            and row[0]["layer"] in COPIES,
            copies=own.num_rows - 1,
        )
    members = duplicates.filter(pc.field("representative_id") == doc_id)
    return Explanation(
        id=doc_id,
        fate="kept",
        representative_id=doc_id,
        component_id=members["component_id"][0].as_py() if members.num_rows else None,
        documents=members.num_rows + 1,
        stands_for=members.num_rows,
        copies=own.num_rows,
    )


def _count_component(result: PublishedOutput, found: Explanation) -> tuple[Explanation, set[Any]]:
    """Count with a component those too that stay beside the document kept: copies, and by representative linkage.

    Returns
    -------
    Explanation, set
        The second has the documents of the component.
    """
    if found.fate == "removed" and found.documents == 1:
        return found, {found.id}
    reached, new, component_id = set[Any](), {found.id}, found.component_id
    while new:
        reached |= new
        linked = pa.array(new | result.find_linked(new), result.id_type)
        gone = result.duplicates.filter(pc.field("id").isin(linked) | pc.field("representative_id").isin(linked))
        # All that went of a component at once: along a long chain of documents each round would add a few.
        named = pc.unique(gone["component_id"]).drop_null()
        component_id = named[0].as_py() if component_id is None and len(named) else component_id
        members = result.duplicates.filter(pc.field("component_id").isin(named))
        new = {*linked.to_pylist(), *members["id"].to_pylist(), *members["representative_id"].to_pylist()}
        new -= {*reached, None}
    if component_id is None and len(reached) > 1:
        # Where none of it goes no row names it.
        listed = pa.array(reached, result.id_type)
        component_id = listed[int(to_doc_ids(listed).argmin())].as_py()
    return replace(found, component_id=component_id, documents=len(reached)), reached


def _members(result: PublishedOutput, component_id: Any) -> pa.Table:  # noqa: ANN401 - an integer or a string
    """Return the removed documents of a component."""
    return result.duplicates.filter(pc.field("component_id") == component_id)


def _edges_of(result: PublishedOutput, reached: Collection[Any]) -> pa.Table:
    """Return the edges of a component."""
    return result.read_table("edges", ds.field("left_id").isin(pa.array(reached, result.id_type)))


def _pairs_of(result: PublishedOutput, name: str, ids: Collection[Any]) -> list[dict[str, Any]]:
    """Return the pairs that hold one of the documents."""
    wanted = pa.array(ids, result.id_type)
    rows: list[dict[str, Any]] = result.read_table(
        name, ds.field("left_id").isin(wanted) | ds.field("right_id").isin(wanted)
    ).to_pylist()
    return rows


def _explain_dropped(result: PublishedOutput, found: Explanation) -> Explanation:
    """Explain a document that went with all that are alike by the one of these that it resembles most."""
    members = _members(result, found.component_id).filter(pc.field("layer") == found.layer)
    others = [each for each in members["id"].to_pylist() if each != found.id]
    if not (found.is_dropped and others):
        return found
    own = _recorded(_pairs_of(result, "edges", [found.id]))
    other = min(others, key=lambda each: (-own.get((found.id, each), -1.0), each))
    ends = (found.id, other)
    texts = _texts(result, result.find(ends))
    direct = _pair(result, texts, ends, own.get(ends), is_edge=ends in own)
    if found.layer != NEAR:
        direct = replace(direct, verdict=f"layer {found.layer}: {found.kind}")
    return replace(
        found,
        direct=replace(direct, fate=_tell_fate(_find_fate(result, other))),
        notes=_notes(result, texts, ends, [direct]),
    )


def _explain_removed(result: PublishedOutput, found: Explanation, reached: Collection[Any]) -> Explanation:
    kept, later = found.representative_id, _list_later(result, found)
    if kept is None and (found.is_dropped or not later):
        return _explain_dropped(result, found)
    edges = _edges_of(result, reached)
    graph = Graph(edges)
    ids = [] if kept is None else graph.chain(found.id, kept)
    if not ids:
        chains = (graph.chain(found.id, each) for each in later)
        ids = min(filter(None, chains), key=lambda chain: (len(chain), chain), default=[])
    if kept is None and not ids:
        return _explain_dropped(result, found)
    known = _recorded(edges.to_pylist())
    through = ids[-1] if ids and ids[-1] != kept else None
    rows = result.find({found.id, *ids} | ({kept} - {None}))
    texts = _texts(result, rows)
    chain = [_pair(result, texts, link, known[link], is_edge=True) for link in pairwise(ids)]
    if kept is None:
        notes = (f"{through} was removed by the {later[through]}", *_notes(result, texts, ids, chain))
        return replace(found, chain=tuple(chain), notes=notes)
    if through is not None:
        link = _pair(result, texts, (through, kept), None, is_edge=False)
        chain.append(replace(link, verdict=later[through]))
    ends = (found.id, kept)
    row = result.duplicates.filter(pc.field("id") == found.id).slice(0, 1)
    measured = row["jaccard"][0].as_py()
    direct = _pair(result, texts, ends, measured, is_edge=ends in known)
    if found.layer != NEAR:
        cosine = result.find_cosine(*ends)
        told = f"layer {found.layer}: {found.kind if cosine is None else f'cosine {cosine:.4f}'}"
        if later and cosine is None and (measured is None or (found.layer == "exact" and measured < 1)):
            told += ", with it or with a document that a later layer removed for it"
        direct = replace(direct, verdict=told)
    notes = _notes(result, texts, [found.id, kept, *ids], [*chain, direct])
    if result.config.input.without and isinstance(kept, int) and kept < 0 and kept not in rows:
        notes = (f"{kept} is document {-1 - kept} of --without", *notes)
    return replace(found, chain=tuple(chain), direct=direct, notes=notes)


def _list_later(result: PublishedOutput, found: Explanation) -> dict[Any, str]:
    """Return what later layers have removed for the same document, or for none as well, and why.

    A document may have gone for one of them, and then been named to go for the one that stays.
    """
    layers, kept = result.config.layers, pc.field("representative_id")
    behind = layers[layers.index(found.layer) + 1 :]
    if not behind:
        return {}
    rows = result.duplicates.filter(
        pc.field("layer").isin(pa.array(behind, pa.string()))
        & (kept.is_null() if found.representative_id is None else kept == found.representative_id)
    )
    return {row["id"]: f"layer {row['layer']}: {row['kind']}" for row in rows.to_pylist()}


def _explain_kept(result: PublishedOutput, found: Explanation, reached: Collection[Any]) -> Explanation:
    duplicates = result.duplicates
    members = duplicates.filter((pc.field("representative_id") == found.id) & (pc.field("id") != found.id))
    own = {found.id, *members["id"].to_pylist()}
    # Of documents of one shingle set one was compared for all.
    same = {found.id}
    for pair in _pairs_of(result, "edges", [found.id]):
        if pair["jaccard"] == 1.0:
            same |= {pair[name] for name in PAIR}
    closest: dict[Any, float] = {}
    for pair in sorted(_pairs_of(result, "near_misses", same), key=lambda pair: -pair["jaccard"]):
        others = {pair[name] for name in PAIR} - own
        closest |= dict.fromkeys(others - closest.keys(), pair["jaccard"])
    closest = dict([*closest.items()][:CLOSEST])
    rows = result.find({found.id, *closest})
    if found.id not in rows and found.documents == 1 and not (closest or len(same) > 1):
        raise _unknown(result, "--id", found.id)
    texts = _texts(result, rows)
    near_misses = [
        replace(
            _pair(result, texts, (found.id, other), jaccard, is_edge=False),
            fate=_tell_fate(_find_fate(result, other)),
        )
        for other, jaccard in closest.items()
    ]
    notes = _notes(result, texts, [found.id, *closest], near_misses)
    chosen = result.choose_settings([found.id]) if found.id in texts else None
    if chosen and not has_tokens(chosen.tokenizer, texts[found.id]):
        notes = (*notes, "it has no token, and such a document is never a duplicate")
    graph = Graph(_edges_of(result, reached))
    steps = graph.steps(members["id"], members["representative_id"])
    removed = members.append_column("steps", pa.array(steps)).sort_by([("jaccard", "ascending"), ("id", "ascending")])
    return replace(
        found,
        removed=_removals(removed.slice(0, LISTED)),
        near_misses=tuple(near_misses),
        notes=notes,
    )


def _explain_pair(result: PublishedOutput, doc_id: Any, other_id: Any) -> Explanation:  # noqa: ANN401
    (found, reached), (other, _) = (_count_component(result, _find_fate(result, each)) for each in (doc_id, other_id))
    own = _recorded(_pairs_of(result, "edges", [doc_id]))
    known = own | _recorded(_pairs_of(result, "near_misses", [doc_id]))
    edges = _edges_of(result, reached)
    ids = Graph(edges).chain(doc_id, other_id)
    links, known = [*pairwise(ids)], known | _recorded(edges.to_pylist())
    rows = result.find({doc_id, other_id, *ids})
    for option, each in (("--id", found), ("--with", other)):
        if each.id not in rows and each.component_id is None and not any(each.id in pair for pair in known):
            raise _unknown(result, option, each.id)
    texts = _texts(result, rows)
    jaccard = known.get((doc_id, other_id))
    direct = _pair(result, texts, (doc_id, other_id), jaccard, is_edge=(doc_id, other_id) in own)
    chain = [_pair(result, texts, link, known[link], is_edge=True) for link in links]
    notes = _notes(result, texts, [doc_id, other_id, *ids], [*chain, direct])
    return replace(
        found,
        direct=replace(direct, fate=_tell_fate(other)),
        chain=tuple(chain),
        notes=notes,
        profile=result.name_profile(doc_id),
    )


def _tell_fate(found: Explanation) -> str:
    if found.fate == "kept":
        return found.fate
    if found.representative_id is None:
        return f"removed by the layer {found.layer}"
    return f"removed, a duplicate of {found.representative_id}"


def _recorded(pairs: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, Any], float]:
    """Return the similarity of each pair, by (left, right) and by (right, left)."""
    known = {(pair["left_id"], pair["right_id"]): pair["jaccard"] for pair in pairs}
    return known | {(right, left): jaccard for (left, right), jaccard in known.items()}


def _texts(result: PublishedOutput, rows: Mapping[Any, str]) -> Mapping[Any, str]:
    return rows if result.has_texts else {}


def _unknown(result: PublishedOutput, option: str, doc_id: Any) -> DataError:  # noqa: ANN401
    column = result.id_column
    meaning = f"those of column {column!r}" if column else "the digests of rows, as in OUT/duplicates and OUT/edges"
    if result.report["format"] == "text":
        meaning = "the paths of files"
    shown = ", ".join(map(repr, result.first_ids()))
    unseen = "" if result.is_searchable else "; rows that nothing resembles cannot be looked up here"
    return DataError(
        f"{option}: must be the id of a document of {result.path}, kept or removed (got {doc_id!r}); ids are {meaning}"
        f"{', such as ' + shown if shown else ''}{unseen}"
    )


def _notes(
    result: PublishedOutput, texts: Mapping[Any, str], ids: Sequence[Any], pairs: Sequence[Pair]
) -> tuple[str, ...]:
    """Return notes on the limits of the explanation."""
    notes = []
    if not result.has_texts:
        notes.append(f'texts are not compared: they are not in an output of mode "{result.config.output.mode}"')
    elif not result.is_searchable:
        notes.append(
            "texts are not compared: ids are digests of rows with other values than strings, integers and booleans, "
            "which cannot be looked up here; give an id column, or use --mode annotate"
        )
    elif missing := [each for each in dict.fromkeys(ids) if each not in texts]:
        notes.append(f"texts are not compared where one is not in the output: {', '.join(map(str, missing))}")
    compared = [(pair.jaccard, pair.comparison) for pair in pairs if pair.comparison]
    # Texts that are equal by their bytes need have no shingle.
    if any(told != each.jaccard and each.shared + each.left_only + each.right_only for told, each in compared):
        notes.append("a similarity that the run recorded is not that of the texts: other versions, or a changed output")
    return tuple(notes)


def _pair(
    result: PublishedOutput, texts: Mapping[Any, str], ids: tuple[Any, Any], jaccard: float | None, *, is_edge: bool
) -> Pair:
    left, right = (texts.get(each) for each in ids)
    chosen = result.choose_settings(ids)
    if chosen is None:
        names = [result.profiles[each] for each in ids if each in result.profiles]
        verdict = f"documents of the profiles {' and '.join(names)} are not compared"
        if len(names) < len(ids):
            verdict = "not told: the profile of a document is known by its row alone"
        return Pair(left_id=ids[0], right_id=ids[1], jaccard=jaccard, verdict=verdict)
    comparison = None if left is None or right is None else compare(*chosen, left, right)
    if jaccard is None and comparison:
        jaccard = comparison.jaccard
    verdict = tell_verdict(chosen.config, jaccard, comparison, is_edge=is_edge)
    return Pair(left_id=ids[0], right_id=ids[1], jaccard=jaccard, verdict=verdict, comparison=comparison)
