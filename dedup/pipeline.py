"""The job: the stages in order, each table written before the next stage reads it."""

import contextlib
import logging
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup import __version__, schemas
from dedup.config import Config, to_dict, to_toml
from dedup.errors import DataError, DedupError, SchemaError
from dedup.exchange import Counters, cell_groups
from dedup.kernels.lsh import pair_counts
from dedup.report import build_report, to_html, to_json
from dedup.stages import (
    buckets,
    candidates,
    components,
    documents,
    edges,
    identical,
    output,
    prefixes,
    representatives,
    signatures,
)
from dedup.storage import Storage, Workspace, guess_format, read_corpus

LOG = logging.getLogger("dedup")

TASK_BYTES = 1 << 20
"""Least data worth a task of its own while cores are free."""
BAND_BYTES = 32 << 20
"""Band rows of one partition: sorting them takes a worker about ten times as much memory."""
CELL_PAIRS = 4 << 20
"""Pairs of one cell while candidates are estimated."""
CELL_BYTES = 64 << 20
"""Shingle sets of one cell while candidates are verified."""
BROADCAST_ROWS = 2 << 20
"""Ids that are sent to every executor instead of being joined by a shuffle: about 50 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a run is asked to do."""

    inputs: Sequence[str]
    output: str
    config: Config
    overwrite: bool = False


class _Run:
    """One run as it goes on: its input, and the tables and measurements of the stages so far."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.spark = spark
        self.config = job.config
        storage = Storage(spark)
        chosen = job.config.input
        self.format: str = chosen.format
        if self.format == "auto":
            self.format = guess_format(storage, job.inputs, name_filter=chosen.name_filter)
        self.id_column = chosen.id_column or ("path" if self.format == "text" else "")
        self.corpus, fingerprint = read_corpus(
            spark, storage, job.inputs, kind=self.format, name_filter=chosen.name_filter
        )
        self.documents = documents.read_documents(self.corpus, id_column=self.id_column, text_column=chosen.text_column)
        if job.config.output.mode == "annotate":
            output.check_annotations(self.corpus)
        self.id_type = self.documents.schema["id"].dataType
        self.workspace = Workspace(spark, storage, job.output)
        identity = {
            "version": __version__,
            "unicode": unicodedata.unidata_version,
            **{f"setting {name}": value for name, value in to_dict(job.config).items()},
            "input": fingerprint,
        }
        self.workspace.open(identity, overwrite=job.overwrite)
        self.tables: dict[str, DataFrame] = {}
        self.measured: dict[str, dict[str, Any]] = {}
        self.stages: dict[str, dict[str, Any]] = {}

    @contextlib.contextmanager
    def stage(self, name: str, table: str) -> Iterator[None]:
        """Time a stage, and say when it is done and how many rows its table has."""
        begin = time.monotonic()
        yield
        seconds = time.monotonic() - begin
        measured = self.measured[table]
        self.stages[name] = {**measured, "seconds": round(seconds, 3)}
        LOG.info("%-16s %14s %9.1f s", name, f"{measured['rows']:,} rows", seconds)

    def table(
        self,
        name: str,
        schema: T.StructType,
        build: Callable[[Counters], DataFrame],
        *,
        counted: Sequence[str] = (),
        summed: Mapping[str, str] | None = None,
        known: Mapping[str, Any] | None = None,
    ) -> None:
        """Build, write and measure a table, unless an earlier try has finished it.

        Parameters
        ----------
        counted
            Names of what the stage counts in its workers.
        summed
            Measurements that are sums of SQL expressions over the table.
        known
            Measurements known beforehand.
        """
        measured = self.workspace.finished(name)
        if measured is None:
            counters = Counters(self.spark, *counted)
            observation = Observation()
            sums = [F.sum(F.expr(expression)).alias(key) for key, expression in (summed or {}).items()]
            rows = build(counters).observe(observation, F.count(F.lit(1)).alias("rows"), *sums)
            self.workspace.write_table(name, rows)
            seen = {key: value or 0 for key, value in observation.get.items()}
            measured = {**seen, **counters.values(), **(known or {})}
            self.workspace.finish(name, measured)
        self.measured[name] = measured
        self.tables[name] = self.workspace.read_table(name, schema)

    def rows(self, name: str) -> int:
        """Return the number of rows of a finished table."""
        return int(self.measured[name]["rows"])

    def tasks(self, data_bytes: int, task_bytes: int) -> int:
        """Return how many tasks share so many bytes: enough for the limit of one, and for the cores if it pays."""
        cores = self.spark.sparkContext.defaultParallelism
        return max(_ceil(data_bytes, task_bytes), min(cores, _ceil(data_bytes, TASK_BYTES)), 1)


def _ceil(whole: int, part: int) -> int:
    return -(-whole // part)


def run(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Remove the near-duplicates of a corpus and publish the result.

    Returns
    -------
    dict
        What report.json holds.

    Raises
    ------
    DedupError
        When the input, the settings or the output do not allow it; nothing is published.
    """
    work = _Run(spark, job)
    try:
        return _run(work, job)
    except (DataError, SchemaError):
        # What the user mends may be what the finished stages were made of.
        work.workspace.discard()
        raise


