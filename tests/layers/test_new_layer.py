"""A layer of a class and its settings, registered by a line, goes through the job as those of the house: copy it.

Of documents of one value of a column so many stay, the first by `keep.order`: two of every author, say.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dedup.cli import explain as explain_cli
from dedup.engine.engine import Shuffle, describe
from dedup.errors import ConfigError
from dedup.files.source import FileSource
from dedup.kernels.digests import digest_each
from dedup.kernels.runs.bounds import rank
from dedup.kernels.runs.groups import drop_repeated, join_groups
from dedup.layers import LAYERS
from dedup.layers.copies import KEYS, to_keys
from dedup.layers.layer import Found, Layer
from dedup.layers.ordering import ordered, rank_documents
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config, to_dict, to_toml
from dedup.settings.keeping import parse_order
from dedup.settings.rules import Range, Table
from dedup.tables import arrow
from tests.layers.tiny import TinyEngine
from tests.test_pipeline import rows

# The settings: a table [quota] with its defaults, which are checked by annotation and range.


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota(Table):
    """Layer "quota": of documents of one value of a column, so many stay."""

    column: str = ""
    """Column of the values; documents without one all stay."""

    documents: int = field(default=2, metadata={"range": Range(1)})
    """Documents that stay of each value, a 64-bit integer of at least 1."""


# The work, on Arrow batches: functions of a module, so that processes and Spark's tasks find them. What they are given
# besides is bound by `partial`, and small. Rows that are to meet have int64 columns for it.


def read_keys(batch, *, place):
    """Return the digest of each document's value; null without one."""
    values = pa.array((each[place] for each in batch["merged"].to_pylist()), pa.string())
    return to_keys(digest_each(values), values.is_null().to_numpy(zero_copy_only=False))


def leave_out_unkeyed(batches):
    """Leave out documents without a value."""
    for batch in batches:
        yield batch.filter(pc.is_valid(batch["key_high"]))


