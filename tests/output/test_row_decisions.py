"""Decisions, and what is made of them, by an engine that parts rows as no other would."""

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from dedup.kernels.ids import SEED, hash_id, to_doc_ids
from dedup.layers.chain import Chain
from dedup.layers.layer import Found
from dedup.output.merging import merge_values
from dedup.output.result_tables import name_pairs
from dedup.output.row_decisions import (
    SOURCES,
    Findings,
    count_sources,
    decide,
    list_columns,
    read_profiles,
)
from dedup.output.spans import LOST, place_cuts
from dedup.output.weights import weigh
from dedup.tables import arrow
from dedup.tables.counts import Layered
from tests.layers.tiny import TinyEngine

LONG, STRING = pa.int64(), pa.string()


def make_register(rows, id_type=LONG):
    """Return REGISTER of (doc_id, id), each in a row of its own, with further columns by name."""
    columns = {"text_bytes": 10, "split": 0, "file": 0}
    table = [columns | {"row": number} | row for number, row in enumerate(rows)]
    return pa.Table.from_pylist(table, arrow.register(id_type))


def make_findings(documents, **known):
    steps = (Layered(layer="near", documents=documents.num_rows, text_bytes=0, removed=0),)
    found = {name: known.pop(name) for name in ("steps", "removals", "kept", "edges", "near_misses") if name in known}
    chain = Chain(engine=TinyEngine([]), **{"steps": steps} | found)
    return Findings(chain=chain, documents=documents, pairs=0, **{"repeated": None, "copies": ("", "")} | known)


def make_decisions(register, gone):
    """Return DECISIONS of rows of REGISTER, which go for the ids given, null for none."""
    schema = list_columns(register.schema.field("id").type)
    rows = [register.slice(row, 1).to_pylist()[0] | {"representative_id": to} for row, to in gone.items()]
    return pa.Table.from_pylist(rows, schema)


def to_rows(table, *columns):
    return sorted(zip(*(table[name].to_pylist() for name in columns), strict=True), key=repr)


