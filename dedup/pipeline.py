"""The job: the stages in order, each table written before the next stage reads it."""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedup import schemas
from dedup.config import to_toml
from dedup.errors import DataError, DedupError, SchemaError
from dedup.exchange import Counters
from dedup.faults import explain
from dedup.kernels.lsh import pair_counts
from dedup.labels import find_heads, measure_recall, read_labels, select_apart, select_known
from dedup.report.alerts import refuse
from dedup.report.build import build_report, hide_passwords, read_baseline, to_json
from dedup.report.metrics import to_metrics
from dedup.report.page import to_html
from dedup.report.summary import draw, read_largest, read_sample, show
from dedup.run import Job, Run
from dedup.sizes import (
    BAND_BYTES,
    BROADCAST_ROWS,
    CELL_BYTES,
    CELL_PAIRS,
    MEMBER_BYTES,
    WHOLE_BYTES,
    ceil_div,
    cell_groups,
)
from dedup.stages import (
    buckets,
    candidates,
    components,
    documents,
    edges,
    identical,
    prefixes,
    representatives,
    signatures,
)
from dedup.storage import Storage
from dedup.workspace import Workspace
from dedup.writing import write_near_misses, write_output

LOG = logging.getLogger("dedup")

SAMPLED_PAIRS = 10_000
"""Pairs left uncompared that are verified to estimate what the cap on buckets costs."""


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
    storage = Storage(spark)
    with Workspace(spark, storage, job.output) as workspace:
        try:
            baseline = read_baseline(storage, job.baseline)
            return _run_stages(Run(spark, job, storage, workspace), job, baseline)
        except (DedupError, PySparkException, Py4JError) as error:
            if spark.sparkContext._jsc is None:  # noqa: SLF001 - stopped: what fails then has no cause of its own
                raise
            known = error if isinstance(error, DedupError) else explain(error)
            if isinstance(known, DataError | SchemaError):
                # What the user mends may be what the finished stages were made of.
                workspace.abandon()
            if known is None or known is error:
                raise
            raise known from error


def _run_stages(work: Run, job: Job, baseline: Mapping[str, Any] | None) -> dict[str, Any]:
    labels = _read_labels(work)
    with work.stage("signatures", "signatures"):
        _sign(work)
    with work.stage("identical", "identical"):
        _collapse(work)
    heads = identical.select_heads(work.tables["signatures"], work.tables["identical"])
    if labels is not None:
        with work.stage("labels", "labels"):
            _select_labels(work, labels, heads)
    with work.stage("buckets", "buckets"):
        bucket_sizes = _bucket(work, heads)
    with work.stage("candidates", "candidates"):
        _pair(work, heads, bucket_sizes)
    with work.stage("edges", "edges"):
        _verify(work)
    # What needs nothing of the next stages is done beside them: they are short and leave cores idle.
    with ThreadPoolExecutor() as beside:
        near_misses, sample = beside.submit(write_near_misses, work), beside.submit(read_sample, work)
        with work.stage("components", "components"):
            engine = _connect(work)
        uncompared = _estimate_loss(work)
        with work.stage("representatives", "members"):
            component_sizes, largest = _elect(work)
        recall_measured = _measure_recall(work)
        known = {"bucket_sizes": bucket_sizes, "component_sizes": component_sizes, "recall_measured": recall_measured}
        with work.stage("output", "output"):
            drawing = beside.submit(draw, work, known, sample.result())
            texts, survival = write_output(work, largest, near_misses.result())
            token_ranks, plots = drawing.result()
    work.measure_shuffles()
    report = build_report(
        config=job.config,
        inputs=list(job.inputs),
        output=job.output,
        stages=work.stages,
        facts={
            **known,
            "engine": engine,
            "uncompared": uncompared,
            "labeled_given": work.measured["labels"]["given"] if labels is not None else 0,
            "token_ranks": token_ranks,
            "largest": show(largest, texts),
            "survival_by_source": survival,
            "signature_bytes": work.workspace.table_bytes("signatures") - work.measured["signatures"]["sample_bytes"],
            "baseline": baseline,
            "spark": work.spark.version,
            "hash": work.hashed,
            "format": work.format,
        },
    )
    files = {
        "report.json": to_json(report),
        "report.html": to_html(report, plots),
        "metrics.prom": to_metrics(report),
        "dedup.toml": to_toml(hide_passwords(job.config)),
    }
    if report["alerts"] and job.config.alerts.on_breach == "fail":
        raise refuse(report["alerts"], work.workspace.keep_report(files))
    work.workspace.publish(files)
    return report