def remove_beyond(batches, *, most, schema):
    """Yield REMOVALS of groups of one key: documents beyond the first so many by their ranks."""
    # Equal rows, which share a document id, are one document.
    distinct = drop_repeated(batches, (*KEYS.names, "rank"))
    # Batches end anywhere; these end with a group.
    for batch in join_groups(distinct, KEYS.names):
        places = rank(*(batch[name].to_numpy() for name in KEYS.names))
        gone = np.flatnonzero(places >= most)
        first = batch["id"].take(pa.array(gone - places[gone]))
        columns = {
            "doc_id": batch["doc_id"].take(pa.array(gone)),
            "id": batch["id"].take(pa.array(gone)),
            "layer": pa.repeat("quota", gone.size),
            "kind": pa.repeat("beyond", gone.size),
            "representative_id": first,
            "component_id": first,
            "jaccard": pa.nulls(gone.size, pa.float64()),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


# The layer. Its class says what a run must know before it starts, `make` takes what it needs of the settings, `find` is
# the search: written once, on the verbs of `dedup.engine.engine.Engine`.


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLayer(Layer):
    """The layer with its settings."""

    name = "quota"
    table = Quota
    settings: Quota
    place: int
    """Place of the column among those that are read along."""
    rules: tuple
    """Rules of `keep.order`."""

    @classmethod
    def check(cls, config):
        if not config.of(Quota).column:
            raise ConfigError('quota.column: must name a column for the layer "quota" (got "")')

    @classmethod
    def list_columns(cls, config):
        return [("quota.column", config.of(Quota).column)]

    @classmethod
    def make(cls, setup):
        [place] = setup.places
        rules = parse_order(setup.config.keep.order)
        return cls(settings=setup.config.of(Quota), place=place, rules=rules)

    def find(self, engine):
        # One pass over the texts: REGISTER of every document, with columns of our own.
        documents = describe(engine, "documents", partial(read_keys, place=self.place), KEYS)
        schema = pa.schema([*ordered(engine.id_type), *KEYS])
        ranked = rank_documents(engine, engine.select(documents, *schema.names), schema, self.rules)
        removals = arrow.removals(engine.id_type)
        beyond = engine.group(
            "beyond",
            ranked,
            Shuffle(
                emit=leave_out_unkeyed,
                emitted=schema.append(pa.field("rank", pa.int64())),
                by=KEYS.names,
                order=["rank"],
                work=partial(remove_beyond, most=self.settings.documents, schema=removals),
                schema=removals,
                # A value of one document removes none, so an engine need not bring it.
                repeated=True,
            ),
        )
        # What report.json and its page say of the layer besides.
        details = {"documents_of_a_value": self.settings.documents, "beyond": engine.measure(beyond)["rows"]}
        return Found(documents=documents, removals=beyond, details=details)


# The registration: in the house, a line of `dedup.layers.LAYERS`.


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(LAYERS, "quota", f"{__name__}:QuotaLayer")


AUTHORS = ["ann", "ben", None, "\u00e9"]
ROWS = [
    {"id": f"d{n:02}", "text": f"text {n % 3}" * (1 + n % 2), "author": AUTHORS[n % 4], "lang": "de" if n % 3 else "en"}
    for n in range(40)
]
SETTINGS = {"layers": ["quota"], "quota.column": "author", "quota.documents": 3, "keep.order": ["longest"]}


def choose_gone(documents, most=3):
    """Return the ids that go, said once more in plain Python."""
    gone = []
    for author in filter(None, AUTHORS):
        own = [row for row in documents if row["author"] == author]
        own.sort(key=lambda row: (-len(row["text"].encode()), row["id"]))
        gone += [(row["id"], own[0]["id"]) for row in own[most:]]
    return sorted(gone)


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_same_however_rows_are_parted(seed):
    rules = parse_order(["longest"])
    engine = TinyEngine(
        [(row["id"], row["text"]) for row in [*ROWS, ROWS[4]]],
        pa.string(),
        seed=seed,
        partitions=1 + seed % 3,
        rules=rules,
        merged=[["other", row["author"]] for row in [*ROWS, ROWS[4]]],
    )

    found = QuotaLayer(settings=Quota(documents=3), place=1, rules=rules).find(engine)

    gone = found.removals.select(["id", "representative_id"]).to_pylist()
    assert sorted(tuple(row.values()) for row in gone) == choose_gone(ROWS)
    assert found.details["beyond"] == len(gone)


def make_job(folder, output, **settings):
    source = folder / "in"
    source.mkdir(exist_ok=True)
    schema = pa.schema([(name, pa.string()) for name in ROWS[0]])
    for number in range(2):
        pa.parquet.write_table(pa.Table.from_pylist(ROWS[number::2], schema), source / f"{number}.parquet")
    config = load_config(settings={"input.id_column": "id"} | SETTINGS | settings)
    return Job(inputs=[str(source)], output=str(folder / output), config=config)


def list_gone(folder, output):
    found = pa.dataset.dataset(folder / output / "duplicates").to_table()
    assert {*found["layer"].to_pylist()} == {"quota"}
    return sorted(zip(found["id"].to_pylist(), found["representative_id"].to_pylist(), strict=True))


def test_both_engines_write_the_same_though_interrupted_and_the_report_says_what_it_did(spark, tmp_path, monkeypatch):
    job = make_job(tmp_path, "spark")

    def fail(*_, **__):
        raise RuntimeError("pulled the plug")

    with monkeypatch.context() as patch:
        patch.setattr("dedup.output.result_tables.decide", fail)
        with pytest.raises(RuntimeError, match="pulled"):
            run(spark, job)
    # Nothing is searched again.
    with monkeypatch.context() as patch:
        patch.setattr(FileSource, "read", fail)
        patch.setattr("dedup.engine.file_corpus.Files.scan", fail)
        report = run(spark, job)
    told = [run_in_memory(make_job(tmp_path, "memory")), report]

    assert told[1]["search"] == "tasks"
    for name, report in zip(("memory", "spark"), told, strict=True):
        assert list_gone(tmp_path, name) == choose_gone(ROWS)
        assert report["kept"] + len(choose_gone(ROWS)) == len(ROWS)
        [layer] = report["layers"]
        assert layer["details"] == {"documents_of_a_value": 3, "beyond": layer["removed"]}
        assert "documents of a value" in (tmp_path / name / "report.html").read_text()
    assert rows(str(tmp_path / "memory"), "kept") == rows(str(tmp_path / "spark"), "kept")


def test_profiles_are_searched_apart_and_other_layers_follow(tmp_path):
    profiles = [{"name": "german", "when": {"lang": "de"}}]
    job = make_job(tmp_path, "out", profile=profiles, **{"layers": ["quota", "exact"], "keep.merge": ["langs:lang"]})

    report = run_in_memory(job)

    found = pa.dataset.dataset(tmp_path / "out" / "duplicates").to_table().to_pylist()
    gone = {row["id"] for row in found if row["layer"] == "quota"}
    apart = [[row for row in ROWS if (row["lang"] == "de") == is_german] for is_german in (True, False)]
    assert gone == {each for part in apart for each, _ in choose_gone(part)}
    assert {row["layer"] for row in found} == {"quota", "exact"}
    assert [each["layers"][0]["layer"] for each in report["profiles"]] == ["quota", "quota"]


def test_a_removal_is_explained(tmp_path, capsys):
    run_in_memory(make_job(tmp_path, "out"))
    gone, first = choose_gone(ROWS)[0]

    assert explain_cli.main([str(tmp_path / "out"), "--id", gone]) == 0

    said = capsys.readouterr().out
    assert "layer quota: beyond" in said
    assert first in said


def test_its_settings_are_read_checked_and_written(tmp_path):
    config = make_job(tmp_path, "out").config
    written = tmp_path / "settings.toml"
    written.write_text(to_toml(config))

    assert load_config(str(written)) == config
    assert to_dict(config)["quota"] == {"column": "author", "documents": 3}
    assert to_dict(load_config())["quota"] == {"column": "", "documents": 2}
    for settings, said in (
        ({"quota.colum": "x"}, r"unknown key quota\.colum \(did you mean quota\.column\?\)"),
        ({"quota.documents": 0}, r"quota\.documents must be a 64-bit integer of at least 1 \(got 0\)"),
        (
            {"layers": ["quotas"]},
            r'layers must be a list of some of url, .*, quota, each once \(got \["quotas"\]; did you mean quota\?\)',
        ),
    ):
        with pytest.raises(ConfigError, match=said):
            load_config(settings=settings)
    with pytest.raises(ConfigError, match=r"quota\.column: must name a column"):
        run_in_memory(make_job(tmp_path, "out", **{"quota.column": ""}))