def _run(work: _Run, job: Job) -> dict[str, Any]:
    with work.stage("signatures", "signatures"):
        _sign(work)
    with work.stage("documents", "signatures"):
        _check_ids(work)
    with work.stage("identical", "identical"):
        work.table("identical", schemas.IDENTICAL, lambda _: identical.find_identical(work.tables["signatures"]))
    heads = identical.select_heads(work.tables["signatures"], work.tables["identical"])
    with work.stage("buckets", "buckets"):
        bucket_sizes = _bucket(work, heads)
    with work.stage("candidates", "candidates"):
        _pair(work, heads, bucket_sizes)
    with work.stage("edges", "edges"):
        _verify(work)
    with work.stage("components", "components"):
        engine = _connect(work)
    with work.stage("representatives", "duplicates"):
        component_sizes = _elect(work)
    with work.stage("output", "output"):
        _write_output(work)
    report = build_report(
        config=job.config,
        inputs=list(job.inputs),
        output=job.output,
        stages=work.stages,
        facts={
            "engine": engine,
            "bucket_sizes": bucket_sizes,
            "component_sizes": component_sizes,
            "spark": work.spark.version,
        },
    )
    work.workspace.publish(
        {"report.json": to_json(report), "report.html": to_html(report), "dedup.toml": to_toml(job.config)}
    )
    return report


def _sign(work: _Run) -> None:
    config = work.config
    work.table(
        "signatures",
        schemas.signatures(work.id_type),
        lambda counters: signatures.sign_documents(
            work.documents,
            shingle_size=config.shingles.shingle_size,
            shingle_seed=config.shingles.seed,
            signature_size=config.signature_size if config.mode == "lsh" else 0,
            signature_seed=config.lsh.seed,
            counters=counters,
        ),
        counted=signatures.COUNTED,
    )
    if not work.rows("signatures"):
        raise DataError("--input: must hold at least one document (it has none)")


def _check_ids(work: _Run) -> None:
    signed = work.tables["signatures"]
    work.table("repeated", schemas.REPEATED, lambda _: documents.find_repeated(signed))
    if work.rows("repeated"):
        documents.check_repeated(work.documents, signed, work.tables["repeated"], id_column=work.id_column)


def _bucket(work: _Run, heads: DataFrame) -> dict[int, int]:
    """Return how many buckets there are of every size."""
    config = work.config
    if config.mode == "lsh":
        partitions = work.tasks(16 * config.lsh.bands * work.rows("signatures"), BAND_BYTES)
        bucketed = buckets.bucket_bands(heads, bands=config.lsh.bands, rows=config.lsh.rows, partitions=partitions)
    else:
        _collect_sets(work, heads.select("doc_id"), work.rows("signatures"))
        partitions = work.tasks(16 * work.measured["signatures"]["shingles"], BAND_BYTES)
        chosen = prefixes.select_prefixes(work.tables["sets"], threshold=config.threshold)
        bucketed = buckets.bucket_prefixes(chosen, partitions=partitions)
    work.table("buckets", schemas.BUCKETS, lambda _: bucketed, summed={"members": "size"})
    return _count_sizes(work.tables["buckets"].select("size"))


def _count_sizes(sizes: DataFrame) -> dict[int, int]:
    return dict(sorted((row["size"], row["count"]) for row in sizes.groupBy("size").count().collect()))


def _pair(work: _Run, heads: DataFrame, bucket_sizes: Mapping[int, int]) -> None:
    config = work.config
    exact = config.mode == "exact"
    max_bucket = None if exact else config.buckets.max_bucket
    sizes, frequencies = np.array([*bucket_sizes.items()], dtype=np.int64).reshape(-1, 2).T
    compared, uncompared = (int(pairs @ frequencies) for pairs in pair_counts(sizes, max_bucket))
    work.table(
        "candidates",
        schemas.CANDIDATES,
        lambda counters: candidates.pair_documents(
            work.tables["buckets"],
            heads,
            threshold=config.threshold,
            signature_size=config.signature_size,
            estimate_sigmas=None if exact else config.candidates.estimate_sigmas,
            max_bucket=max_bucket,
            groups=cell_groups(_ceil(compared, CELL_PAIRS)),
            broadcast=min(2 * compared, work.measured["buckets"]["members"]) <= BROADCAST_ROWS,
            counters=counters,
        ),
        counted=candidates.COUNTED,
        known={"pairs_in_buckets": compared, "pairs_uncompared": uncompared},
    )


def _collect_sets(work: _Run, wanted: DataFrame, most: int) -> None:
    """Make the table of shingle sets of the wanted documents, of which there are at most so many."""
    config = work.config
    work.table(
        "sets",
        schemas.SETS,
        lambda _: edges.collect_sets(
            work.documents,
            wanted,
            shingle_size=config.shingles.shingle_size,
            shingle_seed=config.shingles.seed,
            broadcast=most <= BROADCAST_ROWS,
        ),
        summed={"bytes": "octet_length(shingles)"},
    )


