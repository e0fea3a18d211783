"""The command as a user runs it: what it prints, where, and with which exit code.

A start of Spark takes seconds, so what one start can show stands in one test; what needs no process has none.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup import __version__
from dedup.cli.run import main
from dedup.run import session
from dedup.run.session import LOCAL_CONF, ROOT

JOB = ROOT / "jobs" / "deduplicate.py"
TEXT = " ".join(f"word{number}" for number in range(40))
ROWS = [
    {"id": 10, "text": TEXT},
    {"id": 9, "text": TEXT + " end"},
    {"id": 8, "text": TEXT.upper() + " END!"},
    {"id": 7, "text": "something else entirely"},
    {"id": 6, "text": ""},
    {"id": 5, "text": None},
]


def start(*arguments, program=(sys.executable, JOB), cwd=None, umask=-1, **environment):
    """Run the job as from a user's shell, without what the tests' own environment adds."""
    taken = ("PYTHONPATH", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_HOME", "PYTHONWARNINGS")
    inherited = {name: value for name, value in os.environ.items() if name not in taken}
    return subprocess.run(
        [*map(str, program), *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=cwd,
        encoding="utf-8",
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        timeout=300,
        umask=umask,
    )


def start_without_java(*arguments):
    """Run the job where Spark cannot start: an answer other than that came before."""
    return start(*arguments, JAVA_HOME="/nonexistent", PATH="/usr/bin:/bin")


@pytest.fixture
def call(capsys):
    """Return a function that runs the job in this process."""

    def act(*arguments):
        status = main([*map(str, arguments)])
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    handler = signal.getsignal(signal.SIGTERM)
    yield act
    signal.signal(signal.SIGTERM, handler)


def assert_mistake(done, *words, status=2):
    assert done.returncode == status
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("dedup: ")
    for word in words:
        assert word in line


def read(output, name):
    return sorted(ds.dataset(output / name).to_table().to_pylist(), key=repr)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("input") / "in put.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


@pytest.fixture(scope="module")
def output(source, tmp_path_factory):
    """Return the output of a run that went well, having looked at what it said."""
    output = tmp_path_factory.mktemp("output") / "out put"
    done = start("--input", source.name, "--output", output, "--id-column", "id", cwd=source.parent, umask=0o027)
    assert done.stderr == ""
    assert done.returncode == 0
    table = dict(re.findall(r"^(\w[\w ]*?) {2,}([\d,]+)$", done.stdout.partition("\nstage ")[0], re.MULTILINE))
    headline = ("documents", "kept", "identical", "near", "components")
    assert [table[name] for name in headline] == ["6", "4", "1", "1", "1"]
    report = json.loads((output / "report.json").read_text("utf-8"))
    for name, measured in report["stages"].items():
        assert re.search(rf"^{name} +{measured['rows']:,} +{measured['seconds']:.1f}$", done.stdout, re.MULTILINE)
    took = {
        name: float(each) for name, each in re.findall(r"^(start|report|all) +([\d.]+)$", done.stdout, re.MULTILINE)
    }
    stages = sum(measured["seconds"] for measured in report["stages"].values())
    assert took["start"] == pytest.approx(report["start_seconds"], abs=0.051)
    assert took["start"] > 0
    assert took["all"] >= report["seconds"] - 0.05
    assert took["all"] == pytest.approx(took["start"] + stages + took["report"], abs=0.2)
    assert abs(time.time() - datetime.fromisoformat(report["begun"]).timestamp()) < 300
    assert done.stdout.endswith(f"\nresult   {output}\nreport   {output}/report.html, report.json\n")
    assert not (output.parent / f"{output.name}.partial").exists()
    return output


def test_a_run_leaves_what_it_says(output):
    assert [row["id"] for row in read(output, "kept")] == [5, 6, 7, 8]
    assert [(row["id"], row["representative_id"], row["kind"]) for row in read(output, "duplicates")] == [
        (10, 8, "near"),
        (9, 8, "identical"),
    ]
    assert {"report.html", "dedup.toml", "edges"} <= {path.name for path in output.iterdir()}


def modes(folder):
    """Return the rights of all files, and those of all folders."""
    found = [folder, *folder.rglob("*")]
    return tuple({path.stat().st_mode & 0o777 for path in found if path.is_dir() == kind} for kind in (False, True))


def test_files_have_the_rights_that_the_umask_leaves(output):
    assert modes(output) == ({0o640}, {0o750})


@pytest.mark.full
def test_spark_submit_from_elsewhere_gives_the_same_result(source, output, tmp_path):
    submit = (Path(sys.executable).with_name("spark-submit"), "--properties-file", LOCAL_CONF, JOB)
    # Workers run the first python3 of the path unless told otherwise.
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    arguments = ("--input", source, "--output", "out", "--id-column", "id")
    done = start(*arguments, program=submit, cwd=tmp_path, umask=0o077, **python)

    # What spark-submit itself says on stderr is not the job's to silence.
    assert done.returncode == 0
    assert "\nengine   spark, searched by its driver\nresult   out\n" in done.stdout
    for name in ("kept", "duplicates", "edges"):
        assert read(tmp_path / "out", name) == read(output, name)
    assert modes(tmp_path / "out") == ({0o600}, {0o700})


def test_a_breach_ends_the_job_with_a_status_of_its_own(call, source, output, tmp_path):
    limits = ("--set", "alerts.removal_rate_above=0.1", "--set", "alerts.on_breach=fail")

    done = call("--input", source, "--output", tmp_path / "out", "--id-column", "id", "--baseline", output, *limits)

    assert_mistake(done, "removal_rate is 0.333333, above its limit of 0.1", f"{tmp_path}/out.partial/report", status=3)
    assert not (tmp_path / "out").exists()
    assert "1 alert" in (tmp_path / "out.partial" / "report" / "report.html").read_text()


def test_an_unknown_column_is_answered_with_those_there_are(call, source, tmp_path):
    done = call("--input", source, "--output", tmp_path / "out", "--text-column", "body")

    assert_mistake(done, "text_column", "'body'", "put.parquet has id, text")


def test_what_a_corpus_holds_does_not_command_the_terminal(call, tmp_path):
    pq.write_table(pa.table({"\x1b[31mred\n": ["a"]}), tmp_path / "in.parquet")

    done = call("--input", tmp_path / "in.parquet", "--output", tmp_path / "out")

    assert_mistake(done, "text_column", r"\x1b[31mred\n")
    assert "\x1b" not in done.stderr


def test_an_existing_output_is_refused_and_untouched(call, source, output):
    before = read(output, "kept")

    done = call("--input", source, "--output", output, "--id-column", "id")

    assert_mistake(done, f"--output {output}: must not exist yet", "--overwrite")
    assert read(output, "kept") == before


def test_an_input_that_is_missing_is_refused(call, tmp_path):
    done = call("--input", tmp_path / "none.parquet", "--output", tmp_path / "out")

    assert_mistake(done, f"--input {tmp_path}/none.parquet", "it does not exist")


def test_an_empty_folder_is_refused(call, tmp_path):
    (tmp_path / "in").mkdir()

    done = call("--input", tmp_path / "in", "--output", tmp_path / "out", "--format", "parquet")

    assert_mistake(done, f"--input {tmp_path}/in", "it has no file to read")


def test_an_input_of_no_rows_is_refused(call, tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS).slice(0, 0), tmp_path / "in.parquet")

    done = call("--input", tmp_path / "in.parquet", "--output", tmp_path / "out", "--id-column", "id")

    assert_mistake(done, "--input", "must hold at least one document")
    assert not (tmp_path / "out").exists()


@pytest.mark.full
def test_a_fault_is_shown_with_its_traceback(source, tmp_path):
    done = start(
        "--input",
        source,
        "--output",
        tmp_path / "out",
        "--id-column",
        "id",
        "--engine",
        "spark",
        PYSPARK_PYTHON="/bin/false",
    )

    assert done.returncode == 1
    assert done.stdout == ""
    assert "\nTraceback (most recent call last):\n" in f"\n{done.stderr}"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "lsh.band=3"], ["--set: unknown key lsh.band", "did you mean lsh.bands?"]),
        (["--set", "threshold=80"], ["threshold must be", "(got 80)"]),
        (["--preset", "nonsense"], ["--preset: name must be one of", '"code"', '(got "nonsense")']),
        (["--config", "/nonexistent/a.toml"], ["/nonexistent/a.toml: must be a readable file"]),
    ],
)
def test_a_mistake_in_the_settings_is_answered_before_spark_starts(call, monkeypatch, arguments, words):
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert_mistake(call("--input", "in.parquet", "--output", "out", *arguments), *words)


def test_without_java_one_line_says_that_spark_did_not_start(source, tmp_path):
    done = start_without_java("--input", source, "--output", tmp_path / "out", "--set", "engine=spark")

    assert_mistake(done, "Spark did not start", "/nonexistent/bin/java: No such file", "needs Java 17 to")


def test_a_java_that_does_not_serve_is_one_line_that_names_what_does(source, tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for release, version in {26: "26", 11: "11.0.2", 8: "1.8.0_392"}.items():
        java.write_text(f'#!/bin/sh\necho \'openjdk version "{version}" 2030-01-01\' >&2\n[ "$1" = -version ]\n')
        java.chmod(0o755)
        assert (session._find_java(), session._serves(release)) == (release, False)

    done = start("--input", source, "--output", tmp_path / "out", "--set", "engine=spark")

    assert_mistake(done, "needs Java 17 to 2", "set JAVA_HOME", "(got Java 8)")


def test_the_version_and_the_help_need_no_spark():
    done = start_without_java("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dedup {__version__}\n", "")

    done = start_without_java("--help")
    assert (done.returncode, done.stderr) == (0, "")
    given = re.findall(r"^  (--[a-z-]+)", done.stdout, re.MULTILINE)
    assert {"--input", "--output", "--format", "--id-column", "--text-column", "--config", "--preset"} < set(given)
    assert {"--set", "--baseline", "--mode", "--overwrite", "--version", "--log-level"} < set(given)


def test_a_wrong_option_is_a_users_mistake():
    done = start_without_java("--input", "in.parquet", "--output", "out", "--colour")

    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "dedup: unknown option --colour; did you mean --set url.column=VALUE? (dedup run --help tells more)\n"
    )
