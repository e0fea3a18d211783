"""Layers in a store: what batches make, with deletions between, is what one run over all makes."""

import json
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dedup
from dedup.kernels.sets.shingles import shingle
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.run.comparing import compare_snapshots
from dedup.store.schemas import TABLES, list_tables
from dedup.store.tables import Tables
from tests.layers.test_semantic import draw, elect, is_edge, settle
from tests.store import list_edges
from tests.store.sides import deal, hold_together
from tests.strategies import runs
from tests.test_pipeline import make_texts

LAYERS = [
    # The first is tried in every run.
    ["url", "contamination", "exact", "near"],
    ["url", "near"],
    ["exact", "near"],
    ["url", "exact", "near"],
    ["exact", "url", "near"],
    ["contamination", "near"],
    ["url", "exact"],
    ["contamination"],
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


@runs(2, nightly=16)
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


def test_near_does_not_see_what_layers_behind_it_have_removed_and_others_do(tmp_path):
    store, layers = dedup.Store(tmp_path / "store"), ["near", "url"]
    texts = [f"{WORDS[1]} {end}" for end in ("", "one", "two")]
    add(store, "1", [(1, WORDS[0], "http://a"), (2, texts[0], "http://a"), (3, texts[1], None)], layers)
    found = add(store, "2", [(4, texts[2], None), (5, WORDS[2], "http://a")], layers)

    # 4 is like 2, which has gone for the address of 1.
    assert [each[:3] for each in tell(found)] == [(4, "near", 1), (5, "url", 1)]
    assert [commit.kept for commit in store.history()] == [1, 0]
    assert [[(match.id, match.kept) for match in each] for each in store.lookup([texts[0]])] == [
        [(2, False), (3, False), (4, False)]
    ]
    assert sorted(store.delete([1]).displaced["id"].to_pylist()) == [2, 3, 4, 5]
    assert store.check(hours=0) == []


def test_the_copy_of_a_passage_that_came_first_stays_whatever_the_order_says(tmp_path):
    store, options = dedup.Store(tmp_path / "store"), {"id_column": "id", "layers": ["passages"], "engine": "memory"}
    options["settings"] = {"keep.order": ["longest", "smallest_id"], "passages.tokens": 10}
    store.add([{"id": 1, "text": WORDS[0]}], "1", **options)
    found = store.add([{"id": 2, "text": f"{WORDS[0]} {WORDS[1]} {WORDS[2]}"}], "2", **options)

    assert [(row["id"], row["begin"], row["kept_id"]) for row in found.spans] == [(2, 0, 1)]
    assert [row["text"].strip() for row in found.kept] == [f"{WORDS[1]} {WORDS[2]}"]
    assert found.changes == []


def test_an_earlier_document_stays_whatever_the_order_says(tmp_path):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(5, WORDS[0], "http://a")])
    found = add(store, "2", [(1, WORDS[0], None), (2, WORDS[1], "http://a"), (3, WORDS[2], "http://a")])

    assert tell(found) == [(1, "exact", 5, 1, 1.0), (2, "url", 5, 1, None), (3, "url", 5, 1, None)]
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
    assert {(row["id"] == row["representative_id"], row["layer"]) for row in second.duplicates} == {(True, "exact")}
    assert store.check(hours=0) == []