def _verify(work: _Run) -> None:
    if "sets" not in work.tables:
        ends = work.tables["candidates"].select(F.explode(F.array("left_id", "right_id")).alias("doc_id"))
        _collect_sets(work, ends.distinct(), 2 * work.rows("candidates"))
    work.table("edges", schemas.EDGES, lambda _: _compare(work, "candidates", work.config.threshold))


def _compare(work: _Run, pairs: str, threshold: float) -> DataFrame:
    """Return the pairs of a table whose exact Jaccard is at least the threshold."""
    sets, ends = work.measured["sets"], 2 * work.rows(pairs)
    moved = min(sets["bytes"], ends * sets["bytes"] // max(sets["rows"], 1))
    return edges.verify(
        work.tables[pairs],
        work.tables["sets"],
        threshold=threshold,
        groups=cell_groups(work.tasks(moved, CELL_BYTES)),
        broadcast=ends <= BROADCAST_ROWS,
    )


def _connect(work: _Run) -> str:
    """Return the engine that connected the components."""
    chosen, count = work.config.components, work.rows("edges")
    forest = components.contract(work.tables["edges"])
    if chosen.engine == "auto" and count > chosen.driver_edges:
        forest = forest.persist()
        count = forest.count()
    wanted = components.choose_engine(chosen.engine, count, chosen.driver_edges)
    engine = components.available_engine(work.spark, wanted, required=chosen.engine == "graphframes")
    if engine != wanted:
        LOG.warning("GraphFrames' classes are missing (see scripts/jars): the driver connects %s edges", f"{count:,}")
    if engine == "graphframes":
        work.spark.sparkContext.setCheckpointDir(work.workspace.checkpoints)
    connect = components.connect_with_graphframes if engine == "graphframes" else components.connect_on_driver
    work.table("components", schemas.COMPONENTS, lambda _: connect(forest))
    work.spark.catalog.clearCache()
    components.check_components(work.tables["edges"], work.tables["components"])
    return engine


def _elect(work: _Run) -> dict[int, int]:
    """Return how many components there are of every size."""
    tables = work.tables
    work.table(
        "members",
        schemas.members(work.id_type),
        lambda _: representatives.list_members(tables["components"], tables["identical"], tables["signatures"]),
    )
    elected = representatives.elect(tables["members"], policy=work.config.representatives.policy)
    work.table("distant", schemas.PAIRS, lambda _: representatives.find_distant(elected, tables["edges"]))
    work.table("distant_edges", schemas.EDGES, lambda _: _compare(work, "distant", 0.0))
    work.table(
        "duplicates",
        schemas.duplicates(work.id_type),
        lambda _: representatives.explain(elected, tables["edges"], tables["distant_edges"]),
        summed={"near": "int(kind = 'near')"},
    )
    return _count_sizes(tables["members"].groupBy("component_id").agg(F.count(F.lit(1)).alias("size")))


def _write_output(work: _Run) -> None:
    config, tables = work.config.output, work.tables
    duplicates, members = tables["duplicates"], tables["members"]
    repeated = tables["repeated"] if work.rows("repeated") else None
    copies = duplicates.limit(0)
    if repeated is not None:
        copies = output.list_copies(repeated, tables["signatures"], members, duplicates)
    user_id, doc_id = documents.identify(work.corpus, id_column=work.id_column)
    if config.mode == "annotate":
        name, rows = "annotated", output.annotate(work.corpus, doc_id, duplicates, copies, repeated)
    else:
        name, rows = "kept", output.keep(work.corpus, doc_id, duplicates, repeated)
    if config.mode == "ids":
        rows = rows.select(user_id.alias(work.id_column or "id"))
    kept = F.col("dedup_kept") if config.mode == "annotate" else None
    named = output.name_edges(tables["edges"], tables["identical"], members)
    written = {
        "kept": _write(work, name, rows, kept, _target_format(work)),
        "duplicates": _write(work, "duplicates", duplicates.unionByName(copies).drop("doc_id")),
        "edges": _write(work, "edges", named),
    }
    total = work.rows("signatures")
    if written["kept"] + written["duplicates"] != total:
        raise DedupError(
            f"output: kept and duplicates must add up to the {total:,} documents of the input (got "
            f"{written['kept']:,} and {written['duplicates']:,}); did the input change while it was read?"
        )
    work.measured["output"] = {"rows": written["kept"], **written}


def _target_format(work: _Run) -> str:
    if work.config.output.format != "input":
        return work.config.output.format
    return "parquet" if work.format == "text" else work.format


def _write(work: _Run, name: str, rows: DataFrame, counted: Column | None = None, kind: str = "parquet") -> int:
    """Write rows of the result and return how many there are, or for how many the condition holds."""
    observation = Observation()
    count = F.count(F.lit(1)) if counted is None else F.count_if(counted)
    work.workspace.write_result(name, rows.observe(observation, count.alias("rows")), kind)
    return int(observation.get["rows"])
