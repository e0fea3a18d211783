"""Layers before near in a store: what batches make, with deletions between, is what one run over all makes."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dedup
from dedup.run.comparing import compare_snapshots
from dedup.store.tables import Tables
from tests.store import list_edges
from tests.store.sides import deal, hold_together
from tests.strategies import runs
from tests.test_pipeline import make_texts

LAYERS = [
    ["url", "near"],
    ["exact", "near"],
    ["url", "exact", "near"],
    ["exact", "url", "near"],
    ["contamination", "near"],
    ["url", "contamination", "exact", "near"],
]
ORDERS = [["lowest:number", "smallest_id"], ["lowest:number", "longest", "smallest_id"]]


def make_rows(seed: int, *, as_text: bool = False) -> list[dict]:
    chance = Random(seed)
    texts = make_texts(seed, originals=6, copies=4)
    texts += [*chance.sample(texts, 6), *(text.upper() for text in chance.sample(texts, 3)), "", "", "!!!", "!!!"]
    urls = [f"https://host/{number}" for number in range(len(texts) // 2)]
    ids = chance.sample(range(1000), len(texts))
    named = [f"id{number}" for number in ids] if as_text else ids
    pairs = zip(named, texts, strict=True)
    return [{"id": name, "text": text, "url": chance.choice([None, *urls])} for name, text in pairs]


def cut(rows: list[dict], chance: Random, most: int = 4) -> list[list[dict]]:
    chance.shuffle(rows)
    bounds = sorted(chance.sample(range(1, len(rows)), chance.randint(1, most - 1)))
    parts = zip([0, *bounds], [*bounds, len(rows)], strict=True)
    return [[row | {"number": number} for row in rows[begin:end]] for number, (begin, end) in enumerate(parts)]


def to_pairs(result) -> list[tuple]:
    return sorted(tuple(row.values()) for row in result.edges)


def list_spans(result) -> list[tuple]:
    try:
        return [tuple(row[name] for name in ("id", "begin", "end")) for row in result.spans]
    except dedup.StorageError:
        return []


def list_removed(result) -> set[tuple]:
    """Return what the layers before near have removed."""
    return {(row["id"], row["layer"], row["kind"]) for row in result.duplicates if row["layer"] != "near"}


@runs(12)
@given(seed=st.integers(0, 2**32), layers=st.sampled_from(LAYERS), order=st.sampled_from(ORDERS), as_text=st.booleans())
def test_batches_with_deletions_between_find_what_one_run_finds(tmp_path_factory, seed, layers, order, as_text):
    chance, folder = Random(seed), tmp_path_factory.mktemp("store")
    store = dedup.Store(folder / "store")
    compare = chance.choice(["bytes", "text"])
    settings = {"id_column": "id", "layers": layers, "keep.order": order, "exact.compare": compare}
    settings = {"settings": {name: value for name, value in settings.items() if "." in name}, "id_column": "id"}
    if "contamination" in layers:
        phrases = [" ".join(row["text"].split()[2:6]) for row in chance.sample(make_rows(seed), 3)]
        (folder / "asked.jsonl").write_text("".join(json.dumps({"text": phrase}) + "\n" for phrase in phrases))
        settings["settings"] |= {
            "contamination.sets": [f"asked:text:{folder}/asked.jsonl"],
            "contamination.match_tokens": 4,
            "contamination.action": chance.choice(["drop", "cut", "mark"]),
        }
    options = {**settings, "layers": layers, "engine": "memory", "threshold": 0.7, "column": "url"}
    if "url" not in layers:
        del options["column"]
    left, removed, edges, spans = [], set(), [], []
    for number, part in enumerate(cut(make_rows(seed, as_text=as_text), chance)):
        found = store.add(part, f"{number}", **options)
        left += part
        removed |= list_removed(found)
        edges += to_pairs(found)
        spans += list_spans(found)
        assert {row["id"] for row in [*found.kept, *found.removed]} == {row["id"] for row in part}
        kept = {row["id"] for row in found.kept}
        assert {row["representative_id"] for row in found.duplicates} <= {None, *kept, *(row["id"] for row in left)}
        if chance.random() < 0.5:
            gone = store.delete([row["id"] for row in chance.sample(left, min(len(left), 4))], readmit=True)
            ids = set(store.open().snapshot.read("documents", ["id"])["id"].to_pylist())
            assert len(left) - len(ids) >= gone.documents
            left = [row for row in left if row["id"] in ids]
            removed = {row for row in removed if row[0] in ids}
        assert store.check(hours=0) == []
    whole = dedup.deduplicate(left, **options)
    ids = {row["id"] for row in left}

    assert removed == list_removed(whole)
    assert sorted(span for span in spans if span[0] in ids) == sorted(list_spans(whole))
    found = list_edges(Tables(str(store.path)))
    if not as_text:
        gone = {row["id"] for row in whole.duplicates if row["layer"] != "near"}
        expected = [pair for pair in to_pairs(whole) if not {*pair[:2]} & gone]
        assert found == expected
        # Those of the layers before near name documents that these have removed.
        assert {*to_pairs(whole)} - {*expected} == {pair for pair in edges if {*pair[:2]} & gone and {*pair[:2]} <= ids}


WORDS = [" ".join(f"w{number}x{place}" for place in range(20)) for number in range(6)]


def add(store, batch, rows, layers=("url", "exact", "near"), **options):
    rows = [dict(zip(("id", "text", "url"), row, strict=True)) for row in rows]
    return store.add(rows, batch, id_column="id", layers=layers, engine="memory", column="url", **options)


def tell(result) -> list[tuple]:
    names = ("id", "layer", "representative_id", "component_id", "jaccard")
    return sorted(tuple(row[name] for name in names) for row in result.duplicates)


def test_a_document_goes_in_favour_of_the_one_that_stays_through_layers_of_earlier_batches(tmp_path):
    store = dedup.Store(tmp_path / "store")
    near = f"{WORDS[0]} end"
    add(store, "1", [(9, WORDS[0], None)])
    first = add(store, "2", [(8, near, "http://a"), (7, near, "http://b"), (6, near.upper(), "http://c")])
    # 8 goes for the text of 7, and that for its likeness to 9.
    assert [each[:3] for each in tell(first)] == [(6, "near", 9), (7, "near", 9), (8, "exact", 9)]
    rows = [(1, WORDS[1], "https://a"), (2, WORDS[2], "https://B/"), (3, WORDS[3], None), (4, WORDS[3], "http://c/")]
    second = add(store, "3", rows)

    # Each has the address of a document that went itself, one of them for another that did.
    assert [each[:3] for each in tell(second)] == [(1, "url", 9), (2, "url", 9), (4, "url", 9)]
    assert [row["id"] for row in second.kept] == [3]
    assert second.changes == []
    assert [(commit.documents, commit.kept) for commit in store.history()] == [(1, 1), (3, 0), (4, 1)]
    # Documents that went before near have no shingle set.
    assert [[match.id for match in found] for found in store.lookup([WORDS[1], near])] == [[], [6, 7, 9]]


def test_an_earlier_document_stays_whatever_the_order_says(tmp_path):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(5, WORDS[0], "http://a")])
    found = add(store, "2", [(1, WORDS[0], None), (2, WORDS[1], "http://a"), (3, WORDS[2], "http://a")])

    assert tell(found) == [(1, "exact", 5, 1, 1.0), (2, "url", 5, 2, None), (3, "url", 5, 2, None)]
    assert found.edges == [{"left_id": 1, "right_id": 5, "jaccard": 1.0}]


def test_a_batch_of_which_layers_leave_nothing_to_near_is_added(tmp_path):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(1, WORDS[0], None)])
    found = add(store, "2", [(2, WORDS[0], None), (3, WORDS[0], None)])

    assert (found.kept, [each[:3] for each in tell(found)]) == ([], [(2, "exact", 1), (3, "exact", 1)])
    assert store.check(hours=0) == []
    with pytest.raises(dedup.DataError, match="must hold ids that the store has not"):
        add(store, "3", [(2, WORDS[0], None)])


def test_with_a_document_those_go_that_layers_have_removed_in_its_favour(tmp_path):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(1, WORDS[0], "http://a"), (2, WORDS[1], "http://a"), (3, WORDS[1], "http://b")])
    add(store, "2", [(4, WORDS[0], None), (5, WORDS[2], None)])
    found = store.delete([1])

    assert (found.documents, found.absent) == (1, 0)
    assert found.displaced.sort_by("id").to_pylist() == [
        {"id": 2, "batch": "1", "is_kept": False},
        {"id": 4, "batch": "2", "is_kept": False},
    ]
    again = add(store, "3", [(2, WORDS[1], "http://a"), (4, WORDS[0], None)])
    assert [each[:3] for each in tell(again)] == [(2, "exact", 3)]
    store.delete([2, 4])
    store.compact()
    store.vacuum(hours=0)
    assert store.check(hours=0) == []
    read = store.open().snapshot.read
    assert sorted(read("documents")["id"].to_pylist()) == [3, 5]
    assert {*read("keys")["doc_id"].to_pylist()} == {3, 5}


def test_rows_that_come_again_without_ids_are_copies_of_themselves(tmp_path):
    store = dedup.Store(tmp_path / "store")
    rows = [{"text": WORDS[0]}, {"text": WORDS[1]}, {"text": WORDS[1]}, {"text": ""}]
    first = store.add(rows, "1", layers=["exact", "near"], engine="memory")
    second = store.add([*rows, {"text": WORDS[2]}], "2", layers=["exact", "near"], engine="memory")

    assert sorted(row["text"] for row in first.kept) == sorted(["", *WORDS[:2]])
    assert [row["text"] for row in second.kept] == [WORDS[2]]
    assert {(row["id"] == row["representative_id"], row["layer"]) for row in second.duplicates} == {
        (True, "exact"),
        (True, "near"),
    }
    assert store.check(hours=0) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"layers": ["near", "url"]},
            "needs layers that end with near, and before it any of url, exact, cont",
        ),
        ({"layers": ["lines", "near"]}, "needs layers that end with near"),
        ({"layers": ["near"]}, r"layers must be \['url', 'exact', 'near'\], as in the store \(got \['near'\]\)"),
        ({"tracking": ["*"]}, "url.tracking must be .*, as in the store"),
        ({"reelect": True}, r'--reelect: needs layers = \["near"\]'),
        (
            {
                "layers": ["contamination", "near"],
                "settings": {"contamination.sets": ["a:text:/none"], "contamination.common": 9},
            },
            "contamination.common works in single runs only",
        ),
    ],
)
def test_settings_that_do_not_serve_are_refused(tmp_path, options, message):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(1, WORDS[0], None)])

    with pytest.raises(dedup.ConfigError, match=message):
        add(store, "2", [(2, WORDS[1], None)], **options)


def test_a_store_of_near_alone_has_no_keys_and_takes_no_other_layers(tmp_path):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(1, WORDS[0], None)], layers=["near"])

    assert not (tmp_path / "store" / "keys").exists()
    with pytest.raises(dedup.ConfigError, match=r"layers must be \['near'\], as in the store"):
        add(store, "2", [(2, WORDS[1], None)])


def test_what_needs_the_sets_of_all_documents_refuses_other_layers(tmp_path):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(1, WORDS[0], None)])

    with pytest.raises(dedup.ConfigError, match=r'migrate needs a store of layers = \["near"\]'):
        store.migrate(tmp_path / "other", id_column="id")
    with pytest.raises(dedup.ConfigError, match=r'needs a store of layers = \["near"\]'):
        compare_snapshots({"a": str(store.path)}, dedup.load_settings())


@pytest.mark.parametrize("engines", [(False, True, False), pytest.param((True, True), marks=pytest.mark.full)])
def test_batches_added_by_spark_are_those_of_the_memory_engine(spark, tmp_path, engines):
    texts = make_texts(7, originals=6, copies=3)
    batches = deal([*texts, *texts[:12], *texts[:6]], len(engines))
    settings = {"input.id_column": "id", "layers": ["exact", "url", "near"], "url.column": "url"}

    side = hold_together(tmp_path, spark, batches, settings, engines=engines)

    assert {row["kind"] for row in read_members(side)} >= {"url", "equal", "near", "kept"}


def read_members(side) -> list[dict]:
    return dedup.Store(side.tables.path).open().snapshot.members().to_pylist()