def _read_labels(work: Run) -> DataFrame | None:
    """Return LABELS of the duplicates among the labelled pairs; None where none are given."""
    path = work.config.evaluation.labeled_pairs
    if not path:
        return None
    where = "evaluation.labeled_pairs"
    labels = read_labels(work.spark, Storage(work.spark), path, id_type=work.id_type, where=where)
    return labels.filter("duplicate")


def _select_labels(work: Run, labels: DataFrame, heads: DataFrame) -> None:
    """Make the tables of the labelled pairs whose documents the corpus has, and of those of them to be compared."""
    given = labels.count()
    work.table(
        "labels",
        schemas.LABELS,
        lambda _: find_heads(select_known(labels, work.tables["signatures"]), work.tables["identical"]),
        known={"given": given},
    )
    if not work.rows("labels"):
        raise DataError(
            f"evaluation.labeled_pairs: must hold duplicates of the input (got {given:,}, of none of which both "
            "documents are in it)"
        )
    work.table("labeled_pairs", schemas.PAIRS, lambda _: select_apart(work.tables["labels"], heads))


def _measure_recall(work: Run) -> list[dict[str, Any]]:
    """Return how many labelled pairs were joined in one component, by similarity; nothing without labels."""
    if "labels" not in work.tables:
        return []
    with work.stage("recall", "labeled"):
        pairs, count = work.tables["labeled_pairs"], work.rows("labeled_pairs")
        work.table("labeled", schemas.EDGES, lambda _: _compare(work, pairs, count, 0.0))
        return measure_recall(work.tables["labels"], work.tables["labeled"], work.tables["components"])


def _sign(work: Run) -> None:
    config = work.config
    work.table(
        "signatures",
        schemas.signatures(work.id_type, work.hashed),
        lambda counters: signatures.sign_documents(
            work.documents,
            contract=work.contract,
            hashed=work.hashed,
            shingle_size=config.shingles.shingle_size,
            bands=config.lsh.bands if config.mode == "lsh" else 0,
            rows=config.lsh.rows,
            signature_seed=config.lsh.seed,
            sample_share=work.sample_share,
            counters=counters,
        ),
        counted=signatures.COUNTED,
    )
    if not work.rows("signatures"):
        raise DataError("--input: must hold at least one document (it has none)")


def _collapse(work: Run) -> None:
    """Find the documents of one shingle set, and make sure that ids are unique."""
    signed, rows = work.tables["signatures"], work.rows("signatures")
    partitions = work.tasks(32 * rows, BAND_BYTES)
    work.table(
        "identical",
        schemas.SHARED,
        lambda _: identical.find_shared(signed, partitions=partitions),
        summed={"identical": "int(set_id IS NOT NULL)", "repeated": "int(copies IS NOT NULL)"},
    )
    work.measured["identical"]["rows"] = work.measured["identical"]["identical"]
    shared = work.tables["identical"]
    work.tables["identical"] = identical.select_identical(shared)
    work.tables["repeated"] = identical.select_repeated(shared)
    documents.check_null(work.documents, work.measured["signatures"]["ids_null"], id_column=work.id_column)
    if work.measured["identical"]["repeated"]:
        documents.check_repeated(signed, work.tables["repeated"], id_column=work.id_column)


