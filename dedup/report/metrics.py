"""What an operator watches, as Prometheus' text format: metrics.prom."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from dedup.display import printable

METRICS = {
    "documents": "Documents of the input.",
    "kept": "Documents kept.",
    "removed": "Documents removed.",
    "identical": "Documents removed whose shingle set is that of the one kept.",
    "near": "Documents removed that are near-duplicates of the one kept.",
    "spared": "Documents that a limit kept from being removed.",
    "quarantined": "Malformed records of the input that were set aside.",
    "removal_rate": "Share of documents removed.",
    "removal_rate_change": "Difference of the removal rate to the baseline's, without its sign.",
    "chaining_rate": "Share of the removed documents that are less similar to the one kept than the threshold.",
    "empty_rate": "Share of documents without a token.",
    "documents_short": "Documents with fewer tokens than a shingle.",
    "text_bytes": "Bytes of all texts.",
    "text_bytes_removed": "Bytes of the texts removed.",
    "candidate_pairs_per_doc": "Candidate pairs per document.",
    "verify_drop_rate": "Share of candidates that the exact comparison dropped.",
    "bucket_size_p99": "Documents that 99 of 100 buckets do not exceed, of buckets of two and more.",
    "signature_bytes": "Bytes of the table of signatures.",
    "index_bytes": "Bytes of the band rows that were shuffled into buckets.",
    "recall_on_labeled_set": "Share of labelled pairs of duplicates that ended in one component.",
    "missed_by_bands": "About how many similar pairs share no bucket, at most.",
    "components": "Components of more than one document.",
}
"""Numbers of report.json that go to metrics.prom; one that is not known is left out."""


def to_metrics(report: Mapping[str, Any]) -> str:
    """Write the numbers for Prometheus' node exporter or a push gateway."""
    registry = CollectorRegistry()

    def add(name: str, meaning: str, values: Mapping[str, float | None], label: str = "") -> None:
        known = {key: value for key, value in values.items() if value is not None}
        if known:
            gauge = Gauge(f"dedup_{name}", meaning, [label] if label else [], registry=registry)
            for key, value in known.items():
                (gauge.labels(printable(key)) if label else gauge).set(value)

    for name, meaning in METRICS.items():
        add(name, meaning, {"": report[name]})
    add("alerts", "Measurements beyond their limits.", {"": len(report["alerts"])})
    add("pairs", "Pairs of documents that got so far.", report["pairs"], "step")
    add("uncompared_lost_share", "At most this share of uncompared pairs was lost.", _lost(report))
    sources = (report["survival_by_source"] or {}).items()
    survival = {name: source["kept"] / source["documents"] for name, source in sources}
    add("survival_by_source", "Share of a source's documents that were kept.", survival, "source")
    ranks = report["token_ranks"] or {}
    slopes = {part: curve["slope"] for part, curve in ranks.items() if part != "ranks"}
    add("token_slope", "Slope of log frequency over log rank of the tokens of a sample.", slopes, "part")
    stages = report["stages"].items()
    add("stage_seconds", "Seconds of each stage.", {name: stage["seconds"] for name, stage in stages}, "stage")
    add("stage_rows", "Rows that each stage made.", {name: stage["rows"] for name, stage in stages}, "stage")
    shuffled = {name: stage.get("shuffle_bytes") for name, stage in stages}
    add("stage_shuffle_bytes", "Bytes that each stage wrote to shuffles.", shuffled, "stage")
    text: str = generate_latest(registry).decode()
    return text


def _lost(report: Mapping[str, Any]) -> dict[str, float]:
    return {"": report["uncompared"]["lost_share_at_most"] if report["pairs"]["uncompared"] else 0.0}
