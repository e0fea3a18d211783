"""Documents that the input is to lose, and what goes of those that are alike."""

import hashlib
import json
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup import Store, deduplicate
from dedup.errors import ConfigError, DedupError
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.run.start import start
from dedup.settings.files import load_config
from tests import oracles
from tests.conftest import PROFILE

DROPS = ("others", "all", "without")
THRESHOLD = 0.6
SHINGLES = 3


def draw_texts(rng, count, bases):
    """Return texts that are a few words off some bases, so that chains of likeness lead through either corpus."""
    texts = []
    for _ in range(count):
        words = list(rng.choice(bases))
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            words[rng.randrange(len(words))] = f"x{rng.randrange(30)}"
        texts.append(" ".join(words))
    return texts


def write(folder, rng, named=str):
    """Write two corpora of the same ids, one of them as two formats; return their documents."""
    bases = [[f"w{rng.randrange(200)}" for _ in range(24)] for _ in range(5)]
    own = dict(enumerate([*draw_texts(rng, 24, bases), ""]))
    others = dict(enumerate([*draw_texts(rng, 9, bases[:3]), ""]))
    (folder / "b").mkdir()
    for number in range(2):
        rows = [{"id": named(key), "text": text, "more": [key]} for key, text in own.items() if key % 2 == number]
        (folder / f"a{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    half = [{"id": named(key), "text": text} for key, text in others.items() if key % 2]
    pq.write_table(pa.Table.from_pylist(half), folder / "b/odd.parquet")
    rest = [{"id": named(key), "text": text} for key, text in others.items() if not key % 2]
    (folder / "even.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rest))
    return own, others


def choose(own, others, linkage, drop):
    """Say which documents go: a slow statement of what the settings mean."""
    texts = {("b", key): text for key, text in others.items()} | {("a", key): text for key, text in own.items()}
    sets = {each: oracles.shingle_set(text, SHINGLES) for each, text in texts.items()}
    near = oracles.similar_pairs(sets, THRESHOLD)
    around = {each: {other for pair in near for other in pair if each in pair} - {each} for each in sets}
    gone = set()
    for group in join(around):
        members = sorted(each for each in group if each[0] == "a")
        kept = {each for each in group if each[0] == "b"}
        if drop == "all":
            gone |= {*members}
        elif linkage == "component":
            gone |= {*members} if kept else {*members[1:]} if drop == "others" else set()
        else:
            for each in members:
                if around[each] & kept:
                    gone.add(each)
                elif drop == "others":
                    kept.add(each)
    return {key for _, key in gone}


def join(around):
    """Return the components of two and more."""
    groups = [{each, *others} for each, others in around.items() if others]
    for each in around:
        held = [group for group in groups if each in group]
        groups = [group for group in groups if each not in group] + ([set().union(*held)] if held else [])
    return groups


def read(result, name):
    return getattr(result, name).to_table().to_pylist()


def settings(linkage, drop, **more):
    chosen = {
        "shingle_size": SHINGLES,
        "cluster__linkage": linkage,
        "drop": drop,
        "id_column": "id",
        "engine": "memory",
    }
    return {"mode": "exact", "threshold": THRESHOLD, **chosen, **more}


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("linkage", ["component", "representative"])
@pytest.mark.parametrize("named", [int, str])
def test_what_goes_is_what_the_other_corpus_has_as_a_slow_search_says(tmp_path, linkage, drop, named):
    for seed in range(3 if PROFILE == "full" else 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        own, others = write(folder, Random(seed), named)
        chosen = settings(linkage, drop, layers=["exact", "near"] if drop != "all" else ["near"])
        without = [f"{folder}/b", f"{folder}/even.jsonl"]
        # The smallest id of strings is by their bytes.
        order = {named(key): key for key in own}
        result = deduplicate([f"{folder}/a*.jsonl"], without=without, **chosen)
        gone = {row["id"] for row in read(result, "removed")}

        assert gone == choose({named(key): text for key, text in own.items()}, others, linkage, drop)
        assert result.report.kept + len(gone) == len(order)
        report = result.report.to_dict()
        assert (report["documents"], report["removed"]) == (len(own), len(gone))
        assert report["without"]["documents"] == len(others)
        named_foreign = [row for row in read(result, "duplicates") if is_foreign(row["representative_id"])]
        assert report["without"]["removed"] == len(named_foreign) > 0
        # Reasons name documents of the other corpus as they are called there.
        for row in named_foreign:
            text = others[recall(row["representative_id"])]
            sets = [oracles.shingle_set(each, SHINGLES) for each in (text, own[order[row["id"]]])]
            assert row["jaccard"] == float(oracles.jaccard(*sets))


def is_foreign(name):
    return name is not None and (name.startswith("without:") if isinstance(name, str) else name < 0)


def recall(name):
    return int(name.removeprefix("without:")) if isinstance(name, str) else -1 - name


def test_a_part_of_the_other_corpus_goes_though_a_document_of_the_input_holds_that_too(tmp_path):
    words = [f"w{number}" for number in range(90)]
    other, within, around = words[:60], words[:30], words + [f"z{number}" for number in range(300)]
    rows = [{"id": 1, "text": " ".join(around)}, {"id": 2, "text": " ".join(within)}]
    (tmp_path / "b.jsonl").write_text(json.dumps({"id": 1, "text": " ".join(other)}))
    chosen = {"layers": ["containment"], "id_column": "id", "drop": "without", "shingle_size": 3}
    result = deduplicate(rows, without=[f"{tmp_path}/b.jsonl"], **chosen)

    assert [(row["id"], row["representative_id"]) for row in result.duplicates] == [(2, -2)]
    assert deduplicate(rows, **chosen | {"drop": "others"}).report.kept == 1


def test_passages_and_lines_are_cut_from_the_input_alone(tmp_path):
    passage = " ".join(f"w{number}" for number in range(60))
    rows = [{"id": number, "text": f"begins{number}\n{passage}\nends{number}"} for number in range(2)]
    (tmp_path / "b.jsonl").write_text(json.dumps({"id": 9, "text": f"b\n{passage}"}) + "\n")
    chosen = {"layers": ["passages"], "id_column": "id", "settings": {"passages.min_tokens_left": 0}}
    result = deduplicate(rows, without=[f"{tmp_path}/b.jsonl"], **chosen)

    assert [passage in row["text"] for row in result.kept] == [False, False]


def test_a_store_loses_and_gains_nothing_and_says_the_same_as_its_files(tmp_path):
    own, others = write(tmp_path, Random(1), int)
    rows = [{"id": key + 100, "text": text} for key, text in own.items()]
    batches = [[{"id": key, "text": text} for key, text in others.items() if key % 2 == half] for half in (0, 1)]
    store = Store(tmp_path / "store")
    chosen = {"threshold": THRESHOLD, "shingle_size": SHINGLES, "id_column": "id"}
    for number, batch in enumerate(batches):
        store.add(batch, str(number), **chosen)
    before = digest(tmp_path / "store")
    for drop in ("others", "without"):
        found = deduplicate(rows, without=[f"{tmp_path}/store"], drop=drop, **chosen)
        from_files = deduplicate(rows, without=[f"{tmp_path}/b", f"{tmp_path}/even.jsonl"], drop=drop, **chosen)
        assert {row["id"] for row in found.kept} == {row["id"] for row in from_files.kept}
    one = deduplicate(rows, without=[f"{tmp_path}/store"], without_batches=["1"], drop="without", **chosen)
    alone = deduplicate(rows, without=[f"{tmp_path}/b"], drop="without", **chosen)

    assert {row["id"] for row in one.kept} == {row["id"] for row in alone.kept}
    assert len(one.kept) > len(found.kept)
    assert digest(tmp_path / "store") == before
    with pytest.raises(ConfigError, match=r"must be batches of the store \(got '2', it has 0, 1\)"):
        deduplicate(rows, without=[f"{tmp_path}/store"], without_batches=["2"], **chosen)


@pytest.mark.parametrize("layer", ["url", "exact", "near"])
def test_what_a_store_has_goes_though_the_input_has_rows_of_the_store_itself(tmp_path, layer):
    rows = [{"text": "one two three four five six", "url": "http://a.example/", "n": number} for number in range(4)]
    chosen = {"layers": [layer], "settings": {"url.column": "url"} if layer == "url" else {}}
    Store(tmp_path / "store").add(rows[:2], "0", **chosen)
    result = deduplicate(rows, without=[f"{tmp_path}/store"], drop="without", **chosen)

    assert [*result.kept] == []
    assert result.report.to_dict()["without"] == {"documents": 2, "removed": 4}


@pytest.mark.parametrize("layers", [["url"], ["exact"], ["exact", "near"], ["near", "exact"]])
def test_what_one_batch_has_goes_though_the_store_had_it_before_that(tmp_path, layers):
    rows = [{"id": each, "text": "one two three four five six", "url": "http://a.example/"} for each in range(3)]
    chosen = {"id_column": "id", "layers": layers, "settings": {"url.column": "url"} if "url" in layers else {}}
    store = Store(tmp_path / "store")
    for row in rows[:2]:
        store.add([row], str(row["id"]), **chosen)
    result = deduplicate(rows[2:], without=[f"{tmp_path}/store"], without_batches=["1"], **chosen)

    assert [row["representative_id"] for row in result.duplicates] == [1]
    assert result.report.to_dict()["without"] == {"documents": 1, "removed": 1}


@pytest.mark.parametrize(
    ("layers", "text"),
    [
        *((layers, "one two three four five") for layers in (["near"], ["near", "exact"], ["exact", "near"])),
        (["url", "near"], "another"),
    ],
)
def test_what_a_store_has_goes_though_the_document_kept_for_it_was_deleted(tmp_path, layers, text):
    texts = ["one two three four", "one two three four five", text]
    rows = [{"id": each, "text": own, "url": f"http://a.example/{each > 0}"} for each, own in enumerate(texts)]
    chosen = {"id_column": "id", "layers": layers, "threshold": 0.5, "shingle_size": 1}
    chosen["settings"] = {"url.column": "url"} if "url" in layers else {}
    store = Store(tmp_path / "store")
    store.add(rows[:2], "0", **chosen)
    assert store.delete([0]).displaced["id"].to_pylist() == [1]
    result = deduplicate(rows[2:], without=[f"{tmp_path}/store"], **chosen)

    assert [row["representative_id"] for row in result.duplicates] == [1]
    assert result.report.to_dict()["without"] == {"documents": 1, "removed": 1}


@pytest.mark.parametrize("drop", ["others", "without"])
def test_each_of_several_equal_rows_counts_among_those_removed_for_the_other_corpus(tmp_path, drop):
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "one two three four five six"}))
    rows = [{"text": "one two three four five six", "n": number} for number in (1, 2, 2)]
    result = deduplicate(rows, without=[f"{tmp_path}/b.jsonl"], drop=drop)

    assert [*result.kept] == []
    assert result.report.to_dict()["without"] == {"documents": 1, "removed": 3}


