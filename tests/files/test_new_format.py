"""A format of one class, registered by one line, goes through the job as those of the house do: copy it for a new one.

The format is a JSON array of objects, a row each, in files `.array`: one unit, written as one.
"""

import json
from contextlib import contextmanager

import pyarrow as pa
import pytest

from dedup.api import deduplicate
from dedup.cli.run import parse_arguments
from dedup.errors import ConfigError, DataError
from dedup.explain.result import PublishedOutput
from dedup.files.formats import FORMATS
from dedup.files.formats.columnar import ColumnarFile, ColumnarFormat
from dedup.run.job import Job
from dedup.run.pairs import read_pairs
from dedup.settings.files import load_config
from tests.test_pipeline import make_texts

FILES = 3
TEXTS = [*make_texts(5, originals=12, copies=3), "", "short"]
ROWS = [{"name": f"id {n}", "text": text, "size": len(text) % 5} for n, text in enumerate(TEXTS)]


class JsonArray(ColumnarFormat):
    extensions = ("array",)

    def open(self, stream, file):
        del file
        return Array(stream.read())


class Array(ColumnarFile):
    unit_count = 1

    def __init__(self, content):
        try:
            self._rows = pa.Table.from_pylist(json.loads(content))
        except ValueError as error:
            raise pa.ArrowInvalid(error) from error
        self.schema = self._rows.schema

    def count_rows(self):
        return [self._rows.num_rows]

    def read(self, units, columns, batch_rows=None):
        del batch_rows
        return iter(self._rows.select(columns or self.schema.names).to_batches() if units else ())

    @contextmanager
    def write_like(self, stream, schema):
        del schema
        rows = []
        yield lambda table: rows.extend(table.to_pylist())
        stream.write(json.dumps(rows).encode())


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(FORMATS, "array", f"{__name__}:JsonArray")


def write(folder, kind):
    """Write the rows to files of one kind."""
    for number in range(FILES):
        path, rows = folder / "in" / f"{number}.{kind}", ROWS[number::FILES]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows) if kind == "array" else "".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "in")


def read(output, name, kind):
    """Return the rows of each file of a folder."""
    found = {}
    for path in sorted((output / name).rglob(f"*.{kind}")):
        text = path.read_text()
        found[path.stem] = json.loads(text) if kind == "array" else [json.loads(line) for line in text.splitlines()]
    return {name: rows for name, rows in found.items() if rows}


OPTIONS = {
    "filtered": [],
    "merged": ["keep.merge=['max:size']", "keep.order=['highest:size']"],
    "annotated": ["output.mode=annotate"],
    "cut": ["layers=['exact', 'passages']", "passages.tokens=10", "input.id_column="],
}
ENGINES = [
    *(("memory", name) for name in OPTIONS),
    # Its tasks read and write, whoever searches.
    ("spark", "cut"),
    *(pytest.param("tasks", name, marks=pytest.mark.full) for name in OPTIONS),
]


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_files_become_what_those_of_lines_become(options, engine, request, tmp_path):
    spark = None if engine == "memory" else request.getfixturevalue("spark")
    by_driver = [] if engine == "tasks" else ["driver.search_bytes=1_000_000_000"]
    config = load_config(None, None, ["input.id_column=name", *by_driver, *OPTIONS[options]])
    written = {}
    for kind in ("array", "jsonl"):
        output = tmp_path / kind
        own = spark if kind == "array" else None
        found = deduplicate(write(output, kind), output / "out", spark=own, config=config)
        assert found.report.to_dict()["search"] == ("tasks" if own and engine == "tasks" else "process")
        written[kind] = [read(output / "out", name, kind) for name in ("kept", "removed", "annotated")]

    assert any(written["array"])
    assert written["array"] == written["jsonl"]
    assert 0 < found.report.kept < len(ROWS)


@pytest.mark.parametrize("options", [["output.files=2"], ["output.mode=ids"]], ids=["packed", "ids"])
def test_rows_go_to_files_of_parquet_where_the_format_makes_none(options, tmp_path):
    config = load_config(None, None, ["input.id_column=name", *options])

    found = deduplicate(write(tmp_path, "array"), tmp_path / "out", config=config)

    assert found.kept.count_rows() == found.report.kept
    assert {path.suffix for path in (tmp_path / "out" / "kept").iterdir()} == {".parquet"}


def test_its_output_is_opened_explained_and_compared(tmp_path):
    found = deduplicate(write(tmp_path, "array"), tmp_path / "out", id_column="name")

    assert found.kept.count_rows() == found.report.kept
    assert found.removed.count_rows() == found.report.removed
    gone = found.duplicates.to_table().to_pylist()[0]["id"]
    assert PublishedOutput(str(tmp_path / "out")).find([gone]) == {gone: TEXTS[int(gone.split()[1])]}


def test_its_name_is_a_choice_of_commands_and_settings(tmp_path):
    options = parse_arguments(["--input", write(tmp_path, "array"), "--output", "out", "--format", "array"])
    config = load_config(settings={"input.format": options.format})

    assert config.input.format == "array"
    assert Job(inputs=options.input, output="out", config=config).config == config
    with pytest.raises(ConfigError, match='must be one of "input", "parquet", "jsonl", "csv" '):
        load_config(settings={"output.format": "array"})


class Creatable(JsonArray):
    can_create = True


def test_what_spark_does_not_write_is_refused_of_its_rows(monkeypatch, spark):
    monkeypatch.setitem(FORMATS, "array", f"{__name__}:Creatable")
    rows = spark.createDataFrame(ROWS)

    with pytest.raises(ConfigError, match=r"output\.format: must be parquet, jsonl, csv where .* \(got array\)"):
        deduplicate(rows, id_column="name", settings={"output.format": "array"})


def test_its_files_hold_labelled_pairs_too(tmp_path):
    pairs = [
        {"left_id": "a", "right_id": "b", "duplicate": True},
        {"left_id": "c", "right_id": "b", "duplicate": False},
    ]
    (tmp_path / "pairs.array").write_text(json.dumps(pairs))

    found = read_pairs(str(tmp_path / "pairs.array"), id_type=pa.string(), where="--pairs")

    assert found["duplicate"].to_pylist() == [True, False]


def test_a_damaged_file_is_named(tmp_path):
    source = write(tmp_path, "array")
    (tmp_path / "in" / "1.array").write_text("[{")

    with pytest.raises(DataError, match=r"in/1\.array cannot be read as array"):
        deduplicate(source, tmp_path / "out", id_column="name")
