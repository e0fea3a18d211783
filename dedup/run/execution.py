"""Execution of a run whose input is known, on any engine: search, output, report, publication."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol

import pyarrow as pa

from dedup.engine.engine import Engine, Rows
from dedup.engine.workers import open_beside
from dedup.files.storage import OutputStorage, find_result
from dedup.informing import PLOTS
from dedup.layers.layer import Context
from dedup.output.result_tables import ResultWriter, write_result
from dedup.report.alerts import refuse
from dedup.report.baseline import parse_baseline
from dedup.report.build import Outcome, Sample, build_report, hide_passwords, to_json
from dedup.report.metrics import to_metrics
from dedup.report.page import to_html
from dedup.report.profiles import unite
from dedup.report.summary import FIGURES, Drawing, draw, draw_rest
from dedup.run.clock import Clock
from dedup.run.job import Job
from dedup.run.layers import list_references, load_layers
from dedup.run.pairs import read_labels
from dedup.run.profiles import Part, list_parts, tell_parts
from dedup.run.search import Searched, search, set_up
from dedup.run.workspace import Workspace
from dedup.settings.files import flatten, to_dict, to_toml
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.version import __version__

if TYPE_CHECKING:
    from dedup.run.catalog import CatalogTables

KEY_FILE, TOKENIZER_FILE = "hash.key_file", "shingles.tokenizer_file"
"""Settings that may change between tries, since the contents of the files are part of the identity."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given(Generic[Rows]):
    """The input of a run, who searches it, and what writes its output."""

    fingerprint: str
    id_type: pa.DataType
    size: int
    """Bytes of all files."""
    search: str
    """Searcher: "process" or "tasks"."""
    format: str
    """Format of files, or "table"."""
    spark: str | None
    """Version of Spark; None without."""
    begin: Callable[[], AbstractContextManager[Engine[Rows]]]
    open_output: Callable[[Any], ResultWriter[Rows]]
    """Returns what writes the result that an engine has found."""
    list_repeated: Callable[[Any], Rows | None]
    """Returns the ids of equal rows; None where there are none."""
    check_unchanged: Callable[[], object]
    held_bytes: int = 0
    """As of `Context`."""
    forks: bool = False
    """Whether processes forked from this one search texts."""
    tables: "CatalogTables | None" = None
    """Tables that the rows are written to at the end."""


class Work(Protocol):
    """Task of a run other than to remove the duplicates among its documents: to add them to a store."""

    @property
    def store(self) -> str:
        """Path of the store."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Values that an unfinished run must share with this one to be resumed, besides those of its job."""

    def prepare(self, job: Job) -> None:
        """Refuse jobs that do not serve, before an engine is chosen."""

    def count_known(self) -> int:
        """Return about how many documents the store has."""

    def check(self, config: Config, spec: HashSpec, id_type: pa.DataType) -> None:
        """Refuse settings that do not serve, before the run begins."""

    def __call__(self, run: "Run[Rows]") -> dict[str, Any]:
        """Return what report.json holds, once the output is published."""


