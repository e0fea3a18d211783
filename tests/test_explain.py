"""Why a document went or stayed, as the output alone tells it."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

import dedup
from dedup.cli import explain as cli
from dedup.errors import ConfigError, DataError, StorageError
from dedup.explain.comparison import compare, tell_verdict
from dedup.explain.explanation import explain, list_top
from dedup.explain.result import PublishedOutput
from dedup.explain.show import Style, to_json, to_tables, to_text
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.session import ROOT
from dedup.settings.files import load_config
from dedup.settings.options import Config
from tests import oracles

WORDS = [f"word{number}" for number in range(100)]
TEXTS = {
    # Each step changes one word more: neighbours are edges, the ends are none.
    **{f"step {step}": " ".join([*[f"new{n}" for n in range(step)], *WORDS[step:]]) for step in range(0, 25, 4)},
    "step 0 again": " ".join(WORDS).upper() + "!",
    "other": "one of a kind\x1b[31m, resembled by nobody",
    "empty": "",
    **{
        f"pair {n}": " ".join([*[f"both{each}" for each in range(40)], *[f"{n}end{each}" for each in range(6)]])
        for n in "ab"
    },
}
REMOVED = {each for each in TEXTS if each.startswith("step")} - {"step 0"}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explained")
    source = folder / "in.parquet"
    pq.write_table(pa.table({"id": [*TEXTS], "text": [*TEXTS.values()]}), source)
    config = load_config(None, None, ["input.id_column=id", "lsh.bands=60", "lsh.rows=3"])
    run_in_memory(Job(inputs=[str(source)], output=str(folder / "out"), config=config))
    return folder / "out"


@pytest.fixture(scope="module")
def result(output):
    return PublishedOutput(str(output))


def similarity(left, right):
    return float(oracles.jaccard(*(oracles.shingle_set(TEXTS[each], 5) for each in (left, right))))


def count_steps(start, end):
    reached, steps = {start}, 0
    while end not in reached:
        reached |= {each for each in REMOVED | {"step 0"} if any(similarity(each, other) >= 0.8 for other in reached)}
        steps += 1
    return steps


def test_a_removed_document_has_a_chain_of_true_edges_to_the_one_kept(result):
    found = explain(result, "step 24")

    assert (found.fate, found.layer, found.kind) == ("removed", "near", "near")
    assert (found.representative_id, found.documents) == ("step 0", 8)
    links = [(pair.left_id, pair.right_id) for pair in found.chain]
    assert links[0][0] == "step 24"
    assert links[-1][1] == "step 0"
    assert all(one[1] == other[0] for one, other in pairwise(links))
    # Of the two equal texts the first by its hash was compared for both.
    assert links[-1][0] == "step 0 again"
    assert len(links) - 1 == count_steps("step 24", "step 0") > 2
    for pair in found.chain:
        assert pair.jaccard == pair.comparison.jaccard == similarity(pair.left_id, pair.right_id) >= 0.8
        assert pair.comparison.bands
    assert found.direct.jaccard == similarity("step 24", "step 0") < 0.8
    assert found.notes == ()


def test_a_comparison_counts_what_is_shared_and_names_the_bands_that_agree(result):
    found = explain(result, "step 4").direct
    one, other = (oracles.shingle_set(TEXTS[each], 5) for each in ("step 4", "step 0"))

    comparison = found.comparison
    assert (comparison.shared, comparison.left_only, comparison.right_only) == (
        len(one & other),
        len(one - other),
        len(other - one),
    )
    hashes = [
        oracles.shingle_hashes([oracles.token_hash(token, 1) for token in oracles.tokens(TEXTS[each])], 5)
        for each in ("step 4", "step 0")
    ]
    keys = [oracles.band_keys([v & 0xFFFFFFFF for v in oracles.signature(each, 180, 1)], 60, 3) for each in hashes]
    assert comparison.bands == tuple(n + 1 for n, (a, b) in enumerate(zip(*keys, strict=True)) if a == b)
    rows = [oracles.signature(each, 180, 1) for each in hashes]
    agree = "".join(str(int(a == b)) for a, b in zip(*rows, strict=True))
    assert comparison.rows == tuple(agree[3 * band : 3 * band + 3] for band in range(60))
    changed = [piece for piece in comparison.pieces if not piece.shared]
    assert [("".join(piece.left).split(), "".join(piece.right).split()) for piece in changed] == [
        ([f"new{n}" for n in range(4)], WORDS[:4])
    ]


def test_a_kept_document_has_the_closest_that_fell_short(result):
    found = explain(result, "pair a")

    assert (found.fate, found.documents, found.removed) == ("kept", 1, ())
    [near_miss] = found.near_misses
    assert (near_miss.right_id, near_miss.fate, near_miss.jaccard) == ("pair b", "kept", similarity("pair a", "pair b"))
    assert near_miss.verdict == f"Jaccard {similarity('pair a', 'pair b'):.4f} < 0.8"


def test_a_kept_document_lists_what_it_stands_for(result):
    found = explain(result, "step 0")

    assert {each.id for each in found.removed} == REMOVED
    assert {each.layer for each in found.removed} == {"near"}
    assert (found.removed[0].id, found.removed[0].jaccard) == ("step 24", similarity("step 24", "step 0"))
    assert found.near_misses == ()


def test_documents_that_nothing_resembles_say_so(result):
    assert explain(result, "other").near_misses == ()
    assert explain(result, "empty").notes == ("it has no token, and such a document is never a duplicate",)


def test_two_documents_say_what_they_have_to_do_with_each_other(result):
    apart = explain(result, "other", "step 8")
    assert apart.chain == ()
    assert apart.direct.fate == "removed, a duplicate of step 0"
    assert apart.direct.verdict == "Jaccard 0.0000 < 0.8; they share no band, as 100.00% of pairs so similar do not"

    joined = explain(result, "step 0 again", "step 24")
    assert [joined.chain[0].left_id, joined.chain[-1].right_id] == ["step 0 again", "step 24"]
    assert min(pair.jaccard for pair in joined.chain) >= 0.8

    same = explain(result, "step 0 again", "step 0").direct
    assert (same.jaccard, same.comparison.bands) == (1.0, tuple(range(1, 61)))


def test_the_list_has_the_largest_components_and_the_most_doubtful_removals(result):
    top = list_top(result, 2)

    [component] = top.largest
    assert (component.representative_id, component.documents) == ("step 0", 8)
    assert component.text == " ".join(WORDS)[:60]
    assert [each.id for each in top.longest] == ["step 24", "step 20"]
    assert top.longest[0].steps == len(explain(result, "step 24").chain)
    assert [each.id for each in top.least_similar] == ["step 24", "step 20"]
    assert "step 24  near   step 0" in to_tables(top)


def test_json_has_the_texts_whole(result):
    stored = json.loads(to_json(explain(result, "step 4")))

    pieces = stored["direct"]["comparison"]["pieces"]
    assert "".join(piece["left"] for piece in pieces) == TEXTS["step 4"]
    assert "".join(piece["right"] for piece in pieces) == TEXTS["step 0"]
    assert json.loads(to_json(list_top(result, 1)))["largest"][0]["documents"] == 8


def test_text_marks_differences_with_and_without_colour_and_lets_no_control_character_through(result):
    plain = to_text(explain(result, "step 4"), Style())
    assert "\nremoved        near, a duplicate of step 0\nlayer          near\n" in plain
    assert "\n    [-new0 new1 new2 new3-] {+word0 word1 word2 word3+} word4 " in plain
    assert "... 90 words ..." in plain
    assert max(len(line) for line in plain.splitlines() if "{+" in line) <= 100

    coloured = to_text(explain(result, "step 4"), Style(colour=True, width=60))
    assert "\033[31m[-new0\033[0m \033[31mnew1" in coloured
    uncoloured = coloured
    for code in ("\033[31m", "\033[32m", "\033[1m", "\033[0m"):
        uncoloured = uncoloured.replace(code, "")
    assert uncoloured.split() == plain.split()

    whole = to_text(explain(result, "other", "step 0"), Style(full=True))
    assert "\x1b" not in whole
    assert r"kind\x1b[31m," in whole
    assert "word99" in whole


@pytest.mark.parametrize("arguments", [("nobody",), ("other", "nobody")])
def test_an_unknown_id_is_answered_with_ids_that_there_are(result, arguments):
    option = "--id" if len(arguments) == 1 else "--with"
    with pytest.raises(DataError, match=rf"^{option}: must be the id .*\(got 'nobody'\); ids are those of column 'id'"):
        explain(result, *arguments)


@pytest.fixture
def altered(output, tmp_path):
    """Return a copy of the output, to be altered."""
    return shutil.copytree(output, tmp_path / "out")


@pytest.mark.parametrize("form", ["arrow", "orc", "text"])
def test_ids_of_input_whose_format_they_are_not_written_in_are_found(tmp_path, form):
    words = "one two three four five six seven"
    texts, folder = {"1": words, "2": words, "3": "another text"}, tmp_path / "in"
    folder.mkdir()
    if form == "text":
        for name, text in texts.items():
            (folder / f"{name}.txt").write_text(text)
    else:
        write = {"arrow": feather.write_feather, "orc": orc.write_table}[form]
        write(pa.table({"id": [*texts], "text": [*texts.values()]}), str(folder / f"rows.{form}"))
    named = {} if form == "text" else {"id_column": "id"}
    found = dedup.deduplicate(str(folder), tmp_path / "out", engine="memory", settings={"output.mode": "ids"}, **named)
    result = PublishedOutput(str(found.output))
    ids = {each: f"{folder}/{each}.txt" if form == "text" else each for each in texts}

    assert [explain(result, ids[each]).fate for each in texts] == ["kept", "removed", "kept"]
    with pytest.raises(DataError, match="must be the id of a document"):
        explain(result, "nobody")


def test_without_texts_the_chain_is_there_still(altered):
    settings = altered / "dedup.toml"
    settings.write_text(settings.read_text().replace('mode = "filter"', 'mode = "ids"'))
    shutil.rmtree(altered / "removed")
    [file] = (altered / "kept").glob("*.parquet")
    pq.write_table(pq.read_table(file).select(["id"]), file)

    found = explain(PublishedOutput(str(altered)), "step 24")
    assert found.chain[-1].right_id == "step 0"
    assert [pair.comparison for pair in found.chain] == [None] * len(found.chain)
    assert found.notes == ('texts are not compared: they are not in an output of mode "ids"',)
    assert explain(PublishedOutput(str(altered)), "other").fate == "kept"
    with pytest.raises(DataError, match="must be the id of a document"):
        explain(PublishedOutput(str(altered)), "nobody")


def test_a_changed_text_is_noticed(altered):
    [file] = (altered / "removed").glob("*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.set_column(1, "text", pa.array(["something else"] * table.num_rows)), file)

    [note] = explain(PublishedOutput(str(altered)), "step 24").notes
    assert "is not that of the texts" in note


def test_a_folder_that_is_no_output_is_refused(altered, tmp_path):
    (altered / "_SUCCESS").unlink()
    for path in (str(altered), str(tmp_path / "nowhere")):
        with pytest.raises(StorageError, match="must be the output of a finished run"):
            PublishedOutput(path)
    with pytest.raises(StorageError, match="must be on a local disk, s3, gs, abfs or hdfs"):
        PublishedOutput("nonsense://bucket/out")


@pytest.mark.parametrize("harm", ["cut", "zeros", "empty", "gone", "all gone"])
@pytest.mark.parametrize("name", ["report.json", "dedup.toml", "duplicates", "edges", "near_misses", "removed"])
def test_a_damaged_file_of_an_output_is_named(altered, capsys, name, harm):
    file = altered / name
    file = next(each for each in file.glob("*.parquet")) if file.is_dir() else file
    place, content = str(altered / name), file.read_bytes()
    file.write_bytes(content[: len(content) // 2] + (b"\xff" if harm == "cut" else bytes(len(content))))
    if harm == "empty":
        file.write_bytes(b"")
    if harm == "gone":
        file.unlink()
    if harm == "all gone" and (altered / name).is_dir():
        shutil.rmtree(altered / name)

    statuses = {cli.main([str(altered), *asked]) for asked in (["--id", "step 24"], ["--id", "other"], ["--top", "3"])}

    said = capsys.readouterr().err.splitlines()
    # No file of removed rows may be there, where none was removed; an empty one passes for none.
    assert said or (name == "removed" and harm not in {"cut", "zeros"})
    assert statuses <= {0, 2}
    assert all(line.startswith("dedup: ") and place in line for line in said)


def test_verdicts_name_what_kept_similar_documents_apart():
    config = Config()
    text = " ".join(WORDS)
    comparison = compare(config, UnicodeWords(), text, text + " end")
    apart, misjudged = replace(comparison, bands=()), replace(comparison, estimate=0.6)
    assert tell_verdict(config, 0.9, comparison, is_edge=True) == "Jaccard 0.9000 >= 0.8"
    assert "share no band, as 0.17% of pairs" in tell_verdict(config, 0.8, apart, is_edge=False)
    assert "estimate it as 0.60, below 0.65" in tell_verdict(config, 0.8, misjudged, is_edge=False)
    assert "more than 150 documents" in tell_verdict(config, 0.9, comparison, is_edge=False)
    assert "without a token" in tell_verdict(config, 0.0, compare(config, UnicodeWords(), text, "!"), is_edge=False)
    assert compare(load_config(None, None, ["mode=exact"]), UnicodeWords(), text, text).bands is None
    assert tell_verdict(config, None, None, is_edge=False).startswith("not recorded")


def test_rows_of_json_lines_are_found_by_their_digests(tmp_path):
    text = " ".join(WORDS)
    lines = [{"text": text, "n": 1, "made": "2020-01-01"}, {"text": text + " end", "n": None}, {"text": "alone\ttab"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [*lines, lines[2]]))
    run_in_memory(Job(inputs=[str(tmp_path / "in.jsonl")], output=str(tmp_path / "out"), config=load_config()))
    result = PublishedOutput(str(tmp_path / "out"))
    [near, equal] = sorted(result.duplicates.to_pylist(), key=lambda row: row["kind"] == "identical")

    found = explain(result, near["id"])
    assert found.direct.comparison.jaccard == float(Fraction(96, 97))
    assert explain(result, equal["id"]).copies == 1
    assert explain(result, equal["id"]).fate == "kept"
    with pytest.raises(DataError, match="the digests of rows"):
        explain(result, "nobody")


def test_the_command_answers_and_refuses(output, capsys):
    assert cli.main([str(output), "--id", "step 24"]) == 0
    assert capsys.readouterr().out == to_text(explain(PublishedOutput(str(output)), "step 24"), Style()) + "\n"
    assert cli.main([str(output), "--top", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["largest"]
    assert cli.main([str(output), "--id", "no\nbody"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("dedup: --id: must be the id of a document")


@pytest.mark.parametrize("arguments", [[], ["--id", "1", "--top", "2"], ["--top", "0"], ["--top", "2", "--with", "3"]])
def test_a_wrong_command_line_is_refused(arguments):
    with pytest.raises(SystemExit) as refused:
        cli.main(["out", *arguments])
    assert refused.value.code == 2


def test_the_command_needs_no_spark_and_ends_where_its_reader_does(output):
    command = [sys.executable, ROOT / "jobs" / "explain.py", output, "--id", "step 24"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={"JAVA_HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
    ) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "")


@pytest.fixture
def run_on(tmp_path):
    """Return what runs on rows of an integer id and a text, and gives the output."""

    def go(rows, *settings):
        source = tmp_path / "in.parquet"
        pq.write_table(pa.table({"id": [*rows], "text": [*rows.values()]}), source)
        config = load_config(None, None, ["input.id_column=id", *settings])
        run_in_memory(Job(inputs=[str(source)], output=str(tmp_path / "out"), config=config))
        return PublishedOutput(str(tmp_path / "out"))

    return go


@pytest.mark.parametrize("layer", ["near", "exact"])
def test_where_no_document_of_a_component_stays_it_is_told_what_it_resembles(run_on, layer):
    text = " ".join(WORDS)
    result = run_on({1: text, 2: text, 3: "another " + text, 4: "alone"}, "keep.drop=all", f"layers={layer}")
    of_near = layer == "near"

    found = explain(result, "3" if of_near else "1")

    assert found.documents == 2 + of_near
    assert (found.direct.left_id, found.direct.right_id) == ((3, 1) if of_near else (1, 2))
    assert found.direct.fate == f"removed by the layer {layer}"
    assert found.direct.verdict == (f"Jaccard {96 / 97:.4f} >= 0.8" if of_near else "layer exact: dropped")
    assert ", as all documents alike were" in to_text(found, Style())
    [component] = list_top(result, 5).largest
    assert (component.representative_id, component.documents, component.text) == (None, 2 + of_near, text[:60])
    assert to_tables(list_top(result, 5)).splitlines()[2].split()[:3] == [str(2 + of_near), "-", "1"]


@pytest.mark.parametrize("setting", ["cluster.linkage=representative", "keep.copies=2"])
def test_a_component_is_as_large_whoever_of_it_is_asked_for(run_on, setting):
    rows = {step: " ".join(WORDS[3 * step : 3 * step + 60]) for step in range(5)}
    result = run_on({**rows, 9: "alone"}, "threshold=0.75", setting)
    gone = {row["id"]: row["representative_id"] for row in result.duplicates.to_pylist()}

    found = [explain(result, str(each)) for each in rows]

    assert {(each.component_id, each.documents) for each in found} == {(0, 5)}
    assert explain(result, "9").documents == 1
    told = {each.id: each.stands_for for each in found if each.stands_for}
    assert told == {each: [*gone.values()].count(each) for each in gone.values()}
    assert len(gone) < 4
    assert all(f"stands for {told[each.id]} removed" in to_text(each, Style()) for each in found if each.id in told)


def test_the_size_of_a_component_by_vectors_is_told(tmp_path):
    rows = [{"id": step, "text": "some text"[step:], "vector": [10, 2 * step]} for step in range(5)]
    settings = {"threshold": 0.97, "guards": ["numbers"], "vector_column": "vector"}
    found = dedup.deduplicate(
        rows, tmp_path / "out", engine="memory", id_column="id", layers=["semantic"], settings={"semantic": settings}
    )
    result = PublishedOutput(str(found.output))

    assert {row["representative_id"] for row in result.duplicates.to_pylist()} > {0}
    assert {explain(result, str(each)).documents for each in range(5)} == {5}


def test_a_long_chain_takes_few_looks_at_the_edges(run_on, monkeypatch):
    words = [f"word{number}" for number in range(180)]
    rows = {step: " ".join(words[3 * step : 3 * step + 60]) for step in range(40)}
    result, looks = run_on(rows, "threshold=0.75", "cluster.linkage=representative"), []
    look = PublishedOutput.find_linked
    monkeypatch.setattr(PublishedOutput, "find_linked", lambda *given: looks.append(given) or look(*given))

    assert explain(result, "20").documents == 40
    assert len(looks) < 5


@pytest.mark.parametrize(
    ("setting", "removed"),
    [
        ("cluster.linkage=representative", {1: 0, 3: 2}),
        ("keep.copies=2", {2: 0, 3: 0, 4: 0}),
        ("keep.copies=5", {}),
    ],
)
def test_a_component_stands_once_in_the_list_and_with_each_document_that_stays(run_on, setting, removed):
    rows = {step: " ".join(WORDS[4 * step : 4 * step + 60]) for step in range(5)}
    result = run_on(rows | {9: "alone"}, setting)
    assert {row["id"]: row["representative_id"] for row in result.duplicates.to_pylist()} == removed

    listed = list_top(result, 5).largest
    found = [explain(result, str(step)) for step in rows]

    assert [(each.component_id, each.documents) for each in listed] == [(0, 5)] * bool(removed)
    assert {(each.component_id, each.documents) for each in found} == {(0, 5)}
    assert (explain(result, "9").component_id, explain(result, "9").documents) == (None, 1)
    for one, other in {0: 4, **removed}.items():
        chain = explain(result, str(one), None if one else str(other)).chain
        assert [abs(pair.left_id - pair.right_id) for pair in chain] == [1] * abs(one - other)


def test_a_document_that_a_layer_removes_by_itself_is_alone(run_on, tmp_path):
    quiz = tmp_path / "quiz.jsonl"
    quiz.write_text(json.dumps({"question": " ".join(WORDS[:20])}))
    sets = f'contamination.sets=["quiz:question:{quiz}"]'
    result = run_on({1: " ".join(WORDS), 2: "alone"}, "layers=contamination", sets)

    found = explain(result, "1")

    assert (found.documents, found.direct) == (1, None)
    assert "component" not in to_text(found, Style())


def test_a_document_that_a_layer_removes_by_itself_is_not_told_as_its_copies_are(run_on, tmp_path):
    quiz = tmp_path / "quiz.jsonl"
    quiz.write_text(json.dumps({"question": " ".join(WORDS[:20])}))
    sets = f'contamination.sets=["quiz:question:{quiz}"]'
    text = " ".join(WORDS)
    result = run_on({1: text, 2: text}, 'layers=["exact", "contamination"]', sets)

    found = explain(result, "1")

    assert (found.layer, found.direct) == ("contamination", None)
    assert "alike" not in to_text(found, Style()) + to_text(explain(result, "1", "2"), Style())


@pytest.mark.parametrize("mode", ["filter", "ids"])
def test_a_chain_leads_through_a_document_that_a_later_layer_removed(tmp_path, mode):
    texts = [" ".join(f"other{number}" for number in range(60)), *(" ".join([*WORDS, end]) for end in "ab")]
    urls = ["http://a.example/1", "http://a.example/1", "http://a.example/2"]
    pq.write_table(pa.table({"id": [0, 1, 2], "text": texts, "url": urls}), tmp_path / "in.parquet")
    settings = ["input.id_column=id", 'layers=["near", "url"]', "url.column=url", f"output.mode={mode}"]
    job = Job(
        inputs=[str(tmp_path / "in.parquet")], output=str(tmp_path / "out"), config=load_config(None, None, settings)
    )
    run_in_memory(job)
    result = PublishedOutput(str(tmp_path / "out"))

    found = explain(result, "2")

    assert [(pair.left_id, pair.right_id) for pair in found.chain] == [(2, 1), (1, 0)]
    assert found.chain[1].verdict == "layer url: url"
    assert "2 -> 1 -> 0" in to_text(found, Style())
    assert [(each.id, each.steps) for each in explain(result, "0").removed] == [(1, 0), (2, 0)]


def test_a_document_whose_like_went_with_nobody_kept_is_told_by_it(run_on, tmp_path):
    quiz = tmp_path / "quiz.jsonl"
    quiz.write_text(json.dumps({"question": " ".join(WORDS[20:33])}))
    sets = f'contamination.sets=["quiz:question:{quiz}"]'
    rows = {1: " ".join(WORDS), 2: " ".join([*WORDS[:25], "other", *WORDS[26:]])}
    result = run_on(rows, 'layers=["near", "contamination"]', sets)

    found = explain(result, "2")

    assert [(pair.left_id, pair.right_id) for pair in found.chain] == [(2, 1)]
    assert found.notes[0] == "1 was removed by the layer contamination: contaminated"


def test_a_text_equal_to_one_that_a_later_layer_removed_is_not_told_as_equal_to_the_one_kept(run_on):
    texts = [" ".join([*WORDS, end]) for end in "ab"]
    found = explain(run_on({0: texts[0], 1: texts[1], 5: texts[1]}, 'layers=["exact", "near"]'), "5")

    assert found.direct.verdict == "layer exact: equal, with it or with a document that a later layer removed for it"
    assert [(pair.left_id, pair.right_id) for pair in found.chain] == [(5, 1), (1, 0)]


def test_texts_without_a_token_that_are_equal_by_their_bytes_are_no_changed_ones(run_on):
    found = explain(run_on({1: "?!", 2: "?!"}, "layers=exact"), "2")

    assert (found.direct.verdict, found.notes) == ("layer exact: equal", ())


def test_a_document_of_another_corpus_is_told_by_its_own_id(run_on, tmp_path):
    text = " ".join(WORDS)
    pq.write_table(pa.table({"id": [15], "text": [text]}), tmp_path / "other.parquet")
    result = run_on({1: text, 2: "alone"}, f'input.without=["{tmp_path}/other.parquet"]')

    assert explain(result, "1").notes[0] == "-16 is document 15 of --without"


def test_integer_ids_are_asked_for_as_integers(altered):
    for file in (altered / "duplicates").glob("*.parquet"):
        table = pq.read_table(file)
        pq.write_table(table.set_column(0, "id", pa.array(range(table.num_rows), pa.int64())), file)

    with pytest.raises(ConfigError, match=r"--id: id must be an integer, as in .* \(got 'x'\)"):
        explain(PublishedOutput(str(altered)), "x")
    with pytest.raises(ConfigError, match=r"--id: id must be an integer, as in .* \(got '0x1'\)"):
        explain(PublishedOutput(str(altered)), "0x1")
    with pytest.raises(ConfigError, match=r"--id: must be a Unicode string \(got \"\udcff\"\)"):
        explain(PublishedOutput(str(altered)), "\udcff")
