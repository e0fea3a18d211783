"""What a run did, as numbers: report.json, and the table a job prints."""

import dataclasses
import json
import platform
import re
import unicodedata
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.special import betaincinv

from dedup import __version__
from dedup.config import to_dict
from dedup.errors import StorageError
from dedup.kernels import frequencies
from dedup.kernels.compiled import AVAILABLE
from dedup.kernels.lsh import probability
from dedup.report.alerts import describe, find_breaches
from dedup.report.metrics import METRICS
from dedup.run import flatten
from dedup.settings import Config
from dedup.storage import Storage

PACKAGES = ("pyspark", "graphframes-py", "numpy", "pyarrow", "scipy", "xxhash", *["numba"] * AVAILABLE)
SIMILARITIES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
BAND_ROW_BYTES = 16
"""A band row: key and doc_id."""
COMPARED = tuple(name for name in METRICS if name != "removal_rate_change")
"""Numbers of report.json that are shown beside those of the baseline."""


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
        engine, bucket_sizes, component_sizes, uncompared, labeled_given, recall_measured, token_ranks, largest,
        survival_by_source, signature_bytes (see `pipeline`), hash, the version of Spark, the input format, and baseline
        (see `read_baseline`).
    """
    signed, paired, written = stages["signatures"], stages["candidates"], stages["output"]
    documents = signed["rows"]
    near, kept, removed = stages["representatives"]["near"], written["kept"], written["duplicates"]
    text_bytes, text_bytes_kept = signed["text_bytes"], written["text_bytes_kept"]
    distant = stages["representatives"]["distant"]
    after_length = paired["pairs_after_length"]
    baseline = facts["baseline"]
    points = facts["recall_measured"]
    known, joined = (sum(point[name] for point in points) for name in ("pairs", "joined"))
    labeled = {"given": facts["labeled_given"], "known": known, "joined": joined} if points else None
    report = {
        "alerts": [],
        "documents": documents,
        "kept": kept,
        "removed": removed,
        "removal_rate": _share(removed, documents),
        "removal_rate_change": None,
        "identical": removed - near,
        "near": near,
        "spared": stages["representatives"].get("spared", 0),
        "chained": distant,
        "chaining_rate": _share(distant, removed),
        "quarantined": written.get("quarantined", 0),
        "documents_empty": signed["documents_empty"],
        "documents_short": signed["documents_short"],
        "empty_rate": _share(signed["documents_empty"], documents),
        "short_rate": _share(signed["documents_short"], documents),
        "survival_by_source": facts["survival_by_source"],
        "text_bytes": text_bytes,
        "text_bytes_removed": None if text_bytes_kept is None else text_bytes - text_bytes_kept,
        "tokens": signed["tokens"],
        "token_ranks": facts["token_ranks"],
        "edges": stages["edges"]["rows"],
        "similarities": stages["edges"].get("similarities"),
        "components": sum(facts["component_sizes"].values()),
        "component_sizes": facts["component_sizes"],
        "largest_components": facts["largest"],
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
        "labeled_pairs": labeled,
        "recall_on_labeled_set": labeled and _share(labeled["joined"], labeled["known"]),
        "candidate_pairs_per_doc": _share(paired["rows"], documents),
        "length_drop_rate": _share(paired["pairs_distinct"] - after_length, paired["pairs_distinct"]),
        "estimate_drop_rate": _share(after_length - paired["rows"], after_length),
        "verify_drop_rate": _share(paired["rows"] - stages["edges"]["rows"], paired["rows"]),
        "bucket_sizes": facts["bucket_sizes"],
        "bucket_size_p99": _percentile(facts["bucket_sizes"], 99),
        "signature_bytes": facts["signature_bytes"],
        "index_bytes": BAND_ROW_BYTES * stages["buckets"]["band_rows"],
        "recall_expected": [
            {"jaccard": jaccard, "probability": probability(jaccard, config.lsh.bands, config.lsh.rows)}
            for jaccard in SIMILARITIES
        ]
        if config.mode == "lsh"
        else [],
        "recall_at_threshold": probability(config.threshold, config.lsh.bands, config.lsh.rows)
        if config.mode == "lsh"
        else 1.0,
        "recall_measured": facts["recall_measured"],
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
    if baseline is not None:
        report["baseline"] = _compare(report, baseline)
        report["removal_rate_change"] = abs(report["removal_rate"] - baseline["removal_rate"])
    report["alerts"] = find_breaches(report, report["settings"]["alerts"])
    return report


def read_baseline(storage: Storage, path: str | None) -> dict[str, Any] | None:
    """Read the report of an earlier run from its output; None without a path.

    Raises
    ------
    StorageError
        When there is none.
    """
    if path is None:
        return None
    file = f"{path.rstrip('/')}/report.json"
    try:
        found = json.loads(storage.read_text(file)) if storage.exists(file) else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not _is_number(found.get("removal_rate")) or "settings" not in found:
        raise StorageError(f"--baseline {path}: must be the output of an earlier run (it has no report.json of one)")
    return found | {"output": path}


def _compare(report: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the baseline's numbers, and those of its settings that were others, then and now."""
    now, then = (flatten(each["settings"]) for each in (report, baseline))
    return {
        "output": _without_password(baseline["output"]),
        "numbers": {name: value for name in COMPARED if _is_number(value := baseline.get(name))},
        "settings": {name: [then.get(name), now[name]] for name in now if then.get(name) != now[name]},
    }


def rank_tokens(texts: Mapping[str, list[bytes]]) -> dict[str, Any] | None:
    """Return the rank-frequency curves of samples of documents, read at the same ranks; None where they are too small.

    Parameters
    ----------
    texts
        By name, documents as from `frequencies.shorten`.

    Returns
    -------
    dict
        `ranks`; by name `tokens` of the sample, `slope`, and occurrences `per_million` at the ranks.
    """
    counts = {name: frequencies.count(each) for name, each in texts.items()}
    ranks = frequencies.choose_ranks(*counts.values())
    curves = {}
    for name, each in counts.items():
        slope = frequencies.fit_slope(each, ranks)
        if slope is None:
            return None
        total = int(each.sum())
        per_million = np.round(each[ranks - 1] * (1e6 / total), 3).tolist()
        curves[name] = {"tokens": total, "slope": round(slope, 4), "per_million": per_million}
    return {"ranks": ranks.tolist(), **curves}


def _percentile(counts: Mapping[int, int], percent: int) -> int:
    """Return the least size that so many of 100 do not exceed; 0 of none."""
    wanted = sum(counts.values()) * percent / 100
    seen = 0
    for size, count in sorted(counts.items()):
        seen += count
        if seen >= wanted:
            return size
    return 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


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


def to_table(report: Mapping[str, Any]) -> str:
    """Write breaches of alerts, the headline and the seconds of every stage as plain text."""
    alerts = [f"ALERT: {describe(breach)}" for breach in report["alerts"]]
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
    lines = [*alerts, *[""] * bool(alerts), *[f"{name:<22}{value:>10}" for name, value in rows]]
    lines += ["", f"{'stage':<18}{'rows':>14}{'seconds':>10}"]
    lines += [
        f"{name:<18}{measured['rows']:>14,}{measured['seconds']:>10.1f}" for name, measured in report["stages"].items()
    ]
    seconds = sum(measured["seconds"] for measured in report["stages"].values())
    lines.append(f"{'all':<18}{'':>14}{seconds:>10.1f}")
    return "\n".join(lines)