def _bucket(work: Run, heads: DataFrame) -> dict[int, int]:
    """Return how many buckets there are of every size."""
    config = work.config
    if config.mode == "lsh":
        partitions = work.tasks(16 * config.lsh.bands * work.rows("signatures"), BAND_BYTES)
        bucket = partial(buckets.bucket_bands, heads)
    else:
        _collect_sets(work, heads.select("doc_id"), work.rows("signatures"))
        partitions = work.tasks(16 * work.measured["signatures"]["shingles"], BAND_BYTES)
        bucket = partial(
            buckets.bucket_prefixes, prefixes.select_prefixes(work.tables["sets"], threshold=config.threshold)
        )
    work.table(
        "buckets",
        schemas.BUCKETS,
        lambda counters: bucket(partitions=partitions, counters=counters),
        counted=buckets.COUNTED,
        summed={"members": "size"},
    )
    return work.sizes("buckets")


def _pair(work: Run, heads: DataFrame, bucket_sizes: Mapping[int, int]) -> None:
    config = work.config
    exact = config.mode == "exact"
    max_bucket = None if exact else config.buckets.max_bucket
    sizes, frequencies = np.array([*bucket_sizes.items()], dtype=np.int64).reshape(-1, 2).T
    compared, uncompared = (int(pairs @ frequencies) for pairs in pair_counts(sizes, max_bucket))
    groups = cell_groups(ceil_div(compared, CELL_PAIRS))
    listed = min(2 * compared, work.measured["buckets"]["members"], groups * work.rows("signatures"))
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
            groups=groups,
            broadcast=listed <= BROADCAST_ROWS,
            whole=work.rows("signatures") * config.signature_size <= WHOLE_BYTES,
            counters=counters,
        ),
        counted=candidates.COUNTED,
        known={"pairs_in_buckets": compared, "pairs_uncompared": uncompared},
    )
    if max_bucket is not None and uncompared:
        share = min(SAMPLED_PAIRS / uncompared, 1.0)
        sample = partial(candidates.sample_uncompared, work.tables["buckets"], max_bucket=max_bucket, share=share)
        work.table("sample", schemas.PAIRS, lambda _: sample())


def _collect_sets(work: Run, wanted: DataFrame, most: int) -> None:
    """Make the table of shingle sets of the wanted documents, of which there are at most so many."""
    config = work.config
    work.table(
        "sets",
        schemas.SETS,
        lambda _: edges.collect_sets(
            work.documents,
            wanted,
            contract=work.contract,
            shingle_size=config.shingles.shingle_size,
            broadcast=most <= BROADCAST_ROWS,
        ),
        summed={"bytes": "octet_length(shingles)"},
    )


def _verify(work: Run) -> None:
    if "sets" not in work.tables:
        pairs, count = work.tables["candidates"].select("left_id", "right_id"), work.rows("candidates")
        for name in ("sample", "labeled_pairs"):
            if name in work.tables:
                pairs, count = pairs.unionByName(work.tables[name]), count + work.rows(name)
        ends = pairs.select(F.explode(F.array("left_id", "right_id")).alias("doc_id"))
        most = 2 * count
        # To a broadcast the same id twice does no harm. Of many pairs there are fewer documents, so they are counted.
        if most > BROADCAST_ROWS:
            work.table("ends", schemas.ENDS, lambda _: ends.distinct())
            ends, most = work.tables["ends"], work.rows("ends")
        _collect_sets(work, ends, most)
    found, threshold = (work.tables["candidates"], work.rows("candidates")), work.config.threshold
    work.table(
        "edges",
        schemas.EDGES,
        lambda counters: _compare(work, *found, threshold, near_misses=True, counters=counters),
        summed={"edges": f"int(jaccard >= {threshold!r}D)"},
    )
    compared, measured = work.tables["edges"], work.measured["edges"]
    counted = measured.get("similarities", {})
    work.measured["edges"] = {
        "rows": measured["edges"],
        "similarities": [counted.get(str(number), 0) for number in range(edges.BINS)],
    }
    work.tables["edges"] = edges.select_edges(compared, threshold=threshold)
    work.tables["compared"] = compared
    work.measured["compared"] = {"rows": measured["rows"]}