@pytest.mark.parametrize("layers", [["url"], ["lines", "exact"], ["exact", "passages"]])
def test_rows_that_come_again_go_also_where_a_layer_finds_no_key_or_another_text(tmp_path, layers):
    store, settings = dedup.Store(tmp_path / "store"), {"passages.tokens": 10, "lines.documents": 2}
    options = {"layers": layers, "engine": "memory", "settings": settings | {"url.column": "url"}}
    line = "the line that three documents have"
    texts = [f"{WORDS[0]}\n{line}", f"{WORDS[1]}\n{line}", ""]
    rows = [{"text": text, "url": None} for text in texts]
    store.add(rows, "1", **options)
    # With the new one the line is common, and cut in all of the batch.
    second = store.add([*rows, rows[0], {"text": f"{WORDS[2]}\n{line}", "url": None}], "2", **options)

    assert [row["text"].split("\n")[0] for row in second.kept] == [WORDS[2]]
    assert {(row["id"] == row["representative_id"], row["layer"], row["jaccard"]) for row in second.duplicates} == {
        (True, next(each for each in layers if each in {"url", "exact"}), 1.0)
    }
    assert [(commit.documents, commit.kept) for commit in store.history()] == [(3, 3), (1, 1)]


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """Return a store to which nothing is added."""
    store = dedup.Store(tmp_path_factory.mktemp("unchanged") / "store")
    add(store, "1", [(1, WORDS[0], None)])
    return store


VECTORS = {"semantic.vector_column": "v"}
SEMANTIC = VECTORS | {"semantic.threshold": 0.9}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": ["semantic", "near"]}, 'semantic.encoder: "corpus" learns from all documents'),
        ({"layers": ["semantic"], "settings": VECTORS}, "semantic.threshold: must be given where --store is"),
        (
            {"layers": ["semantic"], "settings": SEMANTIC | {"semantic.linkage": "component"}},
            'semantic.linkage: must be "representative" where --store is given',
        ),
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
def test_settings_that_do_not_serve_are_refused(unchanged, options, message):
    with pytest.raises(dedup.ConfigError, match=message):
        add(unchanged, "2", [(2, WORDS[1], None)], **options)


def test_a_store_of_near_alone_has_no_keys_and_takes_no_other_layers(tmp_path):
    store = dedup.Store(tmp_path / "store")
    add(store, "1", [(1, WORDS[0], None)], layers=["near"])

    assert not (tmp_path / "store" / "keys").exists()
    with pytest.raises(dedup.ConfigError, match=r"layers must be \['near'\], as in the store"):
        add(store, "2", [(2, WORDS[1], None)])


def test_what_needs_the_sets_of_all_documents_refuses_other_layers(unchanged, tmp_path):
    with pytest.raises(dedup.ConfigError, match=r'migrate needs a store of layers = \["near"\]'):
        unchanged.migrate(tmp_path / "other", id_column="id")
    with pytest.raises(dedup.ConfigError, match=r'needs a store of layers = \["near"\]'):
        compare_snapshots({"a": str(unchanged.path)}, dedup.load_settings())


