"""Labelled pairs as they come from users' files."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.errors import ConfigError, DataError, SchemaError, StorageError
from dedup.evaluate.evaluation import fetch_labelled
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pairs import read_pairs
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from tests.paraphrases import KINDS, draw


def read(path, id_type=None):
    table = read_pairs(str(path), id_type=id_type or pa.int64(), where="--pairs")
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def test_csv_json_lines_and_parquet_say_the_same(tmp_path):
    rows = [(9, 3, True), (3, 9, True), (4, 5, False), (6, 6, True)]
    names = ("left_id", "right_id", "duplicate")
    (tmp_path / "a.csv").write_text("right_id,left_id,duplicate\n3,9,true\n9,3,TRUE\n5,4,0\n6,6,yes\n")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))), tmp_path / "a.parquet")

    for name in ("a.csv", "a.jsonl", "a.parquet"):
        assert read(tmp_path / name) == [(3, 9, True), (4, 5, False)]


def test_only_line_feeds_end_lines_of_json(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"left_id": 1,\r"right_id": 2}\r\n\r\n{"left_id": 3, "right_id": 4}')

    assert read(tmp_path / "a.jsonl") == [(1, 2, True), (3, 4, True)]


def test_without_a_label_a_pair_is_one_of_duplicates_and_unreadable_ids_are_null(tmp_path):
    (tmp_path / "a.csv").write_text("left_id,right_id\n2,1\nx,3\n 4,+5\n1_0,6\n1.5,7\n9223372036854775808,8\n,\n")

    unreadable = [(None, number, True) for number in (3, 6, 7, 8)]
    assert read(tmp_path / "a.csv") == [(1, 2, True), (4, 5, True), *unreadable]


def test_string_ids_are_hashed_as_those_of_the_corpus(spark, tmp_path):
    pq.write_table(pa.table({"left_id": ["a", "b"], "right_id": ["b", "c"]}), tmp_path / "a.parquet")
    hashes = dict(spark.sql("SELECT id, xxhash64(id) FROM VALUES ('a'), ('b'), ('c') AS t(id)").collect())

    found = read(tmp_path / "a.parquet", pa.string())

    assert found == sorted([(*sorted((hashes[one], hashes[two])), True) for one, two in ("ab", "bc")], key=repr)
    pq.write_table(pa.table({"left_id": [1], "right_id": [2]}), tmp_path / "b.parquet")
    numbers = dict(spark.sql("SELECT id, xxhash64(id) FROM VALUES ('1'), ('2') AS t(id)").collect())
    assert read(tmp_path / "b.parquet", pa.string()) == [(*sorted(numbers.values()), True)]


def test_pairs_of_which_the_corpus_lacks_a_document_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("left_id,right_id,duplicate\n1,2,true\n2,3,false\n1,9,true\n4,9,true\nx,3,true\n")

    class Corpus:
        id_type = pa.int64()

        def fetch(self, wanted):
            return pa.table({"doc_id": wanted[wanted < 5]})

    pairs, given, documents = fetch_labelled(Corpus(), str(tmp_path / "a.csv"))

    assert pairs.to_pydict() == {"left_id": [1, 2], "right_id": [2, 3], "duplicate": [True, False]}
    assert given == 5
    assert sorted(set(documents["doc_id"].to_pylist())) == [1, 2, 3]


@pytest.mark.parametrize(
    ("file", "error", "words"),
    [
        (("a.csv", "left,right\n1,2\n"), SchemaError, r"--pairs: must have the columns left_id.*\(got left, right\)"),
        (("a.jsonl", ""), SchemaError, r"--pairs: must have the columns left_id.*\(got none\)"),
        (("a.csv", "left_id,right_id,duplicate\n1,2,perhaps\n"), DataError, r"'duplicate' must be.*\(got 'perhaps'\)"),
        (
            ("a.csv", "left_id,right_id,duplicate\n1,2,true\n2,1,false\n"),
            DataError,
            r"one label \(got 1 pairs with both",
        ),
        (("a.jsonl", '{"left_id": 1.5, "right_id": 2}\n'), SchemaError, r"'left_id' must be an integer or a string"),
        (("a.jsonl", '{"left_id": 1, "right_id": 2}\nno\n'), DataError, r"^--pairs: every record must be whole"),
        (("a.dat", "1 2"), StorageError, r"^--pairs [^ ]*: its format cannot be guessed from 'a.dat'$"),
        (None, StorageError, r"^--pairs [^ ]*: must be a file.*does not exist"),
    ],
)
def test_a_file_that_is_none_of_labels_is_refused(tmp_path, file, error, words):
    name, content = file or ("none.csv", "")
    path = tmp_path / name
    if file:
        path.write_text(content)

    with pytest.raises(error, match=words):
        read(path)


def test_a_copy_that_an_earlier_layer_removes_counts_as_the_document_kept(tmp_path):
    words = " ".join(f"word{number}" for number in range(40))
    texts = {"c": words, "b": words, "a": f"{words} end", "x": "something else that is said of nothing"}
    corpus, labels = tmp_path / "in.jsonl", tmp_path / "pairs.csv"
    corpus.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in texts.items()))
    settings = ["input.id_column=id", f"evaluation.labeled_pairs={labels}"]
    told = {}
    for layers in (["near"], ["exact", "near"]):
        for number, pairs in enumerate(("b,c\n", "c,a\n", "b,c\nc,a\nc,x\nc,none\n")):
            labels.write_text(f"left_id,right_id\n{pairs}")
            config = load_config(None, None, [*settings, f"layers={json.dumps(layers)}"])
            output = str(tmp_path / f"{layers[0]}{number}")
            report = run_in_memory(Job(inputs=[str(corpus)], output=output, config=config))
            told.setdefault(pairs, []).append((report["labeled_pairs"], report["recall_measured"]))

    assert all(one == other for one, other in told.values())
    assert [found[0][0]["joined"] for found in told.values()] == [1, 1, 2]


def test_semantic_takes_labels_of_copies_that_an_earlier_layer_removes_for_those_of_the_ones_kept(tmp_path):
    corpus, labels = tmp_path / "in.jsonl", tmp_path / "pairs.csv"
    texts = {f"{n}{kind[0]}": getattr(each, kind) for n, each in enumerate(draw(7, 60)) for kind in KINDS}
    texts |= {f"{n}z": texts[f"{n}t"] for n in range(60)}
    corpus.write_text("".join(json.dumps({"id": each, "text": text}) + "\n" for each, text in texts.items()))
    settings = ["input.id_column=id", f"evaluation.labeled_pairs={labels}", 'layers=["exact", "semantic"]']
    told = []
    for left in "tz":
        labels.write_text(
            "left_id,right_id,duplicate\n0t,0z,true\n"
            + "".join(f"{n}{left},{n}{right},{right == 'p'}\n" for n in range(60) for right in "pc")
        )
        config = load_config(None, None, settings)
        report = run_in_memory(Job(inputs=[str(corpus)], output=str(tmp_path / left), config=config))
        told.append(report["layers"][1]["details"])

    assert told[0]["threshold_chosen_by"] == "evaluation.labeled_pairs"
    assert told[0] == told[1]


def test_labels_that_no_layer_is_held_against_are_refused(tmp_path):
    config = load_config(settings={"layers": ["exact", "passages"], "evaluation.labeled_pairs": "pairs.csv"})
    with pytest.raises(ConfigError, match=r"labeled_pairs: needs the layer near.*got layers = \['exact', 'passages'\]"):
        Job(inputs=["in.jsonl"], output=str(tmp_path / "out"), config=config).settle()


@pytest.mark.full
@pytest.mark.parametrize("mode", ["lsh", "exact"])
def test_recall_is_told_by_similarity_and_empty_documents_resemble_none(spark, tmp_path, mode):
    words = " ".join(f"word{number}" for number in range(40))
    texts = [words, f"{words} end", "", None, "something else that is said of nothing", words]
    corpus, labels = tmp_path / "in.jsonl", tmp_path / "pairs.csv"
    corpus.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)))
    labels.write_text("left_id,right_id\n0,1\n2,3\n0,2\n0,4\n5,0\n5,1\n")
    config = load_config(None, None, ["input.id_column=id", f"evaluation.labeled_pairs={labels}", f"mode={mode}"])

    report = run(spark, Job(inputs=[str(corpus)], output=str(tmp_path / "out"), config=config))
    other = run_in_memory(Job(inputs=[str(corpus)], output=str(tmp_path / "other"), config=config))

    for name in ("recall_measured", "labeled_pairs", "recall_on_labeled_set"):
        assert other[name] == report[name]
    points = [(point["jaccard"], point["pairs"], point["joined"]) for point in report["recall_measured"]]
    assert points == [(0.0, 3, 0), (36 / 37, 2, 2), (1.0, 1, 1)]
    assert report["labeled_pairs"] == {"given": 6, "known": 6, "joined": 3}
