"""Sets of prompts, read from files of any format."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.errors import ConfigError, SchemaError, StorageError
from dedup.layers.contamination import Contamination, ContaminationLayer
from dedup.layers.prompts import parse_sets, read_prompts
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config


@pytest.fixture
def folder(tmp_path):
    lines = [{"q": {"text": "one"}}, {"q": {"text": None}}, {"q": {"text": "three"}}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    pq.write_table(pa.table({"question": ["four", "five"]}), tmp_path / "b.parquet")
    return tmp_path


def read(*entries):
    return read_prompts(parse_sets(entries, "contamination"))


def test_items_are_numbered_within_their_set(folder):
    found = read(f"lines:q.text:{folder}/a.jsonl", f"table:question:{folder}/b.parquet")
    assert found.texts.to_pylist() == ["one", None, "three", "four", "five"]
    assert [found.name(number) for number in range(5)] == ["lines:0", "lines:1", "lines:2", "table:0", "table:1"]


def test_without_sets_there_is_no_prompt():
    assert len(read().texts) == 0


@pytest.mark.parametrize(
    ("entry", "error", "said"),
    [
        ("a:question:{folder}/none.jsonl", StorageError, "contamination.sets: a: "),
        (
            "a:answer:{folder}/b.parquet",
            SchemaError,
            "contamination.sets: a: must be the name of one column of the",
        ),
    ],
)
def test_what_cannot_be_read_is_said_of_its_set(folder, entry, error, said):
    with pytest.raises(error) as caught:
        read(entry.format(folder=folder))
    assert str(caught.value).startswith(said)
    assert "--input" not in str(caught.value)


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["a:b"], "Contamination: sets must have entries NAME:COLUMN:PATH (got 'a:b')"),
        (["a::c"], "Contamination: sets must have entries NAME:COLUMN:PATH (got 'a::c')"),
        (["a:b:c", "a:d:e"], "Contamination: sets must have names of their own (got a, a)"),
    ],
)
def test_a_wrong_entry_is_refused(sets, said):
    with pytest.raises(ConfigError) as caught:
        Contamination(sets=sets)
    assert str(caught.value) == said


def test_a_path_may_have_colons():
    assert parse_sets(["a:b:s3://x/y"], "contamination")[0].path == "s3://x/y"


def test_a_set_that_changes_is_no_longer_the_same(folder):
    config = load_config(settings={"contamination.sets": [f"a:q.text:{folder}/a.jsonl"]})
    [only] = ContaminationLayer.list_references(config)
    before = only.list_files().fingerprint
    assert only.list_files().fingerprint == before
    with (folder / "a.jsonl").open("a") as file:
        file.write('{"q": {"text": "four"}}\n')
    assert only.list_files().fingerprint != before
    assert (only.setting, only.name) == ("contamination.sets", "a")


def test_an_output_over_a_set_is_refused(folder):
    config = load_config(
        settings={"layers": ["contamination"], "contamination.sets": [f"a:question:{folder}/b.parquet"]}
    )
    with pytest.raises(StorageError, match="must lie apart"):
        run_in_memory(Job(inputs=[f"{folder}/a.jsonl"], output=str(folder), config=config))
