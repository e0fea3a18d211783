"""Lineage of runs and batches: OpenLineage's events of what was read and written [1]_, to a file or an HTTP address.

References
----------
.. [1] https://openlineage.io/docs/spec/object-model, version 2-0-2.
"""

import json
import os
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dedup.display import hide_secrets
from dedup.errors import FinishedError
from dedup.files.listing import list_files
from dedup.files.systems import absolute, split_url
from dedup.informing import Inform
from dedup.run.job import Job
from dedup.run.reading import open_dataset
from dedup.settings.options import ROWS
from dedup.version import __version__

if TYPE_CHECKING:
    from dedup.run.execution import Work

PRODUCER = f"urn:corpus-dedup:{__version__}"
"""Name of this package and release as the producer of events, a URI as the specification asks for."""
SPEC = "https://openlineage.io/spec"
EVENT = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACETS = {
    "schema": "1-1-1/SchemaDatasetFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
}
"""Versions of facets."""
API_KEY = "OPENLINEAGE_API_KEY"
"""Variable of the environment with the token of an address, as OpenLineage's own clients read it."""
SECONDS = 5.0
"""Patience with an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Run of which events tell."""

    job: Job
    store: str
    """Empty without a store."""
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def send(self, kind: str, report: Mapping[str, Any] | None = None, error: BaseException | None = None) -> None:
        """Send an event.

        Parameters
        ----------
        kind
            START, COMPLETE, FAIL or ABORT.
        report
            Content of report.json, of a run that has published its output.
        """
        settings = self.job.config.lineage
        facets = {}
        if error is not None:
            facets["errorMessage"] = _make_facet(
                "errorMessage", message=hide_secrets(str(error) or type(error).__name__), programmingLanguage="Python"
            )
        output = self.job.output.rstrip("/").rpartition("/")[2]
        event = {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(),
            "run": {"runId": self.run_id, "facets": facets},
            "job": {"namespace": settings.namespace, "name": settings.job or f"dedup.{output}"},
            "inputs": self.list_inputs(report),
            "outputs": [] if report is None else self.list_outputs(report),
            "producer": PRODUCER,
            "schemaURL": EVENT,
        }
        send(settings.endpoint, event)

    def list_inputs(self, report: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """Return the datasets that a run reads, its input first, with the documents that it had."""
        config, job = self.job.config, self.job
        if job.has_table:
            tables = [config.input.table, *config.input.without]
            return [{"namespace": "catalog", "name": name} for name in tables if name]
        found = [name_dataset(path) | _describe(partial(_read_schema, path)) for path in job.inputs]
        if report is not None and len(found) == 1:
            counted = _make_facet("inputStatistics", rowCount=sum(_count_rows(report).values()))
            found[0]["inputFacets"] = {"inputStatistics": counted}
        return [*found, *map(name_dataset, [*config.input.without, *filter(None, [self.store])])]

    def list_outputs(self, report: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the datasets that a run has written, each with its rows."""
        config, output = self.job.config, self.job.output.rstrip("/")
        counts = _count_rows(report)
        if config.output.table:
            names = ROWS[config.output.mode][:1]
            found: list[dict[str, Any]] = [{"namespace": "catalog", "name": config.output.table}]
        else:
            names = tuple(name for name in ROWS[config.output.mode] if name != "removed" or report["removed"])
            schemas = [_describe(partial(_read_output, output, name)) for name in names]
            found = [name_dataset(f"{output}/{name}") | each for name, each in zip(names, schemas, strict=True)]
        for each, name in zip(found, names, strict=True):
            counted = _make_facet("outputStatistics", rowCount=counts.get(name, sum(counts.values())))
            each["outputFacets"] = {"outputStatistics": counted}
        return [*found, *map(name_dataset, filter(None, [self.store]))]


def _count_rows(report: Mapping[str, Any]) -> dict[str, int]:
    """Return the rows kept and removed, of which a document may have several."""
    counts: Mapping[str, int] = report["parts"] or report
    return {name: counts[name] for name in ("kept", "removed")}


def name_dataset(path: str) -> dict[str, Any]:
    """Return the namespace and name of a place, as OpenLineage has them for files and object stores.

    >>> name_dataset("s3://bucket/corpus/a.parquet")
    {'namespace': 's3://bucket', 'name': 'corpus/a.parquet'}
    >>> name_dataset("/data/corpus")
    {'namespace': 'file', 'name': '/data/corpus'}
    """
    scheme, rest = split_url(absolute(path))
    if not scheme:
        return {"namespace": "file", "name": rest}
    host, _, name = hide_secrets(f"{scheme}://{rest}").partition("://")[2].partition("/")
    return {"namespace": f"{scheme}://{host}", "name": name or "/"}


def _read_schema(path: str) -> pa.Schema:
    """Return the schema of the first file of an input; of CSV and JSON lines that which Arrow infers."""
    first, *_ = list_files([path]).files
    return first.format.open_dataset([first]).schema


def _read_output(output: str, name: str) -> pa.Schema:
    return open_dataset(output, name, "").schema


def _describe(read: Callable[[], pa.Schema]) -> dict[str, Any]:
    """Return the facet of a schema; nothing where it cannot be read, as a file may be gone or have no column."""
    try:
        fields = [{"name": each.name, "type": str(each.type)} for each in read()]
    except Exception:  # noqa: BLE001 - what only informs ends no run
        return {}
    return {"facets": {"schema": _make_facet("schema", fields=fields)}}


def _make_facet(name: str, **values: object) -> dict[str, Any]:
    number, _, kind = FACETS[name].partition("/")
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{number}/{kind}.json#/$defs/{kind}", **values}


def send(endpoint: str, event: Mapping[str, Any]) -> None:
    """Append an event to a file as a line, or post it.

    Raises
    ------
    OSError
        When that fails.
    """
    content = json.dumps(event).encode()
    if not endpoint.startswith(("http://", "https://")):
        # One write, so that events of several runs stay whole.
        with Path(endpoint).open("ab", buffering=0) as stream:
            stream.write(content + b"\n")
        return
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get(API_KEY):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(endpoint, content, headers)  # noqa: S310 - http or https
    with urllib.request.urlopen(request, timeout=SECONDS):  # noqa: S310 - as above
        pass


@contextmanager
def follow(job: Job, work: "Work | None") -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Tell of a run that it starts and how it ends; yield what takes its report. What fails of it is a warning."""
    if not job.config.lineage.endpoint:
        yield lambda _: None
        return
    told, inform, reports = Told(job=job, store="" if work is None else work.store), Inform(), list[Mapping[str, Any]]()
    inform("lineage", told.send, "START")
    try:
        yield reports.append
    except FinishedError:
        # The output is there already, from a run that has told of it.
        inform("lineage", told.send, "ABORT")
        raise
    except BaseException as error:
        kind = "FAIL" if isinstance(error, Exception) else "ABORT"
        inform("lineage", told.send, kind, None, error)
        raise
    inform("lineage", told.send, "COMPLETE", reports[0] if reports else None)
