"""Every command of the README and the docs as it stands, in a copy of the project with the corpus that they name."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.cli import main
from dedup.run.session import ENVIRONMENT, PACKAGE, ROOT
from tests.classes import share_loops
from tests.conftest import PROFILE
from tests.documented import find_commands

RUNS_THIS = {"scripts/test"}
MINUTE = ("scripts/submit", "site-packages")
"""What takes one, on a cluster or with thousands of files."""
WORDS = " ".join(f"word{number}" for number in range(60))
ROWS = [{"id": number, "text": f"{WORDS} {number // 2}"} for number in range(400)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Return a copy of what is tracked, set up, with the input that the commands name."""
    folder = tmp_path_factory.mktemp("project")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(lambda name: (ROOT / name).is_file(), listed.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    share_loops(folder / "dedup")
    for name in (".venv", "jars"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "corpus").mkdir()
    (folder / "corpus" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pq.write_table(pa.Table.from_pylist([{**row, "body": row["text"]} for row in ROWS]), folder / "part.parquet")
    first = next(each.text for each in find_commands() if "example" in each.text)
    assert type_in(folder, first) == 0
    return folder


def lend_archive(folder):
    """Give what a cluster needs, which takes a minute to pack, as this checkout has it."""
    subprocess.run([ROOT / "scripts" / "package"], check=True)
    (folder / "dist").mkdir(exist_ok=True)
    for name in (PACKAGE, ENVIRONMENT):
        # Newer than the copies of the sources, as if packed from them.
        shutil.copy(ROOT / "dist" / name, folder / "dist" / name)


def type_in(folder, text):
    """Return the status of a command, typed where Spark is installed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "PYTHON"))}
    path = f"{folder}/.venv/bin:{inherited['PATH']}"
    done = subprocess.run(["sh", "-euc", text], cwd=folder, env={**inherited, "PATH": path}, check=False, timeout=900)
    return done.returncode


def act(folder, text):
    """Return the status of a command, as `type_in`; `dedup` is called here where it is alone, for the imports."""
    for line in re.split(r"(?<!\\)\n", text):
        words = shlex.split(line.replace("\\\n", ""))
        status = type_in(folder, line) if words[0] != "scripts/dedup" or "|" in words else main(words[1:])
        if status:
            return status
    return 0


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(each, marks=pytest.mark.full if any(word in each.text for word in MINUTE) else ())
        for each in find_commands()
        if each.text not in RUNS_THIS
    ],
    ids=str,
)
def test_a_command_does_what_the_page_says(checkout, shown, monkeypatch):
    # Several write to one folder.
    text = shown.text.replace("\nspark-submit", "\nrm -r clean\nspark-submit")
    shutil.rmtree(checkout / "clean", ignore_errors=True)
    monkeypatch.chdir(checkout)
    if "scripts/submit" in text:
        lend_archive(checkout)

    assert (type_in if PROFILE == "full" else act)(checkout, text) == (2 if shown.refused else 0)