def encode(texts):
    """Return vectors of texts by their letters."""
    return [[text.count(each) + 0.1 for each in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


@pytest.mark.parametrize(
    ("engines", "layers"),
    [
        ((False, True), ["near", "lines"]),
        pytest.param((False, True), ["exact", "near", "lines", "passages"], marks=pytest.mark.full),
        pytest.param((True, True, False), ["containment", "near", "exact", "lines"], marks=pytest.mark.full),
        pytest.param((False, True), ["lines", "exact", "semantic", "near"], marks=pytest.mark.full),
    ],
)
def test_batches_added_by_spark_are_those_of_the_memory_engine(spark, tmp_path, engines, layers):
    texts = [page["text"] for page in make_pages(7, as_text=False)]
    # The words of a text in another order have its vector, and other numbers in the guards' eyes.
    batches = deal([*texts, *texts[:8], *(" ".join(reversed(text.split())) for text in texts[:8])], len(engines))
    settings = {"input.id_column": "id", "layers": layers, "lines.documents": 2, "passages.tokens": 10}
    if "semantic" in layers:
        settings |= {
            "semantic.encoder": f"{__name__}:encode",
            "semantic.threshold": 0.95,
            "semantic.guards": ["negations"],
        }

    side = hold_together(tmp_path, spark, batches, settings, engines=engines)

    snapshot = dedup.Store(side.tables.path).open().snapshot
    unasked = {*TABLES, "later", *(() if "exact" in layers else ("keys",))}
    assert all(snapshot.count(name) for name in list_tables(layers) if name not in unasked)
    assert "lines" in {row[6] for row in side.output("batch1")["changes"]}
    assert {row[3] for row in side.output("batch1")["spans"]} == {"lines", "passages"} & {*layers}
    assert {"semantic"} & {*layers} <= {row[1] for row in side.output("batch1")["duplicates"]}


COMMON = [f"the notice of page number {number}" for number in range(4)]
QUOTES = [" ".join(f"q{number}x{place}" for place in range(14)) for number in range(4)]


def make_pages(seed: int, *, as_text: bool) -> list[dict]:
    """Return rows whose texts have lines and passages in common."""
    chance = Random(seed)
    rows = make_rows(seed, as_text=as_text)
    for row in rows:
        around = [chance.choice(COMMON) for _ in range(chance.randint(0, 3))]
        around += [chance.choice(QUOTES) for _ in range(chance.randint(0, 2))]
        row["text"] = "\n".join(chance.sample([*around, row["text"]], len(around) + 1))
    return rows


def lose(text: str, spans: list[tuple]) -> str:
    for begin, end in sorted(spans, reverse=True):
        text = text[:begin] + text[end:]
    return text


def list_places(rows: list[dict], spans: list[tuple]) -> set[tuple]:
    """Return the characters of spans, but for white space, which goes with either side of it."""
    texts = {row["id"]: row["text"] for row in rows}
    every = {(name, place) for name, begin, end in spans if name in texts for place in range(begin, end)}
    return {(name, place) for name, place in every if not texts[name][place].isspace()}


def leave(rows: list[dict], removed: set[tuple], layers: list[str], spans: list[tuple]) -> list[dict]:
    """Return the rows that some layers have left, without what a later one does not see of their texts."""
    gone = {row[0] for row in removed if row[1] in layers}
    lost = {row["id"]: [span[1:] for span in spans if span[0] == row["id"]] for row in rows}
    return [row | {"text": lose(row["text"], lost[row["id"]])} for row in rows if row["id"] not in gone]


def draw_layers(chance: Random, cutter: str) -> list[str]:
    """Return layers in any order, of which one cuts."""
    layers = chance.sample(["url", "exact", "near", "near"], chance.randint(0, 4))
    layers = [*dict.fromkeys(layers)]
    layers.insert(chance.randint(0, len(layers)), cutter)
    return layers


def choose_settings(chance: Random, cutter: str) -> dict:
    if cutter == "lines":
        own = {"documents": chance.randint(1, 5), "action": chance.choice(["cut", "ignore", "mark"])}
    else:
        own = {"tokens": 10, "action": chance.choice(["cut", "drop", "mark"]), "keep_first": chance.random() < 0.5}
    return {f"{cutter}.{name}": value for name, value in own.items()}


def check_changes(found, rows: list[dict], published: list[tuple], before: list[tuple], now: list[tuple]) -> None:
    """Hold what a batch says of earlier texts against what one run says of them before and after it."""
    told = [row for row in found.changes if row["layer"] != "near"]
    assert all(row["was_kept"] == row["is_kept"] != row["would_be_kept"] for row in told)
    cuts, was_cut, are_cut = (list_places(rows, spans) for spans in (published, before, now))
    for is_kept, after, then in ((False, are_cut - cuts, was_cut - cuts), (True, cuts - are_cut, cuts - was_cut)):
        spans = [(row["id"], row["begin"], row["end"]) for row in told if row["would_be_kept"] == is_kept]
        # What a batch does not touch need not be said again, and of a cut that is told some would be left.
        assert after - then <= list_places(rows, spans)
        ids = {row["id"] for row in rows}
        whole = (list_places(rows, [span]) & after for span in spans if span[0] in ids)
        assert all(whole) if is_kept else list_places(rows, spans) <= after


def list_kept_places(result, ids: set) -> list[tuple]:
    names = ("id", "begin", "end", "kept_id", "kept_begin", "kept_end")
    rows = [tuple(row[name] for name in names) for row in result.spans] if list_spans(result) else []
    return sorted(row for row in rows if row[0] in ids)


def run(rows: list[dict], layers: list[str], options: dict):
    return dedup.deduplicate(rows, layers=layers, **options) if rows else None


@runs(2, nightly=16)
@given(seed=st.integers(0, 2**32), cutter=st.sampled_from(["lines", "passages"]), as_text=st.booleans())
def test_each_layer_finds_what_one_run_of_it_finds_in_what_those_before_have_left(
    tmp_path_factory, seed, cutter, as_text
):
    chance = Random(seed)
    layers, settings = draw_layers(chance, cutter), choose_settings(chance, cutter)
    hides = settings[f"{cutter}.action"] != "mark"
    settings |= {"keep.order": ORDERS[0]} | ({"url.column": "url"} if "url" in layers else {})
    options = {"settings": settings, "id_column": "id", "engine": "memory", "threshold": 0.7}
    options["settings"] |= {"url.column": "url"} if "url" in layers else {}
    place, store = layers.index(cutter), dedup.Store(tmp_path_factory.mktemp("store") / "store")
    left, published, removed, whole_gone, displaced, is_deleted = [], [], set(), set(), set(), False
    for number, part in enumerate(cut(make_pages(seed, as_text=as_text), chance)):
        before = run(leave(left, removed, layers[:place], []), [cutter], options)
        found = store.add(part, f"{number}", layers=layers, **options)
        left, ids = left + part, {row["id"] for row in part}
        removed |= {(row["id"], row["layer"], row["kind"]) for row in found.duplicates}
        rows = leave(left, removed, layers[:place], [])
        if whole := run(rows, [cutter], options):
            assert list_kept_places(found, ids) == list_kept_places(whole, ids)
            gone = {row for row in list_removed(whole) if row[0] in ids}
            assert gone == {row for row in removed if row[0] in ids and row[1] == cutter}
            # A document that goes whole, or would, has no spans.
            whole_gone |= {row["id"] for each in (found, whole) for row in each.duplicates if row["layer"] == cutter}
            rest = [row for row in rows if row["id"] not in ids | whole_gone]
            check_changes(found, rest, published, list_spans(before) if before else [], list_spans(whole))
        if not is_deleted:
            kept = {row["representative_id"] for row in found.duplicates} - {row[0] for row in removed} - {None}
            assert kept == {row["representative_id"] for row in found.duplicates} - {None}
        published += list_spans(found)
        if chance.random() < 0.5:
            is_deleted = True
            chosen = [row["id"] for row in chance.sample(left, min(len(left), 4))]
            displaced |= {*store.delete(chosen, readmit=layers[-1] == "near").displaced["id"].to_pylist()}
            ids = set(store.open().snapshot.read("documents", ["id"])["id"].to_pylist())
            left = [row for row in left if row["id"] in ids]
            published, removed = ([row for row in rows if row[0] in ids] for rows in (published, removed))
            removed = set(removed)
        if chance.random() < 0.5:
            store.compact()
        assert store.check(hours=0) == []
    for number, layer in enumerate(layers):
        spans = published if hides and number > place else []
        whole = run(leave(left, removed, layers[:number], spans), [layer], options)
        if whole and layer in {"url", "exact"}:
            # A document that is displaced stands for no other, as long as nobody is kept for it.
            told = [row for row in whole.duplicates if displaced & {row["id"], row["representative_id"]}]
            of = {row["component_id"] for row in told}
            unsure = {row["id"] for row in whole.duplicates if row["component_id"] in of}
            stored, found = ({row for row in rows if row[1] == layer} for rows in (removed, list_removed(whole)))
            assert {row for row in stored ^ found if row[0] not in unsure} == set()
        if layer == "near" and not as_text:
            assert list_edges(Tables(str(store.path))) == (to_pairs(whole) if whole else [])


def list_sets(rows: list[dict]) -> dict[int, set]:
    """Return the shingles of texts."""
    texts = pa.array([row["text"] for row in rows])
    values, offsets = shingle(*UnicodeWords().hash(texts), 5, UnicodeWords())
    return {row["id"]: {*values[begin:end].tolist()} for row, (begin, end) in zip(rows, pairwise(offsets), strict=True)}


@runs(1, nightly=8)
@given(seed=st.integers(0, 2**32))
def test_a_document_goes_for_an_earlier_one_that_contains_it_and_an_earlier_one_stays(tmp_path_factory, seed):
    chance, folder = Random(seed), tmp_path_factory.mktemp("store")
    store, rows = dedup.Store(folder / "store"), make_rows(seed)
    for row in chance.sample(rows, 16):
        words = row["text"].split()
        row["text"] = chance.choice(
            [" ".join(words[len(words) // 3 :]), f"{row['text']} {chance.choice(rows)['text']}"]
        )
    options = {"id_column": "id", "layers": ["containment"], "engine": "memory"}
    settings = {"keep.order": ORDERS[0], "containment.min_shingles": 5}
    left: list[dict] = []
    for number, part in enumerate(cut(rows, chance)):
        found = store.add(part, f"{number}", settings=settings, **options)
        (folder / "left.jsonl").write_text("".join(json.dumps(row) + "\n" for row in left))
        others = {"input.without": [str(folder / "left.jsonl")]} if left else {}
        whole = dedup.deduplicate(part, settings=settings | others, **options)
        assert {row["id"] for row in found.duplicates} == {row["id"] for row in whole.duplicates}
        earlier, fresh = left, found.kept
        sets = list_sets([*earlier, *part])
        for row in found.duplicates:
            one, other = row["id"], row["representative_id"]
            assert other in {row["id"] for row in [*earlier, *fresh]}
            assert len(sets[one] & sets[other]) >= 0.9 * len(sets[one])
        inside = {
            (one["id"], other["id"])
            for one in earlier
            for other in fresh
            if len(sets[one["id"]] & sets[other["id"]]) >= 0.9 * len(sets[one["id"]]) >= 4.5
            and len(sets[one["id"]]) < len(sets[other["id"]])
        }
        told = {row["id"] for row in found.changes if not row["would_be_kept"]}
        ids = {row["id"] for row in fresh}
        assert told == {one for one, _ in inside}
        left = [*left, *(row for row in part if row["id"] in ids)]
        if left and chance.random() < 0.5:
            store.delete([row["id"] for row in chance.sample(left, min(len(left), 2))])
            store.compact()
            ids = set(store.open().snapshot.read("documents", ["id"])["id"].to_pylist())
            left = [row for row in left if row["id"] in ids]
        assert store.check(hours=0) == []


def test_an_earlier_document_that_a_later_one_contains_still_holds_others(tmp_path):
    """Found in the second round alone, as the rarest shingles of the contained one lead to a larger document first."""

    def name(*parts):
        return " ".join(f"{letter}{place}" for letter, begin, end in parts for place in range(begin, end))

    first, holder, inner = (
        (1, name(("x", 0, 7), ("c", 0, 90))),
        (2, name(("x", 0, 24), ("a", 0, 40))),
        name(("x", 0, 24)),
    )
    outer, most = (4, name(("x", 3, 24), ("a", 0, 40), ("b", 0, 10))), (5, name(("x", 3, 24), ("d", 0, 40)))
    store, options = dedup.Store(tmp_path / "store"), {"id_column": "id", "layers": ["containment"], "engine": "memory"}
    batches = [first, holder], [(3, inner), outer, most]
    *_, found = [
        store.add([{"id": number, "text": text} for number, text in rows], batch, **options)
        for batch, rows in zip("ab", batches, strict=True)
    ]

    assert [(row["id"], row["representative_id"]) for row in found.duplicates] == [(3, 2)]
    assert [(row["id"], row["would_be_kept"]) for row in found.changes] == [(2, False)]


def test_what_an_earlier_batch_contains_is_told_of_once(tmp_path):
    inner, outer = (" ".join(f"w{place}" for place in range(end)) for end in (40, 60))
    store, options = dedup.Store(tmp_path / "store"), {"id_column": "id", "layers": ["containment"], "engine": "memory"}
    told = [
        [row["id"] for row in store.add([{"id": number, "text": text}], f"{number}", **options).changes]
        for number, text in enumerate((inner, outer, inner))
    ]

    assert told == [[], [0], []]


@runs(2, nightly=16)
@given(seed=st.integers(0, 2**32), as_text=st.booleans())
def test_a_document_goes_for_one_kept_of_any_batch_that_says_the_same(tmp_path_factory, seed, as_text):
    chance, store = Random(seed), dedup.Store(tmp_path_factory.mktemp("store") / "store")
    vectors, texts = draw(seed)
    documents = [*zip(vectors, texts, strict=True)]
    judged = {(a, b): is_edge(documents[a], documents[b]) for b in range(len(texts)) for a in range(b)}
    names = {number: f"id{number:02}" if as_text else number for number in range(len(texts))}
    rows = [{"id": names[number], "text": texts[number], "v": vectors[number]} for number in names]
    batch_of: dict[int, int] = {}
    gone: set[int] = set()
    for number, part in enumerate(cut(rows, chance)):
        found = store.add(part, f"{number}", id_column="id", layers=["semantic"], engine="memory", settings=SEMANTIC)
        own = {place for place, name in names.items() if name in {row["id"] for row in part}}
        batch_of |= dict.fromkeys(own, number)
        held = {pair: each for pair, each in judged.items() if {*pair} <= {*batch_of}}
        edges = {(a, b) for a, b in settle(documents, held) if {a, b} & own and not {a, b} & gone}
        turns = sorted({*batch_of} - gone, key=lambda place: (batch_of[place], place))
        among = {tuple(sorted((turns.index(a), turns.index(b)))) for a, b in edges}
        owners = {turns[a]: turns[b] for a, b in elect(len(turns), among).items()}
        gone |= {*owners}

        told = {(row["left_id"], row["right_id"]) for row in read_cosines(found)}
        assert {frozenset(pair) for pair in told} == {frozenset((names[a], names[b])) for a, b in edges}
        assert {row["id"]: row["representative_id"] for row in found.duplicates} == {
            names[a]: names[b] for a, b in owners.items()
        }
        if chance.random() < 0.5:
            store.delete([names[place] for place in chance.sample([*batch_of], min(len(batch_of), 3))])
            store.compact()
            ids = set(store.open().snapshot.read("documents", ["id"])["id"].to_pylist())
            batch_of = {place: each for place, each in batch_of.items() if names[place] in ids}
            gone &= {*batch_of}
        assert store.check(hours=0) == []


def read_cosines(result) -> list[dict]:
    try:
        return [*result.cosines]
    except dedup.StorageError:
        return []


def test_vectors_of_another_length_than_those_of_the_store_are_refused(tmp_path):
    store = dedup.Store(tmp_path / "store")
    options = {"id_column": "id", "layers": ["semantic"], "engine": "memory", "settings": SEMANTIC}
    store.add([{"id": 1, "text": WORDS[0], "v": [1.0, 2.0]}], "1", **options)

    with pytest.raises(dedup.DataError, match=r"must have the length of those in the store, 2 \(got 3\)"):
        store.add([{"id": 2, "text": WORDS[0], "v": [1.0, 2.0, 3.0]}], "2", **options)
