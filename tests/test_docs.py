"""What the README says is what the job does."""

import json
import re

import pyarrow.dataset as ds
import pytest

from dedup.config import load_config, to_dict
from dedup.kernels.lsh import probability
from dedup.pipeline import run
from dedup.run import Job
from dedup.session import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def table_after(words: str) -> list[list[str]]:
    """Return the cells of the first table after the words, without its head."""
    lines = README[README.index(words) :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    rows = [line for line in lines[start + 1 : start + 30] if line.startswith("|") or not line]
    taken = rows[: rows.index("")] if "" in rows else rows
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in taken]


def test_the_five_rows_come_out_as_shown(spark, tmp_path):
    documents = [
        {"id": int(number), "text": text} for number, text in table_after("gives the same answer on every run")
    ]
    assert len(documents) == 5
    source = tmp_path / "five.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in documents))
    config = load_config(None, None, ["input.id_column=id"])
    run(spark, Job(inputs=[str(source)], output=str(tmp_path / "out"), config=config))

    def rows(name: str, **options: str) -> list[dict]:
        return ds.dataset(str(tmp_path / "out" / name), **options).to_table().to_pylist()

    def shown(name: str) -> list[list[str]]:
        return sorted([str(cell) for cell in row.values()] for row in rows(name))

    assert shown("edges") == table_after("`edges`: pairs")
    assert shown("duplicates") == table_after("`duplicates`: what is removed")
    assert sorted(row["id"] for row in rows("kept", format="json")) == [1, 4, 5]


def test_the_curve_is_that_of_the_defaults():
    lsh = load_config().lsh
    head, cells = re.search(r"\| Jaccard \| (0\.2.*?) \|\n.*\n\| probability \| (.*?) \|\n", README).groups()
    computed = [f"{probability(float(each), lsh.bands, lsh.rows):.4f}" for each in head.split(" | ")]
    assert computed == cells.split(" | ")


def test_settings_are_named_with_their_defaults():
    defaults = to_dict(load_config())
    for keys, values, _ in table_after("The ones that matter"):
        for key, value in zip(keys.split(", "), values.split(", "), strict=True):
            table, _, name = key.rpartition(".")
            assert str((defaults[table] if table else defaults)[name]) == value


@pytest.mark.parametrize("command", sorted(set(re.findall(r"scripts/[a-z]+|conf/[a-z.-]+|jobs/[a-z.]+", README))))
def test_what_is_named_is_there(command):
    assert (ROOT / command.rstrip(".")).exists()


def test_every_script_is_listed():
    listed = (ROOT / "scripts" / "README.md").read_text("utf-8")
    scripts = {path.name for path in (ROOT / "scripts").iterdir() if path.suffix != ".md"}
    assert scripts == set(re.findall(r"^\| `scripts/([a-z]+)", listed, re.MULTILINE))