def _compare(
    work: Run,
    pairs: DataFrame,
    count: int,
    threshold: float,
    *,
    near_misses: bool = False,
    counters: Counters | None = None,
) -> DataFrame:
    """Return those of so many pairs whose exact Jaccard is at least the threshold; for the rest see `edges.verify`."""
    sets, ends = work.measured["sets"], 2 * count
    moved = min(sets["bytes"], ends * sets["bytes"] // max(sets["rows"], 1))
    groups = cell_groups(work.tasks(moved, CELL_BYTES))
    return edges.verify(
        pairs,
        work.tables["sets"],
        threshold=threshold,
        groups=groups,
        broadcast=min(ends, groups * sets["rows"]) <= BROADCAST_ROWS,
        whole=sets["bytes"] <= WHOLE_BYTES,
        near_misses=near_misses,
        counters=counters,
    )


def _connect(work: Run) -> str:
    """Return the engine that connected the components."""
    chosen = work.config.components
    links = components.link(work.tables["edges"], work.tables["identical"])
    count = work.rows("edges") + work.measured["identical"]["identical"]
    forest = links
    if chosen.engine == "graphframes" or count > chosen.driver_edges:
        forest = components.contract(links).persist()
        count = forest.count()
    wanted = components.choose_engine(chosen.engine, count, chosen.driver_edges)
    engine = components.available_engine(work.spark, wanted, required=chosen.engine == "graphframes")
    if engine != wanted:
        LOG.warning("GraphFrames' classes are missing (see scripts/jars): the driver connects %s edges", f"{count:,}")
    if engine == "graphframes":
        work.spark.sparkContext.setCheckpointDir(work.workspace.checkpoints)
    connect = components.connect_with_graphframes if engine == "graphframes" else components.connect_on_driver
    work.table("components", schemas.COMPONENTS, lambda _: connect(forest))
    if engine == "graphframes":
        components.check_components(links, work.tables["components"])
    work.spark.catalog.clearCache()
    return engine


def _estimate_loss(work: Run) -> dict[str, int]:
    """Verify a sample of the pairs that the cap on buckets left uncompared.

    Returns
    -------
    dict
        `sampled` pairs, `similar` ones at or above the threshold, and of these the `lost` ones, whose documents are
        not in one component either.
    """
    if "sample" not in work.tables:
        return {"sampled": 0, "similar": 0, "lost": 0}
    with work.stage("uncompared", "uncompared"):
        pairs, count = work.tables["sample"], work.rows("sample")
        work.table("uncompared", schemas.EDGES, lambda _: _compare(work, pairs, count, work.config.threshold))
        lost = components.find_parted(work.tables["uncompared"], work.tables["components"]).count()
    return {"sampled": count, "similar": work.rows("uncompared"), "lost": lost}


def _elect(work: Run) -> tuple[dict[int, int], list[dict[str, Any]]]:
    """Return how many components there are of every size, and the largest."""
    tables = work.tables
    count = work.rows("components")
    work.table(
        "members",
        schemas.members(work.id_type),
        lambda counters: representatives.explain(
            tables["components"],
            tables["identical"],
            tables["signatures"],
            tables["edges"],
            policy=work.config.representatives.policy,
            partitions=work.tasks(MEMBER_BYTES * (count + work.rows("edges")), BAND_BYTES),
            broadcast=count <= BROADCAST_ROWS,
            counters=counters,
        ),
        summed={"near": "int(kind = 'near')", "distant": "int(jaccard IS NULL)"},
    )
    if distant := work.measured["members"]["distant"]:
        pairs = representatives.find_distant(tables["members"])
        work.table("distant", schemas.EDGES, lambda _: _compare(work, pairs, distant, 0.0))
        tables["members"] = representatives.measure(tables["members"], tables["distant"])
    if per_source := work.config.limits.per_source:
        found = partial(representatives.find_spared, tables["members"], per_source=per_source)
        work.table("spared", schemas.SPARED, lambda _: found(), summed={"near": "int(kind = 'near')"})
        tables["members"] = representatives.spare(tables["members"], tables["spared"])
        spared, measured = work.measured["spared"], work.measured["members"]
        work.measured["members"] = {**measured, "near": measured["near"] - spared["near"], "spared": spared["rows"]}
    return work.sizes("members"), read_largest(work)