@pytest.mark.parametrize("seed", range(5))
def test_further_copies_share_the_decision_of_the_first(seed):
    engine = TinyEngine([], seed=seed)
    documents = make_register([{"doc_id": each, "id": -each} for each in (1, 2, 3, 1, 4, 1, 2, 3, 5, 5)])
    # 1 resembles nobody, 3 is the representative of component 2, and 2 and 5 are duplicates there.
    gone = [(2, -2, "near", "near", -3, -2, 0.9), (5, -5, "url", "url", None, -2, None)]
    removals = pa.Table.from_pylist(
        [dict(zip(arrow.removals(pa.int64()).names, row, strict=True)) for row in gone], arrow.removals(pa.int64())
    )
    findings = make_findings(
        documents,
        removals=removals,
        repeated=pa.table({"doc_id": [1, 2, 3, 5]}),
        copies=("exact", "equal"),
        kept=pa.table({"doc_id": [3], "component_id": [-2]}),
    )

    decided = decide(engine, findings)

    assert decided.schema == list_columns(pa.int64())
    assert to_rows(decided, "row", "doc_id", "id", "layer", "kind", "representative_id", "component_id", "jaccard") == [
        (1, 2, -2, "near", "near", -3, -2, 0.9),
        (3, 1, -1, "exact", "equal", -1, -1, 1.0),
        (5, 1, -1, "exact", "equal", -1, -1, 1.0),
        (6, 2, -2, "near", "near", -3, -2, 0.9),
        (7, 3, -3, "exact", "equal", -3, -2, 1.0),
        (8, 5, -5, "url", "url", None, -2, None),
        (9, 5, -5, "url", "url", None, -2, None),
    ]
    assert dict(to_rows(decided, "row", "number")) == {1: 1, 3: 2, 5: 2, 6: 1, 7: 2, 8: 1, 9: 1}
    tally = engine.tally(decided)
    assert tally["text_bytes"] == 70
    assert tally["removed"] == {"exact": 3, "near": 2, "url": 2}
    assert read_profiles(tally) == {}


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_of_the_component_that_the_last_layer_found(seed):
    engine, schema = TinyEngine([], seed=seed), arrow.removals(LONG)

    def make(layer, kind, *rows):
        names = ("doc_id", "id", "representative_id", "component_id")
        table = [dict(zip(names, row, strict=True)) | {"layer": layer, "kind": kind} for row in rows]
        return pa.Table.from_pylist(table, schema)

    documents = make_register([{"doc_id": each, "id": each} for each in (1, 2, 3, 4, 5, 6, 3, 5, 6)])
    chain = Chain(engine=engine)
    # 3 is kept by near and by semantic, 5 by exact alone, and 6 by near without one that goes in its favour.
    near = {
        "removals": make("near", "near", (2, 2, 3, 2)),
        "kept": make("near", "kept", (3, 3, 3, 2), (6, 6, 6, 4)),
    }
    semantic = {
        "removals": make("semantic", "semantic", (1, 1, 3, 1)),
        "kept": make("semantic", "kept", (3, 3, 3, 1)),
    }
    for name, found in (
        ("near", near),
        ("semantic", semantic),
        ("exact", {"removals": make("exact", "equal", (4, 4, 5, 4))}),
    ):
        chain = chain.add(name, Found(documents=documents, **found))
    findings = make_findings(documents, repeated=pa.table({"doc_id": [3, 5, 6]}), copies=("near", "identical"))

    decided = decide(engine, replace(findings, chain=chain))

    assert to_rows(decided, "row", "representative_id", "component_id") == [
        (0, 3, 1),
        (1, 3, 1),
        (3, 5, 4),
        (6, 3, 1),
        (7, 5, 4),
        (8, 6, 4),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_weights_are_those_of_counting(seed, monkeypatch):
    chance, engine = random.Random(seed), TinyEngine([], seed=seed)
    if seed % 2:
        monkeypatch.setattr("dedup.output.weights.to_doc_ids", lambda ids: to_doc_ids(ids) % 3)
    gone = {each: chance.choice((0, 1, 2, None)) for each in range(3, 20) if chance.random() < 0.6}
    ids = [*range(20), 1, 1, *gone]
    rows = [{"doc_id": each, "id": each, "source": chance.choice((None, "a", "b"))} for each in ids]
    removed = [
        {"doc_id": each, "id": each, "layer": "near", "representative_id": owner} for each, owner in gone.items()
    ]
    removals = pa.Table.from_pylist(removed, arrow.removals(LONG)) if seed else None
    documents = make_register(rows)

    found = weigh(engine, make_findings(documents, removals=removals), "log2")

    owners = [gone.get(each, each) if seed else each for each in ids]
    sizes = Counter(owners)
    named = {(owner, row["source"]) for owner, row in zip(owners, rows, strict=True)}
    sources = Counter(owner for owner, _ in named)
    expected = [
        (each, owner, sizes[owner], sources[owner], sizes[owner].bit_length() / sizes[owner])
        if owner is not None
        else (each, None, 1, 1, 0.0)
        for each, owner in zip(ids, owners, strict=True)
    ]
    assert to_rows(found, *found.column_names) == sorted(expected, key=repr)


def test_equal_rows_stay_where_no_layer_removes_copies():
    documents = make_register([{"doc_id": 1, "id": 1}] * 3)

    decided = decide(TinyEngine([]), make_findings(documents, repeated=pa.table({"doc_id": [1]})))

    assert decided.num_rows == 0


@pytest.mark.parametrize("copies", [("", ""), ("near", "identical")])
def test_decisions_are_counted_by_profile(copies):
    engine = TinyEngine([])
    documents = make_register([{"doc_id": each, "id": each} for each in (0, 1, 2, 3, 3)])
    documents = documents.append_column("profile", pa.array([0, 1, 1, 1, 1]))
    rows = [
        {"doc_id": each, "id": each, "layer": layer, "kind": "near"}
        for each, layer in enumerate(["near", "a b", "near"])
    ]
    removals = pa.Table.from_pylist(rows, arrow.removals(pa.int64()))

    findings = make_findings(documents, removals=removals, repeated=pa.table({"doc_id": [3]}), copies=copies)
    decided = decide(engine, replace(findings, has_profiles=True))

    assert decided.schema == list_columns(LONG)
    assert read_profiles(engine.tally(decided)) == {(0, "near"): 1, (1, "a b"): 1, (1, "near"): 1 + bool(copies[0])}


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_sources_are_counted_by_name(seed):
    chance = random.Random(seed)
    names = [None, "(none)", "(others)", *(f"s{number}" for number in range(SOURCES + 20))]
    sources = [chance.choice(names[: 1 + chance.randrange(len(names))]) for _ in range(600)]
    gone = sorted(chance.sample(range(600), 200))
    documents = make_register([{"doc_id": each, "id": each, "source": name} for each, name in enumerate(sources)])

    found = count_sources(TinyEngine([], seed=seed, size=50), documents, make_decisions(documents, dict.fromkeys(gone)))

    counts, kept = Counter(sources), Counter(sources)
    kept.subtract(sources[row] for row in gone)
    expected = {}
    order = sorted(counts, key=lambda name: (-counts[name], name is not None, name or ""))
    for place, name in enumerate(order):
        named = "(others)" if place >= SOURCES else "(none)" if name is None else name
        sums = expected.setdefault(named, {"documents": 0, "kept": 0})
        sums["documents"] += counts[name]
        sums["kept"] += kept[name]
    assert found == expected
    assert sum(each["kept"] for each in found.values()) == 400


@pytest.mark.parametrize("seed", range(10))
def test_spans_are_placed_in_every_row_that_stays(seed):
    chance = random.Random(seed)
    doc_ids = [chance.randrange(8) for _ in range(20)]
    documents = make_register([{"doc_id": each, "id": each, "file": chance.randrange(3)} for each in doc_ids])
    gone = {row: None for row in range(20) if chance.random() < 0.4}
    text = "é" * 40
    spans = []
    for each in range(8):
        for _ in range(chance.randrange(4)):
            begin = chance.randrange(30)
            end = begin + chance.randint(1, 10)
            effect = chance.choice(["cut", "cut", "mark"])
            spans.append({"doc_id": each, "begin": begin, "end": end, "effect": effect, "text": text[begin:end]})
    schema = pa.schema([("doc_id", pa.int64()), *arrow.spans_written(pa.int64())])
    engine = TinyEngine([], seed=seed)

    cuts = place_cuts(engine, documents, make_decisions(documents, gone), pa.Table.from_pylist(spans, schema))

    cut = [span for span in spans if span["effect"] == "cut"]
    files = documents["file"].to_pylist()
    staying = [row for row in range(20) if row not in gone]
    expected = [
        (files[row], row, span["begin"], span["end"])
        for row in staying
        for span in cut
        if span["doc_id"] == doc_ids[row]
    ]
    assert to_rows(cuts, "file", "row", "begin", "end") == sorted(expected, key=repr)
    lost = 0
    for row in staying:
        own = {(span["begin"], span["end"]) for span in cut if span["doc_id"] == doc_ids[row]}
        outer = [one for one in own if not any(two != one and two[0] <= one[0] and one[1] <= two[1] for two in own)]
        lost += sum(2 * (end - begin) for begin, end in outer)
    assert engine.tally(cuts).get(LOST, 0) == lost


@pytest.mark.parametrize("seed", range(10))
def test_rows_that_stay_have_the_values_of_those_that_they_stand_for(seed):
    chance = random.Random(seed)
    ids = [f"é{chance.randrange(12)}" for _ in range(24)]
    # Equal rows have equal values.
    values = {each: chance.choice([["a"], ["b"], [None], [f"of {each}"]]) for each in ids}
    table = [{"doc_id": hash_id(each.encode(), SEED), "id": each, "merged": values[each]} for each in ids]
    documents = make_register(table, STRING)
    staying = {row for row in range(24) if chance.random() < 0.6}
    kept_ids = sorted({ids[row] for row in staying})
    gone = {row: chance.choice([None, *kept_ids]) for row in range(24) if row not in staying}

    merged = merge_values(
        TinyEngine([], pa.string(), seed=seed), documents, make_decisions(documents, gone), ["count", "names:name"]
    )

    expected = []
    for row in sorted(staying):
        passed = [values[ids[other]] for other, to in gone.items() if to == ids[row]]
        if passed:
            names = {value for each in [values[ids[row]], *passed] for value in each or [] if value is not None}
            expected.append((row, 1 + len(passed), sorted(names)))
    assert to_rows(merged, "row", "dedup_count", "dedup_names") == sorted(expected, key=repr)


def test_pairs_are_named_by_the_users_ids_the_lesser_first():
    engine = TinyEngine([], STRING)
    rows = [{"doc_id": 1, "id": "9"}, {"doc_id": 2, "id": "10"}, {"doc_id": 3, "id": "é"}, {"doc_id": 3, "id": "é"}]
    findings = make_findings(make_register(rows, STRING), repeated=pa.table({"doc_id": [3]}))
    edges = pa.Table.from_arrays([[1, 2], [2, 3], [0.7, 0.6]], schema=arrow.EDGES)

    named = name_pairs(engine, "edges", edges, findings)

    assert to_rows(named, *named.column_names) == [("10", "9", 0.7), ("10", "é", 0.6)]
    none = name_pairs(engine, "near_misses", None, findings)
    assert (none.schema, none.num_rows) == (named.schema, 0)


def test_integer_ids_are_their_own_names():
    """Whether or not they are among the documents, as those of a store are not."""
    edges = pa.Table.from_arrays([[-7, 9], [3, -5], [0.9, 1.0]], schema=arrow.EDGES)

    named = name_pairs(TinyEngine([]), "edges", edges, make_findings(make_register([])))

    assert to_rows(named, *arrow.EDGES.names) == [(-5, 9, 1.0), (-7, 3, 0.9)]
