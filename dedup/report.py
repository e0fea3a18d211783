"""What a run did, as numbers: report.json, report.html, and the table a job prints."""

import dataclasses
import json
import platform
import re
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from scipy.special import betaincinv

from dedup import __version__
from dedup.config import Config, to_dict
from dedup.kernels.compiled import AVAILABLE
from dedup.kernels.lsh import probability

PACKAGES = ("pyspark", "graphframes-py", "numpy", "pyarrow", "scipy", "xxhash", *["numba"] * AVAILABLE)
METRICS = {
    "documents": "Documents of the input.",
    "kept": "Documents kept.",
    "removed": "Documents removed.",
    "identical": "Documents removed whose shingle set is that of the one kept.",
    "near": "Documents removed that are near-duplicates of the one kept.",
    "spared": "Documents that a limit kept from being removed.",
    "quarantined": "Records of the input that are none.",
    "removal_rate": "Share of documents removed.",
    "empty_rate": "Share of documents without a token.",
    "documents_short": "Documents with fewer tokens than a shingle.",
    "text_bytes": "Bytes of all texts.",
    "candidate_pairs_per_doc": "Candidate pairs per document.",
    "verify_drop_rate": "Share of candidates that the exact comparison dropped.",
    "components": "Components of more than one document.",
    "recall_on_labeled_set": "Share of labelled pairs of duplicates that ended in one component.",
}
"""Numbers of report.json that go to metrics.prom, unless they are null."""
SIMILARITIES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def build_report(
    *,
    config: Config,
    inputs: Sequence[str],
    output: str,
    stages: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Gather what report.json holds.

    Parameters
    ----------
    stages
        Measurements of every stage: rows, seconds and its own counts.
    facts
        engine, bucket_sizes, component_sizes, uncompared, labeled (see `pipeline`), hash, spark's version, the input's
        format.
    """
    signed, paired = stages["signatures"], stages["candidates"]
    documents = signed["rows"]
    near, kept, removed = (
        stages["representatives"]["near"],
        stages["output"]["kept"],
        stages["output"]["duplicates"],
    )
    after_length = paired["pairs_after_length"]
    return {
        "documents": documents,
        "kept": kept,
        "removed": removed,
        "removal_rate": _share(removed, documents),
        "identical": removed - near,
        "near": near,
        "spared": stages["representatives"].get("spared", 0),
        "quarantined": stages["output"].get("quarantined", 0),
        "survival_by_source": stages["output"]["survival"],
        "documents_empty": signed["documents_empty"],
        "documents_short": signed["documents_short"],
        "empty_rate": _share(signed["documents_empty"], documents),
        "text_bytes": signed["text_bytes"],
        "tokens": signed["tokens"],
        "edges": stages["edges"]["rows"],
        "components": sum(facts["component_sizes"].values()),
        "component_sizes": facts["component_sizes"],
        "engine": facts["engine"],
        "pairs": {
            "all": documents * (documents - 1) // 2,
            "in_buckets": paired["pairs_in_buckets"],
            "uncompared": paired["pairs_uncompared"],
            "distinct": paired["pairs_distinct"],
            "candidates": paired["rows"],
            "edges": stages["edges"]["rows"],
        },
        "uncompared": {**facts["uncompared"], "lost_share_at_most": _share_at_most(**facts["uncompared"])},
        "labeled_pairs": facts["labeled"],
        "recall_on_labeled_set": facts["labeled"] and _share(facts["labeled"]["joined"], facts["labeled"]["known"]),
        "candidate_pairs_per_doc": _share(paired["rows"], documents),
        "length_drop_rate": _share(paired["pairs_distinct"] - after_length, paired["pairs_distinct"]),
        "estimate_drop_rate": _share(after_length - paired["rows"], after_length),
        "verify_drop_rate": _share(paired["rows"] - stages["edges"]["rows"], paired["rows"]),
        "bucket_sizes": facts["bucket_sizes"],
        "recall_expected": [
            {"jaccard": jaccard, "probability": probability(jaccard, config.lsh.bands, config.lsh.rows)}
            for jaccard in SIMILARITIES
        ]
        if config.mode == "lsh"
        else [],
        "stages": stages,
        "settings": to_dict(hide_passwords(config)),
        "hash": facts["hash"],
        "input": [_without_password(path) for path in inputs],
        "format": facts["format"],
        "output": _without_password(output),
        "versions": {
            "dedup": __version__,
            "spark": facts["spark"],
            "python": platform.python_version(),
            "unicode": unicodedata.unidata_version,
            **{name: version(name) for name in PACKAGES},
        },
    }


def hide_passwords(config: Config) -> Config:
    """Return the settings without the user and password that a URL among them can hold."""
    path = _without_password(config.evaluation.labeled_pairs)
    return dataclasses.replace(config, evaluation=dataclasses.replace(config.evaluation, labeled_pairs=path))


def _without_password(path: str) -> str:
    """Return a path without the user and password that a URL can hold."""
    return re.sub(r"(?<=://)[^/@]*@", "", path)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _share_at_most(sampled: int, similar: int, lost: int) -> float:  # noqa: ARG001 - one of the three is not needed
    """Return the bound that the share of lost pairs keeps in 95 of 100 samples (Clopper, Pearson 1934)."""
    return float(betaincinv(lost + 1, sampled - lost, 0.95)) if sampled > lost else float(sampled > 0)


def to_json(report: Mapping[str, Any]) -> str:
    """Write the report as JSON; sizes become strings, as JSON keys are."""
    return json.dumps(report, indent=1) + "\n"


def to_html(report: Mapping[str, Any]) -> str:
    """Write the report as one page that needs nothing else; everything from the input is escaped."""
    environment = Environment(loader=PackageLoader("dedup", "."), autoescape=select_autoescape(default=True))
    sizes = {name: _by_power_of_two(report[f"{name}_sizes"]) for name in ("bucket", "component")}
    return environment.get_template("report.html.j2").render(report=report, sizes=sizes)


def to_metrics(report: Mapping[str, Any]) -> str:
    """Write what an operator watches as Prometheus' text format, for its node exporter or a push gateway."""
    registry = CollectorRegistry()

    def add(name: str, meaning: str, values: Mapping[str, float], label: str = "") -> None:
        gauge = Gauge(f"dedup_{name}", meaning, [label] if label else [], registry=registry)
        for key, value in values.items():
            (gauge.labels(key) if label else gauge).set(value)

    for name, meaning in METRICS.items():
        if report[name] is not None:
            add(name, meaning, {"": report[name]})
    add("pairs", "Pairs of documents that got so far.", report["pairs"], "step")
    add("uncompared_lost_share", "At most this share of uncompared pairs was lost.", _lost(report))
    stages = report["stages"].items()
    add("stage_seconds", "Seconds of each stage.", {name: stage["seconds"] for name, stage in stages}, "stage")
    add("stage_rows", "Rows that each stage made.", {name: stage["rows"] for name, stage in stages}, "stage")
    text: str = generate_latest(registry).decode()
    return text


def _lost(report: Mapping[str, Any]) -> dict[str, float]:
    return {"": report["uncompared"]["lost_share_at_most"] if report["pairs"]["uncompared"] else 0.0}


def _by_power_of_two(counts: Mapping[int, int]) -> dict[str, int]:
    """Sum counts over sizes 2, 3 to 4, 5 to 8, and so on: sizes spread over decades, and rows should not."""
    summed: dict[int, int] = {}
    for size, count in sorted(counts.items()):
        top = 1 << (size - 1).bit_length()
        summed[top] = summed.get(top, 0) + count
    return {f"{top // 2 + 1:,} to {top:,}" if top > 2 else f"{top}": count for top, count in summed.items()}


def to_table(report: Mapping[str, Any]) -> str:
    """Write the headline and the seconds of every stage as plain text."""
    rows = [
        ("documents", f"{report['documents']:,}"),
        ("kept", f"{report['kept']:,}"),
        ("identical", f"{report['identical']:,}"),
        ("near", f"{report['near']:,}"),
        ("components", f"{report['components']:,}"),
        ("pairs uncompared", f"{report['pairs']['uncompared']:,}"),
    ]
    if report["spared"]:
        rows.append(("spared by the limit", f"{report['spared']:,}"))
    if report["quarantined"]:
        rows.append(("records quarantined", f"{report['quarantined']:,}"))
    if report["pairs"]["uncompared"]:
        rows.append(("lost of them, at most", f"{report['uncompared']['lost_share_at_most']:.2%}"))
    if report["labeled_pairs"]:
        rows.append(("recall of labelled", f"{report['recall_on_labeled_set']:.4f}"))
    lines = [f"{name:<22}{value:>10}" for name, value in rows]
    lines += ["", f"{'stage':<18}{'rows':>14}{'seconds':>10}"]
    lines += [
        f"{name:<18}{measured['rows']:>14,}{measured['seconds']:>10.1f}" for name, measured in report["stages"].items()
    ]
    seconds = sum(measured["seconds"] for measured in report["stages"].values())
    lines.append(f"{'all':<18}{'':>14}{seconds:>10.1f}")
    return "\n".join(lines)
