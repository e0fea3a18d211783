"""Metrics for operators in Prometheus' text format: metrics.prom."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from dedup.display import count, printable, share, size
from dedup.layers import NEAR
from dedup.report.alerts import list_limits


def decimal(value: float | None) -> str:
    """Write a number with two decimals."""
    return "unknown" if value is None else f"{value:,.2f}"


class Metric(NamedTuple):
    """Number of report.json."""

    label: str
    """Name for people."""
    meaning: str
    show: Callable[[Any], str]
    """Formatter for people, of a value or None."""


METRICS = {
    "documents": Metric("documents", "Documents of the input.", count),
    "kept": Metric("documents kept", "Documents kept.", count),
    "removed": Metric("documents removed", "Documents removed.", count),
    "identical": Metric(
        "identical copies removed", "Documents removed whose shingle set is that of the one kept.", count
    ),
    "near": Metric("near-duplicates removed", "Documents removed that are near-duplicates of the one kept.", count),
    "spared": Metric("spared by the limit", "Documents that a limit kept from being removed.", count),
    "quarantined": Metric("records set aside", "Malformed records of the input that were set aside.", count),
    "removal_rate": Metric("share removed", "Share of documents removed.", share),
    "removal_rate_change": Metric(
        "change of the share removed", "Difference of the removal rate to the baseline's, without its sign.", share
    ),
    "chained_share": Metric(
        "removals below the threshold",
        "Share of the removed documents that are less similar to the one kept than the threshold.",
        share,
    ),
    "least_similarity": Metric("least similarity", "Least similarity of a removed document to the one kept.", decimal),
    "kept_by_representative": Metric(
        "kept by linkage representative", "Documents that linkage by representative would keep.", count
    ),
    "empty_rate": Metric("documents without a token", "Share of documents without a token.", share),
    "documents_short": Metric("short documents", "Documents with fewer tokens than a shingle.", count),
    "text_bytes": Metric("text", "Bytes of all texts.", size),
    "text_bytes_removed": Metric("text removed", "Bytes of the texts removed.", size),
    "text_bytes_per_doc": Metric("text of a document", "Mean bytes of the text of a document.", size),
    "tokens_per_doc": Metric("tokens of a document", "Mean tokens of a document.", decimal),
    "shingles_per_doc": Metric("shingles of a document", "Mean distinct shingles of a document.", decimal),
    "effective_tokens": Metric(
        "tokens left", "About how many tokens are left, those of duplicates and of spans cut discounted.", count
    ),
    "text_bytes_per_doc_change": Metric(
        "change of the text of a document", "Relative change of text_bytes_per_doc since the baseline, unsigned.", share
    ),
    "tokens_per_doc_change": Metric(
        "change of the tokens of a document", "Relative change of tokens_per_doc since the baseline, unsigned.", share
    ),
    "shingles_per_doc_change": Metric(
        "change of the shingles of a document",
        "Relative change of shingles_per_doc since the baseline, unsigned.",
        share,
    ),
    "similarity_drift": Metric(
        "drift of similarities", "Share of the pairs compared that have another similarity than in the baseline.", share
    ),
    "bucket_drift": Metric(
        "drift of buckets", "Share of the documents in buckets that are in larger or smaller ones than there.", share
    ),
    "candidate_pairs_per_doc": Metric("candidates per document", "Candidate pairs per document.", decimal),
    "verify_drop_rate": Metric(
        "candidates below the threshold", "Share of candidates that the exact comparison dropped.", share
    ),
    "bucket_size_p99": Metric(
        "documents in 99 of 100 buckets, at most",
        "Size that 99 of 100 buckets do not exceed, in documents; buckets of one document are left out.",
        count,
    ),
    "signature_bytes": Metric("table of signatures", "Bytes of the table of signatures.", size),
    "index_bytes": Metric(
        "band rows, uncompressed",
        "Bytes of the band rows (a key and an id each) that are grouped into buckets.",
        size,
    ),
    "recall_on_labeled_set": Metric(
        "labelled pairs in one component", "Share of labelled pairs of duplicates that ended in one component.", share
    ),
    "missed_by_bands": Metric(
        "matching pairs missed by the bands, at most",
        "Upper estimate of the matching pairs that the bands miss, from the pairs found.",
        decimal,
    ),
    "components": Metric("components", "Components of more than one document.", count),
}
"""Numbers of report.json in metrics.prom; unknown ones are left out."""


def to_metrics(report: Mapping[str, Any], finished: float | None = None) -> str:
    """Write the numbers for Prometheus' node exporter or a push gateway.

    Parameters
    ----------
    finished
        Time of publication, in seconds since 1970; None for an unpublished result.
    """
    registry = CollectorRegistry()

    def add(name: str, meaning: str, values: Mapping[str, float | None], label: str = "") -> None:
        known = {key: value for key, value in values.items() if value is not None}
        if known:
            gauge = Gauge(f"dedup_{name}", meaning, [label] if label else [], registry=registry)
            for key, value in known.items():
                (gauge.labels(printable(key)) if label else gauge).set(value)

    add("last_success_timestamp_seconds", "When the result was published.", {"": finished})
    known = {"version": report["versions"]["dedup"], "settings": report["settings_digest"]}
    info = Gauge("dedup_run_info", "Version of the package and digest of the settings.", [*known], registry=registry)
    info.labels(**known).set(1)
    for name, metric in METRICS.items():
        add(name, metric.meaning, {"": report[name]})
    if NEAR in report["settings"]["layers"] and report["settings"]["mode"] == "lsh":
        # Operators of other indexes know these names: docs/operations.md has those of OpenTelemetry beside them.
        add("candidate_pairs_total", "Distinct pairs that were compared exactly.", {"": report["pairs"]["candidates"]})
        largest = max(map(int, report["bucket_sizes"]), default=None)
        add("lsh_bucket_max_size", "Documents of the largest bucket, of those of two and more.", {"": largest})
        add("index_memory_bytes", "Bytes of keys and ids that are brought together.", {"": report["index_bytes"]})
        empty = "Share of the rows of all signatures that are empty: those of documents without a token."
        add("empty_bin_rate", empty, {"": report["empty_rate"]})
    add("alerts", "Number of measurements beyond their limits.", {"": len(report["alerts"])})
    breached = {breach["alert"] for breach in report["alerts"]}
    limits = {name: float(name in breached) for name in list_limits(report["settings"]["alerts"])}
    add("alert", "Whether a measurement is beyond this limit.", limits, "alert")
    add("pairs", "Pairs of documents left after each step.", report["pairs"], "step")
    lost = report["uncompared"]["lost_share_at_most"] if report["pairs"]["uncompared"] else 0.0
    add("uncompared_lost_share", "At most this share of uncompared pairs was lost.", {"": lost})
    sources = (report["survival_by_source"] or {}).items()
    survival = {name: source["kept"] / source["documents"] for name, source in sources}
    add("survival_by_source", "Share of a source's documents that were kept.", survival, "source")
    ranks = report["token_ranks"] or {}
    slopes = {part: ranks[part]["slope"] for part in ("input", "kept") if part in ranks}
    add("token_slope", "Slope of log frequency over log rank of the tokens of a sample.", slopes, "part")
    stages = report["stages"].items()
    add("stage_seconds", "Seconds of each stage.", {name: stage["seconds"] for name, stage in stages}, "stage")
    add("stage_rows", "Rows that each stage made.", {name: stage["rows"] for name, stage in stages}, "stage")
    shuffled = {name: stage.get("shuffle_bytes") for name, stage in stages}
    add("stage_shuffle_bytes", "Bytes that each stage wrote to shuffles.", shuffled, "stage")
    text: str = generate_latest(registry).decode()
    return text
