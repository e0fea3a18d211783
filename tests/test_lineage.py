"""Events of runs and batches, held against what OpenLineage publishes of them."""

import http.server
import json
import re
import threading
import uuid
from contextlib import contextmanager
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup import Store, deduplicate
from dedup.errors import ConfigError, DataError
from dedup.run import lineage
from dedup.run.job import Job
from dedup.settings.files import load_config

TEXT = " ".join(f"word{number}" for number in range(40))
# OpenLineage 2-0-2 and its facets as openlineage.io/spec has them, said once more: the members of each object with
# their types, those required with an exclamation mark.
FACET = {"_producer!": "uri", "_schemaURL!": "uri"}
SPEC = {
    "RunEvent": {
        "eventType": {"START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"},
        "eventTime!": "date-time",
        "producer!": "uri",
        "schemaURL!": "uri",
        "run!": "Run",
        "job!": "Job",
        "inputs": ["InputDataset"],
        "outputs": ["OutputDataset"],
    },
    "Run": {"runId!": "uuid", "facets": {"errorMessage": "ErrorMessageRunFacet"}},
    "Job": {"namespace!": "string", "name!": "string", "facets": {}},
    "InputDataset": {
        "namespace!": "string",
        "name!": "string",
        "facets": {"schema": "SchemaDatasetFacet"},
        "inputFacets": {"inputStatistics": "InputStatisticsInputDatasetFacet"},
    },
    "OutputDataset": {
        "namespace!": "string",
        "name!": "string",
        "facets": {"schema": "SchemaDatasetFacet"},
        "outputFacets": {"outputStatistics": "OutputStatisticsOutputDatasetFacet"},
    },
    "SchemaDatasetFacet": FACET | {"fields": ["SchemaDatasetFacetFields"]},
    "SchemaDatasetFacetFields": {"name!": "string", "type": "string", "description": "string"},
    "InputStatisticsInputDatasetFacet": FACET | {"rowCount": "integer", "size": "integer", "fileCount": "integer"},
    "OutputStatisticsOutputDatasetFacet": FACET | {"rowCount": "integer", "size": "integer", "fileCount": "integer"},
    "ErrorMessageRunFacet": FACET | {"message!": "string", "programmingLanguage!": "string", "stackTrace": "string"},
}


def validate(value, rule):
    """Hold a value of JSON against a rule of the specification."""
    if isinstance(rule, set):
        assert value in rule
    elif isinstance(rule, list):
        for each in value:
            validate(each, rule[0])
    elif isinstance(rule, dict):
        members = {name.rstrip("!"): each for name, each in rule.items()}
        assert {name[:-1] for name in rule if name.endswith("!")} <= value.keys() <= members.keys()
        for name, each in value.items():
            validate(each, members[name])
    elif rule in SPEC:
        validate(value, SPEC[rule])
        url = value.get("_schemaURL", f"https://openlineage.io/spec/facets/1-0-0/{rule}.json#/$defs/{rule}")
        assert re.fullmatch(rf"https://openlineage\.io/spec/facets/\d-\d-\d/{rule}\.json#/\$defs/{rule}", url)
    else:
        PLAIN[rule](value)


def check_integer(value):
    assert type(value) is int


def check_string(value):
    assert type(value) is str


def check_time(value):
    assert datetime.fromisoformat(value).tzinfo is not None


def check_uuid(value):
    assert str(uuid.UUID(value)) == value


def check_uri(value):
    assert re.fullmatch(r"[a-z][a-z0-9+.-]*:\S+", value)


PLAIN = {
    "integer": check_integer,
    "string": check_string,
    "date-time": check_time,
    "uuid": check_uuid,
    "uri": check_uri,
}


def read(path):
    events = [json.loads(line) for line in path.read_text().splitlines()]
    for event in events:
        validate(event, "RunEvent")
        assert event["schemaURL"] == "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
    return events


def write(path, start=0):
    rows = {"id": [start, start + 1, start + 2], "text": [TEXT, TEXT, f"another {start}"]}
    pq.write_table(pa.table(rows), path)
    return str(path)


def named(datasets):
    return [each["name"].rpartition("/")[2] for each in datasets]


