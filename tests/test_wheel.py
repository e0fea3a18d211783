"""The wheel: what it holds, and that it works where there is nothing else of the project."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup import __version__, cli
from dedup.run.session import ROOT
from tests.classes import share_loops

PARTS = ("dedup", "conf", "pyproject.toml", "setup.py", "README.md")
ABSENT = """
import importlib.metadata
from importlib.machinery import PathFinder

NAMES = {names}
known, find = importlib.metadata.distribution, PathFinder.find_spec

def distribution(name):
    if name in NAMES:
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)

importlib.metadata.distribution = distribution
PathFinder.find_spec = lambda name, *rest: None if name in NAMES else find(name, *rest)
"""
"""What lets a Python be without some packages."""
SPARK, STORE = ("graphframes", "graphframes-py", "pandas", "pyspark"), ("deltalake",)
TEXT = " ".join(f"word{number}" for number in range(40))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build from a copy: what setuptools leaves beside the sources is not the checkout's."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder / "dist")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", *options, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [built] = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    share_loops(folder / "dedup")
    return folder


def run(unpacked, *arguments, before=""):
    """Run the module of this name there, with the packages of this environment and nothing of the checkout.

    Modules are looked for in the folder `before` first.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=unpacked.parent,
        encoding="utf-8",
        env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, [str(before), str(unpacked)]))},
    )


def leave_out(names, folder):
    """Let a Python that looks for modules in this folder first be without some packages."""
    (folder / "sitecustomize.py").write_text(ABSENT.replace("{names}", str(names)))


def assert_advice(line, wheel, extra):
    assert "scripts/setup adds" in line
    assert f"pip install '{wheel.name}[{extra}]'" in line


def test_the_wheel_holds_every_file_of_the_package_and_of_conf(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = [path.relative_to(ROOT) for path in (ROOT / "dedup").rglob("*") if path.is_file()]
    wanted = {str(path) for path in package if "__pycache__" not in path.parts}
    wanted |= {f"dedup/conf/{path.name}" for path in (ROOT / "conf").iterdir()}

    assert held == wanted
    assert {"dedup/py.typed", "dedup/conf/spark-local.conf", "dedup/kernels/text/unicode_classes.txt"} <= held


def test_the_wheel_has_the_version_and_the_command(unpacked):
    [found] = importlib.metadata.distributions(path=[str(unpacked)])

    assert (found.name, found.version) == ("corpus-dedup", __version__)
    assert [(entry.name, entry.value) for entry in found.entry_points] == [("dedup", "dedup.__main__:main")]
    about = found.metadata
    assert (about["Author"], about["Description-Content-Type"]) == ("The maintainers of corpus-dedup", "text/markdown")
    assert "Typing :: Typed" in about.get_all("Classifier")
    # What it leads to is not in the wheel.
    assert about.get_payload().startswith("# dedup\n")
    assert re.findall(r"<img|\]\((?!https?:)", about.get_payload()) == []
    assert re.search(r"^pip install \.", about.get_payload(), re.MULTILINE)


@pytest.mark.full
def test_the_command_runs_from_the_wheel_alone(unpacked, tmp_path):
    texts = [TEXT, "something else entirely", TEXT + " end"]
    pq.write_table(pa.table({"id": [1, 2, 3], "text": texts}), tmp_path / "in.parquet")
    arguments = ("--input", tmp_path / "in.parquet", "--output", tmp_path / "out", "--id-column", "id")

    done = run(unpacked, "-m", "dedup", "run", *arguments, "--engine", "memory", "--preset", "code")

    assert done.returncode == 0, done.stderr
    assert ds.dataset(tmp_path / "out" / "kept").to_table()["id"].to_pylist() == [1, 2]
    assert re.search(r"^near +1$", done.stdout, re.MULTILINE)
    explained = run(unpacked, "-m", "dedup", "explain", tmp_path / "out", "--id", "3")
    assert (explained.returncode, explained.stderr) == (0, "")


@pytest.mark.full
def test_without_the_packages_of_spark_all_but_spark_runs(wheel, unpacked, tmp_path):
    leave_out(SPARK, tmp_path)
    texts = [TEXT, "something else entirely", TEXT + " end"]
    pq.write_table(pa.table({"id": [1, 2, 3], "text": texts}), tmp_path / "in.parquet")
    dedup = partial(run, unpacked, "-m", "dedup", before=tmp_path)
    given = ("--input", tmp_path / "in.parquet", "--id-column", "id")

    assert run(unpacked, "-c", "import pyspark", before=tmp_path).returncode == 1
    for number, verb in enumerate(
        [("run",), ("run", "--store", tmp_path / "store", "--batch", "one"), ("evaluate", "--exact")]
    ):
        done = dedup(*verb, *given, "--output", tmp_path / str(number))
        assert done.returncode == 0, done.stderr
    for verb in (
        ("explain", tmp_path / "0", "--id", "3"),
        ("plan", "--documents", "1e6"),
        ("store", "check", tmp_path / "store"),
    ):
        done = dedup(*verb)
        assert done.returncode == 0, done.stderr
    for verb in (("run",), ("evaluate", "--exact")):
        done = dedup(*verb, *given, "--output", tmp_path / "refused", "--set", "engine=spark")
        assert done.returncode == 2
        [line] = done.stderr.splitlines()
        assert "engine spark: pyspark and pandas must be installed (got no pyspark and no pandas)" in line
        assert_advice(line, wheel, "spark")


def test_without_the_package_of_stores_all_but_stores_runs(wheel, unpacked, tmp_path):
    leave_out(STORE, tmp_path)
    for name, texts in {"old": [TEXT, "something else"], "new": [TEXT + " end"]}.items():
        pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), tmp_path / f"{name}.parquet")
    pairs = ("--against", tmp_path / "old.parquet", "--against", tmp_path / "new.parquet", "--id-column", "id")

    done = run(unpacked, "-m", "dedup", "compare", *pairs, before=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["old.parquet", "2", "0.0%", "50.0%"],
        ["new.parquet", "1", "100.0%", "0.0%"],
    ]
    done = run(unpacked, "-c", "from dedup import Match, lookup; lookup('gone', ['a'])", before=tmp_path)
    line = done.stderr.splitlines()[-1]
    assert line.startswith("dedup.errors.DedupError: gone: deltalake must be installed (got no deltalake); ")
    assert_advice(line, wheel, "store")