def execute(
    job: Job, workspace: Workspace, given: Given[Rows], clock: Clock, *, work: Work | None = None
) -> dict[str, Any]:
    """Search, write and publish; the caller holds the output's lock, and the settings are settled.

    Parameters
    ----------
    work
        Task of the run; None to remove the duplicates.

    Returns
    -------
    dict
        Content of report.json.
    """
    config, asks_all = job.config, work is not None
    baseline = read_baseline(workspace.storage, job.baseline)
    labels = read_labels(config, given.id_type)
    parts = list_parts(config)
    identity = {**identify(job, [part.spec for part in parts], given.fingerprint)}
    if work is not None:
        work.check(config, parts[-1].spec, given.id_type)
        identity |= work.identity
    workspace.open(identity, overwrite=job.overwrite)
    if given.tables is not None:
        given.tables.check(workspace, overwrite=job.overwrite)
    context = Context(size=given.size, labels=labels, held_bytes=given.held_bytes, asks_all=asks_all)
    # A process that talks to a JVM is not forked.
    beside = open_beside(FIGURES) if given.spark is None else ThreadPoolExecutor(1)
    with beside as plotting, given.begin() as engine:
        if given.forks:
            for part in parts:
                for layer in load_layers(part.config):
                    layer.warm(set_up(layer.name, part, context, clock))
        run = Run(
            job=job,
            workspace=workspace,
            given=given,
            engine=engine,
            parts=parts,
            context=context,
            clock=clock,
            plotting=plotting,
            baseline=baseline,
        )
        return run.publish(search(engine, parts, config, context, clock)) if work is None else work(run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run(Generic[Rows]):
    """A run whose input is open."""

    job: Job
    workspace: Workspace
    given: Given[Rows]
    engine: Engine[Rows]
    parts: Sequence[Part]
    context: Context
    clock: Clock
    plotting: Executor
    baseline: Mapping[str, Any] | None

    def publish(self, found: Searched[Rows]) -> dict[str, Any]:
        """Write what was found, and publish it; return the content of report.json."""
        given, clock, config, engine = self.given, self.clock, self.job.config, found.chain.engine
        counts, baseline = unite([*found.near.values()]), self.baseline or found.earlier
        findings = found.to_findings(config, given.list_repeated(engine))
        # It takes as long as the writing of a small corpus, and another core.
        if given.spark is None:
            drawing = self.plotting.submit(draw, config, counts, *self._read_sample(found), baseline)
        else:
            drawing = self.plotting.submit(lambda: draw(config, counts, *self._read_sample(found), baseline))
        with clock.time("output"):
            output = given.open_output(engine)
            written = write_result(engine, output, findings, inform=clock.inform, stage=partial(clock.group, "output"))
        clock.note("output", written.counts)
        drawn = clock.inform(PLOTS, drawing.result) or Drawing()
        given.check_unchanged()
        outcome = Outcome(
            layers=found.chain.steps,
            near=counts,
            profiles=tell_parts(self.parts, found.by_profile, found.near, written.by_profile),
            written=written.counts,
            begun=clock.begun,
            start_seconds=clock.start_seconds,
            stages=clock.report(),
            token_ranks=drawn.token_ranks,
            texts=written.texts,
            survival_by_source=written.sources,
            signature_bytes=found.count_signature_bytes(self.parts),
            spec=self.parts[-1].spec.to_dict(),
            baseline=baseline,
            without=found.without,
            engine="memory" if given.spark is None else "spark",
            search=given.search,
            reader="spark" if given.format == "table" else "files",
            spark=given.spark,
            format=given.format,
        )
        return self._conclude(
            outcome, drawn, found.finish if given.tables is None else partial(given.tables.commit, self.workspace)
        )

    def _conclude(self, outcome: Outcome, drawn: Drawing, first: Callable[[], object] | None) -> dict[str, Any]:
        """Build the report and publish the result with it.

        Parameters
        ----------
        drawn
            Plots that need not be drawn again.
        first
            Called when nothing but the publication is left to do.

        Raises
        ------
        AlertError
            When a limit is passed that is to fail the job; the report is kept and nothing published.
        """
        job, config, inform, workspace = self.job, self.job.config, self.clock.inform, self.workspace
        report = build_report(
            config=config,
            inputs=[config.input.table] if config.input.table else [*job.inputs] or ["DataFrame"],
            output=job.output,
            outcome=outcome,
            preset=job.preset,
            inform=inform,
        )
        fails = bool(report["alerts"]) and config.alerts.on_breach == "fail"
        drawn = inform(PLOTS, lambda: self.plotting.submit(draw_rest, report, drawn).result()) or drawn
        inform.left_out.update(drawn.left_out)
        metrics = inform("metrics.prom", to_metrics, report, None if fails else time.time())
        page = inform("report.html", to_html, report, drawn.plots)
        # The last of these to be made tells all that was left out.
        made = {
            "report.json": to_json(report),
            "report.html": page,
            "metrics.prom": metrics,
            "dedup.toml": to_toml(hide_passwords(config)),
        }
        files = {name: content for name, content in made.items() if content is not None}
        if fails:
            raise refuse(report["alerts"], workspace.keep_report(files))
        if first is not None:
            first()
        workspace.publish(files)
        return report

    def _read_sample(self, found: Searched[Rows]) -> tuple[Sample, set[int]]:
        """Return the tokens of the documents of the sample, and which of these are removed; none where that fails."""
        return self.clock.inform("the sample of tokens", read_sample, self.clock, found) or ([], set())


def read_sample(clock: Clock, found: Searched[Rows]) -> tuple[Sample, set[int]]:
    """Return the tokens of the documents of the sample by doc_id, and which of these are removed."""
    engine, sample, removals = found.chain.engine, found.chain.sample, found.chain.removals
    if sample is None or removals is None:
        return [], set()
    with clock.group("output"):
        rows = engine.collect(sample)
        gone = engine.lookup(engine.select(removals, "doc_id"), rows["doc_id"].combine_chunks())
    return list(zip(rows["doc_id"].to_pylist(), rows["tokens"].to_pylist(), strict=True)), {*gone["doc_id"].to_pylist()}


def read_baseline(storage: OutputStorage, path: str | None) -> dict[str, Any] | None:
    """Return the report of an earlier run from its output; None without one.

    Raises
    ------
    StorageError
        When there is none.
    """
    if path is None:
        return None
    file = f"{find_result(storage, path)}/report.json"
    try:
        content = storage.read_text(file) if storage.exists(file) else None
    except UnicodeDecodeError:
        content = None
    return parse_baseline(path, content)


def identify(job: Job, specs: Sequence[HashSpec], fingerprint: str) -> Mapping[str, Any]:
    """Return the keys by which an unfinished run is recognised and resumed."""
    # What only judges the result may change in between.
    settings = {
        f"setting {name}": value
        for name, value in flatten(to_dict(job.config)).items()
        if name not in (KEY_FILE, TOKENIZER_FILE) and not name.startswith(("alerts.", "lineage."))
    }
    spec = specs[-1]
    hashed = {"hash version": spec.version, "hash key": spec.key, "unicode": spec.unicode}
    hashed |= {"hash basis": [each.basis for each in specs]} if any(each.basis for each in specs) else {}
    others = {f"{each.setting} {each.name}": each.list_files().fingerprint for each in list_references(job.config)}
    return {"version": __version__, **hashed, **settings, **others, "input": fingerprint}