def test_a_run_tells_what_it_reads_and_has_written(tmp_path):
    path, events = write(tmp_path / "a.parquet"), tmp_path / "events.jsonl"
    other = write(tmp_path / "b.parquet", 7)
    deduplicate(path, tmp_path / "out", id_column="id", endpoint=str(events), without=[other])
    start, complete = read(events)

    assert [start["eventType"], complete["eventType"]] == ["START", "COMPLETE"]
    assert start["run"] == complete["run"]
    assert complete["job"] == {"namespace": "dedup", "name": "dedup.out"}
    assert named(start["inputs"]) == named(complete["inputs"]) == ["a.parquet", "b.parquet"]
    assert {each["namespace"] for each in complete["inputs"]} == {"file"}
    fields = [{"name": "id", "type": "int64"}, {"name": "text", "type": "string"}]
    assert complete["inputs"][0]["facets"]["schema"]["fields"] == fields
    assert complete["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert named(complete["outputs"]) == ["kept", "removed"]
    assert [each["facets"]["schema"]["fields"] for each in complete["outputs"]] == [fields, fields]
    assert [each["outputFacets"]["outputStatistics"]["rowCount"] for each in complete["outputs"]] == [1, 2]


@pytest.mark.parametrize(("mode", "rows"), [("filter", [3, 4]), ("annotate", [7])])
def test_rows_are_counted_where_several_are_a_document(tmp_path, mode, rows):
    pq.write_table(
        pa.table({"book": [1, 1, 1, 2, 2, 2, 2], "text": [TEXT] * 3 + [TEXT] * 3 + ["end"]}), tmp_path / "a.parquet"
    )
    settings = {"part_of": "book", "threshold": 0.7, "endpoint": str(tmp_path / "events.jsonl")}
    deduplicate(tmp_path / "a.parquet", tmp_path / "out", settings={"output.mode": mode}, **settings)
    _, complete = read(tmp_path / "events.jsonl")

    assert complete["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 7
    assert [each["outputFacets"]["outputStatistics"]["rowCount"] for each in complete["outputs"]] == rows


@pytest.mark.parametrize(("mode", "rows"), [("filter", 1), ("annotate", 3), ("ids", 1), ("weights", 3)])
def test_the_rows_of_a_table_are_those_of_its_mode(mode, rows):
    settings = {"input.table": "db.pages", "output.table": "db.clean", "output.mode": mode}
    told = lineage.Told(job=Job(inputs=[], output="out", config=load_config(settings=settings)), store="")

    [written] = told.list_outputs({"kept": 1, "removed": 2, "parts": None})
    assert written["name"] == "db.clean"
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == rows


def test_a_batch_tells_of_its_store_and_a_failure_of_its_cause(tmp_path):
    events, store = tmp_path / "events.jsonl", Store(tmp_path / "store")
    store.add(write(tmp_path / "a.parquet"), "a", tmp_path / "out", id_column="id", endpoint=str(events), job="nightly")
    with pytest.raises(DataError):
        store.add(write(tmp_path / "b.parquet", 2), "b", tmp_path / "b", id_column="id", endpoint=str(events))
    told = read(events)

    assert [each["eventType"] for each in told] == ["START", "COMPLETE", "START", "FAIL"]
    assert [each["job"]["name"] for each in told] == ["nightly", "nightly", "dedup.b", "dedup.b"]
    assert named(told[1]["inputs"]) == ["a.parquet", "store"]
    assert named(told[1]["outputs"]) == ["kept", "removed", "store"]
    assert "must hold ids that the store has not" in told[3]["run"]["facets"]["errorMessage"]["message"]
    assert told[3]["outputs"] == []


@contextmanager
def serve(status):
    """Serve an address; yield it, and what it has been sent."""
    received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Authorization"], json.loads(content)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_address_is_sent_each_event_and_the_token(tmp_path, monkeypatch):
    monkeypatch.setenv(lineage.API_KEY, "secret")
    with serve(201) as (address, received):
        deduplicate(write(tmp_path / "a.parquet"), id_column="id", endpoint=address)

    assert [(path, token, event["eventType"]) for path, token, event in received] == [
        ("/api/v1/lineage", "Bearer secret", "START"),
        ("/api/v1/lineage", "Bearer secret", "COMPLETE"),
    ]


def test_an_address_that_refuses_ends_no_run(tmp_path, caplog):
    with serve(500) as (address, _):
        report = deduplicate(write(tmp_path / "a.parquet"), id_column="id", endpoint=address).report

    assert report.kept == 2
    assert "left out of the report: lineage" in caplog.text


@pytest.mark.parametrize("endpoint", ["ftp://host/events", "s3://bucket/events", "HTTP://host/api/v1/lineage"])
def test_an_address_of_another_scheme_is_refused(endpoint):
    with pytest.raises(ConfigError, match=r"endpoint must be a local file or an address of http:// or https:// \(got "):
        load_config(settings={"lineage.endpoint": endpoint})


def test_nothing_is_told_where_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.setattr(lineage, "send", lambda *_: pytest.fail("sent"))
    assert deduplicate(write(tmp_path / "a.parquet"), id_column="id").report.kept == 2