@pytest.mark.parametrize(
    "words",
    [
        "run --input in.jsonl --output out --store store --batch b",
        "store check store",
        "store migrate store --to new",
        "lookup store --input in.jsonl",
        "compare --against in.jsonl --against store",
    ],
)
def test_a_store_without_its_package_is_refused_in_a_line_before_anything_is_done(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"text": "a b c"}\n')
    given = ["--input", "in.jsonl", "--output", "first", "--store", "store", "--batch", "a", "--engine", "memory"]
    assert cli.main(["run", *given]) == 0
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "deltalake", None)

    assert cli.main(words.split()) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.match("dedup: (--store|store): deltalake must be installed", line)
    assert sorted(tmp_path.rglob("*")) == before


def test_spark_finds_its_settings_in_the_wheel(unpacked):
    code = "from dedup.run.session import LOCAL_CONF, LOG_CONF; print(LOCAL_CONF, LOG_CONF.exists())"

    assert run(unpacked, "-c", code).stdout == f"{unpacked}/dedup/conf/spark-local.conf True\n"


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help_of_its_own(verb, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([verb, "--help"])

    assert capsys.readouterr().out.startswith(f"usage: dedup {verb} [-h]")


def test_the_command_lists_its_verbs_and_refuses_others(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--help"])
    said = capsys.readouterr().out
    assert re.findall(r"^    ([a-z]+) ", said.partition("VERB\n")[2], re.MULTILINE) == list(cli.VERBS)
    assert {path.stem for path in Path(cli.__file__).parent.glob("*.py")} == {
        "__init__",
        "common",
        "process",
        *cli.VERBS,
    }

    with pytest.raises(SystemExit, match="2"):
        cli.main(["remove"])
    assert "VERB: must be one of run, plan, " in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["--input", "corpus"])
    assert "VERB must come first, as in dedup run --input ..." in capsys.readouterr().err
