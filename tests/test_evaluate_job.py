"""The command that evaluates settings, as a user runs it."""

import html
import json
import re
import subprocess
import sys
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.cli import main
from dedup.engine.sessions import MOST_ROWS
from dedup.errors import DedupError
from dedup.evaluate.dispatch import evaluate
from dedup.run.session import ROOT
from tests.engine.tables import settings
from tests.test_jobs import ROWS, assert_mistake
from tests.test_jobs import start as start_any

start = partial(start_any, program=(sys.executable, ROOT / "jobs" / "evaluate.py"))
start_without_java = partial(start, JAVA_HOME="/nonexistent", PATH="/usr/bin:/bin")


@pytest.fixture
def call(capsys, monkeypatch):
    """Return a function that runs the command in this process, where Spark cannot start."""
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")

    def act(*arguments):
        try:
            status = main(["evaluate", *arguments])
        except SystemExit as end:
            status = end.code
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return act


def test_the_command_prints_a_table_and_writes_the_answer_without_java(tmp_path):
    rows = [*ROWS, {"id": 4, "text": ROWS[0]["text"] + " \x1b[31m"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    output = tmp_path / "out put"

    done = start_without_java(
        *("--input", tmp_path / "in.parquet", "--id-column", "id", "--exact", "--output", output),
        *("--against", "lsh.bands=1", "--against", "lsh.rows=1", "--against", "threshold=1"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    answer = json.loads((output / "evaluation.json").read_text("utf-8"))
    assert [each["removed"]["count"] for each in answer["trials"].values()] == [3, 1]
    assert "removed by first only: 2, " in done.stdout
    page = (output / "evaluation.html").read_text("utf-8")
    assert page.count("<svg") == 2
    assert re.search(r"<title>Evaluation: [\d.]+% of \d+ duplicates found</title>", page)
    assert "measured</text>" in page
    shown = html.unescape(page[page.index("<pre") :])
    assert all(line in shown for line in done.stdout.split("\n\nwritten")[0].splitlines())
    assert "\x1b" not in page
    assert done.stdout.endswith(f"\nwritten      {output}/evaluation.html, evaluation.json\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--exact", "--set", "lsh.band=3"], ["--set: unknown key lsh.band"]),
        (["--exact", "--set", "mode=exact"], ['mode must be "lsh"']),
        (["--exact", "--layers", "exact,lines"], ["layers must name near to be evaluated (got exact,lines)"]),
        (["--exact", "--against", "shingles.shingle_size=3"], ["--against: shingles.shingle_size must be", "5 and 3"]),
        (["--exact", "--against", "threshold=0.8"], ["must differ"]),
        (["--exact", "--set", "input.table=t"], ["--input: must not be given where input.table is set ('t')"]),
        (["--exact", "--other-config", "/nonexistent/a.toml"], ["/nonexistent/a.toml: must be a readable file"]),
    ],
)
def test_a_mistake_in_the_settings_is_answered_before_spark_starts(call, arguments, words):
    assert_mistake(call("--input", "in.parquet", *arguments), *words)


def test_a_table_is_evaluated_as_its_files_are(call, spark, monkeypatch, tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "in.parquet")
    monkeypatch.setattr("dedup.cli.evaluate._evaluate_on_spark", partial(evaluate, spark))

    # As a session may have it, which takes no limit of rows.
    with settings(spark, **{MOST_ROWS: 0}):
        told = [
            call(*source, "--id-column", "id", "--exact", "--sample", "2").stdout
            for source in (("--table", f"parquet.`{tmp_path}/in.parquet`"), ("--input", str(tmp_path / "in.parquet")))
        ]
        assert spark.conf.get(MOST_ROWS) == "0"

    lines = [[line for line in each.splitlines() if "sample seconds" not in line] for each in told]
    assert "an edge" in told[0]
    assert lines[0] == lines[1]


def test_the_second_setting_is_its_own_beside_options_of_the_first(call, tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "in.parquet")
    (tmp_path / "other.toml").write_text("threshold = 0.6")
    asked = ("--input", tmp_path / "in.parquet", "--exact", "--threshold", "0.8", "--layers", "exact,near")

    for given, names in (
        (["--against", "threshold=0.5", "--against", "lsh.rows=2"], "threshold 0.5"),
        (["--other-config", tmp_path / "other.toml"], "threshold 0.6"),
        (["--other-config", tmp_path / "other.toml", "--against", "threshold=0.7"], "threshold 0.7"),
    ):
        done = call(*map(str, (*asked, *given)))

        assert (done.returncode, done.stderr) == (0, "")
        assert re.search(f"  21 x 6, threshold 0.8 .* {names}\n", done.stdout)
    assert_mistake(
        call(
            *map(str, asked), "--shingle-size", "5", "--against", "lsh.bands=9", "--against", "shingles.shingle_size=3"
        ),
        "--against: shingles.shingle_size must be that of the first",
    )


@pytest.mark.parametrize(("table", "is_delta"), [("Delta.`/data/pages`", True), ("db.delta", False)])
def test_spark_is_started_with_delta_lake_for_its_tables(call, monkeypatch, table, is_delta):
    def refuse(*, with_delta):
        raise DedupError(f"with Delta Lake: {with_delta}")

    monkeypatch.setattr("dedup.run.session.open_session", refuse)

    assert_mistake(call("--table", table, "--exact"), f"with Delta Lake: {is_delta}")


def test_spark_is_started_where_it_is_asked_for(tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "in.parquet")

    done = start_without_java("--input", tmp_path / "in.parquet", "--exact", "--set", "engine=spark")

    assert done.returncode == 2
    assert "Spark did not start" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--exact", "--planted", "5"],
        ["--planted", "0"],
        ["--exact", "--sample", "x"],
        ["--pairs", "labels.csv", "--sample", "5"],
        ["--exact", "--overwrite"],
    ],
)
def test_one_source_of_truth_is_asked_for(call, arguments):
    done = call("--input", "in.parquet", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"dedup: .* \(dedup evaluate --help tells more\)\n", done.stderr)