def digest(folder):
    return {path: hashlib.sha256(path.read_bytes()).digest() for path in Path(folder).rglob("*") if path.is_file()}


def test_equal_rows_all_go_where_none_is_to_stay(tmp_path):
    pq.write_table(
        pa.table({"text": ["one two three four five six", "another", "one two three four five six"]}),
        tmp_path / "a.parquet",
    )
    result = deduplicate(f"{tmp_path}/a.parquet", drop="all", engine="memory")

    assert result.kept.to_table()["text"].to_pylist() == ["another"]
    assert result.duplicates.to_table()["representative_id"].null_count == 2


@pytest.mark.parametrize("form", [{"output.files": 1}, {"output.mode": "annotate"}, {"output.mode": "ids"}])
def test_no_form_of_output_has_rows_of_the_other_corpus(tmp_path, form):
    own, _ = write(tmp_path, Random(1), int)
    chosen = {**settings("component", "others"), "settings": form, "without": [f"{tmp_path}/b"]}
    result = deduplicate([f"{tmp_path}/a*.jsonl"], **chosen)
    ids = {row["id"] for row in read(result, "kept")}

    assert ids <= {*own}
    assert result.report.kept + result.report.removed == len(own)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"drop": "without"}, 'keep.drop: "without" needs input.without, which is empty'),
        ({"drop": "all", "per_source": 3, "source_column": "id"}, "limits.per_source: must be 0 where"),
        ({"without": ["gone.jsonl"]}, "--without gone.jsonl: must be a file"),
        ({"without": ["a.jsonl"], "without_batches": ["x"]}, "input.without_batches: needs a store"),
    ],
)
def test_what_cannot_be_meant_is_refused(chosen, message):
    with pytest.raises(DedupError, match=message):
        deduplicate([{"id": 1, "text": "a"}], id_column="id", **chosen)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("b.parquet", b"PAR1", "cannot be read as parquet"),
        ("b.jsonl.gz", b"no", "cannot be read as jsonl"),
        ("b.jsonl", b"[1]", "must have a JSON object on each line"),
        ("b.jsonl", b'{"id": 1, "text": "a"}\n' * 200 + b"no\n", r"every record must be whole \([^;]*\)$"),
    ],
)
def test_a_damaged_file_of_another_corpus_is_told_by_the_option_that_names_it(tmp_path, name, content, words):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n')
    (tmp_path / name).write_bytes(content)

    with pytest.raises(DedupError, match=f"^--without: .*{words}"):
        deduplicate(str(tmp_path / "a.jsonl"), str(tmp_path / "out"), id_column="id", without=[str(tmp_path / name)])


@pytest.mark.parametrize(
    ("drop", "layers"),
    [
        ("without", ["exact"]),
        pytest.param("without", ["exact", "near"], marks=pytest.mark.full),
        pytest.param("all", ["exact", "near"], marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize("given", ["table", pytest.param("files", marks=pytest.mark.full)])
def test_tasks_of_spark_say_the_same(spark, tmp_path, given, drop, layers):
    write(tmp_path, Random(7), str)
    paths, tables = (
        [f"{tmp_path}/b", f"{tmp_path}/even.jsonl"],
        [f"parquet.`{tmp_path}/b`", f"json.`{tmp_path}/even.jsonl`"],
    )
    chosen = {"threshold": THRESHOLD, "shingles.shingle_size": SHINGLES, "input.id_column": "id", "keep.drop": drop}
    chosen |= {"driver.search_bytes": 0, "layers": layers}

    def make(name, inputs, **more):
        return Job(inputs=inputs, output=f"{tmp_path}/{name}", config=load_config(settings=chosen | more))

    start(make("memory", [f"{tmp_path}/a*.jsonl"], **{"input.without": paths, "engine": "memory"}))
    if given == "files":
        run(spark, make("tasks", [f"{tmp_path}/a*.jsonl"], **{"input.without": paths}))
    else:
        run(spark, make("tasks", [], **{"input.without": tables, "input.table": f"json.`{tmp_path}/a*.jsonl`"}))
    tables = [ds.dataset(tmp_path / name / "duplicates").to_table() for name in ("memory", "tasks")]
    told = [sorted(map(repr, table.to_pylist())) for table in tables]

    assert told[0] == told[1] != []
