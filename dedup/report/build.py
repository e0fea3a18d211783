"""Report of a run as numbers: report.json."""

import json
import math
import platform
import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

import numpy as np

from dedup.display import hide_secrets
from dedup.informing import Inform
from dedup.kernels import frequencies
from dedup.kernels.confidence import bound_share
from dedup.kernels.curve import probability
from dedup.kernels.sets.lsh import verified_share
from dedup.layers import NEAR
from dedup.report.alerts import find_breaches
from dedup.report.baseline import DRIFT, hold_against, measure_drift
from dedup.report.decisions import show_doubtful, turn_dial
from dedup.report.profiles import Profiled
from dedup.settings.files import to_dict
from dedup.settings.options import Config
from dedup.tables.counts import Layered, Lost, Near, Verified, Written
from dedup.version import __version__

Sample: TypeAlias = Sequence[tuple[int, bytes]]
"""Sampled documents by doc_id, as from `frequencies.shorten`, each as often as it has equal rows."""
PACKAGES = ("pyspark", "graphframes-py", "numpy", "pyarrow", "scipy", "xxhash", "numba")
SIMILARITIES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
OF_PROFILE = (
    *("documents", "kept", "removed", "removal_rate", "identical", "near", "chained", "least_similarity"),
    *("documents_empty", "documents_short", "text_bytes", "tokens", "layers", "edges", "components"),
    *("pairs", "uncompared", "missed_by_bands", "recall_at_threshold", "recall_expected", "dial"),
    *("similarities", "removal_similarities"),
)
"""Entries of report.json repeated for each profile."""
BAND_ROW_BYTES = 16
"""Bytes of a band row: key and doc_id."""
EXAMPLE_LENGTH = 200
"""Characters shown of an example of a component."""


@cache
def _find_version(package: str) -> str | None:
    """Return the release of a package; None if it is not installed, as Spark need not be."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Values from which a report is built."""

    layers: Sequence[Layered]
    """Layers in the order in which they ran, at least one."""
    near: Near
    """Counts of all profiles together, if there are any."""
    profiles: Sequence[Profiled] = ()
    written: Written
    begun: float
    """Start of the run, in seconds since 1970."""
    start_seconds: float
    """Seconds from there to the first stage."""
    stages: Mapping[str, Mapping[str, Any]]
    """Numbers of every stage: rows, seconds and its own counts."""
    token_ranks: Mapping[str, Any] | None
    """The result of `rank_tokens`."""
    texts: Mapping[int, str]
    """The beginnings of the examples of the largest components, by doc_id."""
    survival_by_source: Mapping[str, Mapping[str, int]] | None
    """Counts of each source; None where no column names it."""
    signature_bytes: int
    baseline: Mapping[str, Any] | None
    """The result of `parse_baseline`; None without a baseline."""
    without: Mapping[str, int] | None = None
    """Counts of documents that are none of the input; None where there are none."""
    engine: str
    """The engine that made the passes over the texts: spark or memory."""
    search: str
    """Searcher between the passes over the texts: one `process`, or `tasks` of Spark."""
    reader: str
    """The reader of the input: `files` for this package, or `spark`."""
    spark: str | None
    """Version of Spark; None without Spark."""
    spec: Mapping[str, Any]
    """The hash specification, as a dictionary."""
    format: str


def build_report(
    *,
    config: Config,
    inputs: Sequence[str],
    output: str,
    outcome: Outcome,
    preset: str = "",
    inform: Inform | None = None,
) -> dict[str, Any]:
    """Build the contents of report.json.

    Parameters
    ----------
    inform
        Runs what may be missing; what it has left out, and leaves out later, is part of the report.
    """
    inform, baseline = inform or Inform(), outcome.baseline
    report = _measure(config=config, inputs=inputs, output=output, outcome=outcome, inform=inform)
    if outcome.profiles:
        report |= _tell_profiles(outcome, inform)
    if baseline is not None:
        held = inform("the comparison with the baseline", hold_against, report, baseline)
        report |= {} if held is None else {"baseline": held}
        report["removal_rate_change"] = abs(report["removal_rate"] - baseline["removal_rate"])
        report |= inform("the drift since the baseline", measure_drift, report, baseline) or {}
    report["preset"] = preset
    report["alerts"] = find_breaches(report, report["settings"]["alerts"])
    return report


def _measure(*, config: Config, inputs: Sequence[str], output: str, outcome: Outcome, inform: Inform) -> dict[str, Any]:
    """Return the measurements of a run, or of one of its profiles."""
    near, written = outcome.near, outcome.written
    signed, paired, verified, elected = near.signed, near.paired, near.verified, near.elected
    first = outcome.layers[0]
    documents, removed = first.documents, written.removed
    has_near = NEAR in config.layers
    by_others = sum(count for layer, count in written.removed_by.items() if layer != NEAR)
    points = near.labeled.points if near.labeled else []
    known, joined = (sum(point[name] for point in points) for name in ("pairs", "joined"))
    labeled = {"given": near.labeled.given, "known": known, "joined": joined} if near.labeled else None
    return {
        "alerts": [],
        "documents": documents,
        "kept": written.kept,
        "removed": removed,
        "removal_rate": _share(removed, documents),
        "removal_rate_change": None,
        **dict.fromkeys(DRIFT),
        "identical": removed - elected.near - by_others,
        "near": elected.near,
        "spared": elected.spared,
        "without": outcome.without,
        "parts": written.parts,
        "linkage": config.cluster.linkage,
        "relinked": elected.relinked,
        "chained": elected.chained,
        "chained_share": _share(elected.chained, removed),
        "least_similarity": elected.least,
        "removal_similarities": list(elected.similarities),
        "doubtful": inform("the most doubtful removals", show_doubtful, config, elected.doubtful, outcome.texts) or [],
        "kept_by_representative": written.kept + elected.parted,
        "dial": inform("other thresholds", turn_dial, config, near, written) or []
        if outcome.without is None and config.keep.drop == "others"
        else [],
        "decided": dict(elected.rules),
        "quarantined": written.quarantined,
        # Tokens are counted by the layer near alone, perhaps of no document that others have left.
        "documents_empty": signed.documents_empty if has_near else None,
        "documents_short": signed.documents_short if has_near else None,
        "empty_rate": _share(signed.documents_empty, signed.rows) if has_near else None,
        "short_rate": _share(signed.documents_short, signed.rows) if has_near else None,
        "survival_by_source": outcome.survival_by_source,
        "removers": [
            {name: "(none)" if value is None else value for name, value in each.items()} for each in elected.removers
        ],
        "profiles": [],
        "layers": list_layers(outcome.layers, written),
        "text_bytes": first.text_bytes,
        "text_bytes_removed": None if written.text_bytes_kept is None else first.text_bytes - written.text_bytes_kept,
        "tokens": signed.tokens if has_near else None,
        "text_bytes_per_doc": first.text_bytes / documents if documents else None,
        "tokens_per_doc": signed.tokens / signed.rows if signed.rows else None,
        "shingles_per_doc": signed.shingles / signed.rows if signed.rows else None,
        "effective_tokens": _count_effective(near, written),
        "token_ranks": outcome.token_ranks,
        "edges": verified.rows,
        "edges_written": written.edges,
        "similarities": list(verified.similarities),
        "components": sum(elected.sizes.values()),
        "component_sizes": elected.sizes,
        "largest_components": show_largest(elected.largest, outcome.texts),
        "engine": outcome.engine,
        "search": outcome.search,
        "reader": outcome.reader,
        "components_engine": near.connected.engine,
        "pairs": {
            "all": (signed.rows + signed.foreign) * (signed.rows + signed.foreign - 1) // 2,
            "in_buckets": paired.pairs_in_buckets,
            "uncompared": paired.pairs_uncompared,
            "settled": paired.pairs_settled,
            "distinct": paired.pairs_distinct,
            "candidates": paired.rows,
            "edges": verified.rows,
        },
        "uncompared": _bound_loss(near),
        "missed_by_bands": inform("pairs missed by the bands", _count_missed, config, verified)
        if config.mode == "lsh"
        else 0.0,
        "labeled_pairs": labeled,
        "recall_on_labeled_set": _share(joined, known) if labeled else None,
        "candidate_pairs_per_doc": _share(paired.rows, signed.rows),
        "length_drop_rate": _share(paired.pairs_distinct - paired.pairs_after_length, paired.pairs_distinct),
        "estimate_drop_rate": _share(paired.pairs_after_length - paired.rows, paired.pairs_after_length),
        "verify_drop_rate": _share(paired.rows - verified.rows, paired.rows),
        "bucket_sizes": near.bucketed.sizes,
        "bucket_size_p99": _percentile(near.bucketed.sizes, 99),
        "signature_bytes": outcome.signature_bytes,
        "index_bytes": BAND_ROW_BYTES * near.bucketed.band_rows,
        "recall_expected": [
            {"jaccard": jaccard, "probability": probability(jaccard, *config.banding)} for jaccard in SIMILARITIES
        ]
        if config.mode == "lsh"
        else [],
        "recall_at_threshold": probability(config.threshold, *config.banding) if config.mode == "lsh" else 1.0,
        "recall_measured": list(points),
        "begun": datetime.fromtimestamp(outcome.begun, UTC).isoformat(timespec="seconds"),
        "seconds": round(time.time() - outcome.begun, 3),
        "start_seconds": round(outcome.start_seconds, 3),
        "stages": outcome.stages,
        "settings": (settings := to_dict(hide_passwords(config.settle()))),
        "settings_digest": sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12],
        "hash": outcome.spec,
        "input": [hide_secrets(path) for path in inputs],
        "format": outcome.format,
        "output": hide_secrets(output),
        "versions": {
            "dedup": __version__,
            "spark": outcome.spark,
            "python": platform.python_version(),
            "unicode": unicodedata.unidata_version,
            **{name: found for name in PACKAGES if (found := _find_version(name))},
        },
        "left_out": inform.left_out,
    }


def _tell_profiles(outcome: Outcome, inform: Inform) -> dict[str, Any]:
    """Return entries per profile, and totals: loss bounds are summed, recall is the minimum."""
    told: list[dict[str, Any]] = []
    for each in outcome.profiles:
        own = replace(
            outcome, layers=each.layers, near=each.near, written=each.written, profiles=(), baseline=None, texts={}
        )
        report = _measure(config=each.config, inputs=(), output="", outcome=own, inform=inform)
        settings: dict[str, Any] = {
            "threshold": each.config.threshold,
            "shingle_size": each.config.shingles.shingle_size,
        }
        bands, rows = each.config.banding
        settings |= {"bands": bands, "rows": rows} if each.config.mode == "lsh" else {}
        told.append(
            {"name": each.name, **settings, "text": asdict(each.config.text)} | {key: report[key] for key in OF_PROFILE}
        )
    counted = ("lost_at_most", "documents_lost_at_most")
    lost = {name: sum(each["uncompared"][name] for each in told) for name in counted}
    return {
        "profiles": told,
        "uncompared": {
            **asdict(outcome.near.lost or Lost()),
            "lost_share_at_most": _share(lost["lost_at_most"], outcome.near.paired.pairs_uncompared),
            **lost,
        },
        "missed_by_bands": None if None in (missed := [each["missed_by_bands"] for each in told]) else sum(missed),
        "recall_at_threshold": min(each["recall_at_threshold"] for each in told if each["documents"]),
        "recall_expected": [],
        "dial": [],
    }


def list_layers(steps: Sequence[Layered], written: Written) -> list[dict[str, Any]]:
    """Return the waterfall: documents removed and left by every layer.

    Bytes are of texts, without spans that were cut or that later layers are to ignore; tokens are known where the layer
    near counts them, and None elsewhere.
    """
    found = []
    documents = steps[0].documents
    for number, step in enumerate(steps):
        after = None if number == len(steps) - 1 else steps[number + 1]
        removed = written.removed_by.get(step.layer, 0)
        documents -= removed
        found.append(
            {
                "layer": step.layer,
                "removed": removed,
                "spans": step.spans,
                "documents": documents,
                "text_bytes": written.text_bytes_kept if after is None else after.text_bytes,
                "tokens": None if after is None else after.tokens,
                **({"details": dict(step.details)} if step.details else {}),
            }
        )
    return found


def rank_tokens(samples: Mapping[str, Sample]) -> dict[str, Any] | None:
    """Return the rank-frequency curves of samples of documents, at the same ranks; None for small samples.

    Parameters
    ----------
    samples
        Sampled documents of the `input`, and the `kept` ones among them.

    Returns
    -------
    dict
        `ranks`; by name `tokens` of the sample, `slope` with its standard `error`, and occurrences `per_million` at the
        ranks; `change` of the slope from input to kept, and `change_error`, less than the two errors as the documents
        are the same.
    """
    counts = {name: frequencies.count([tokens for _, tokens in sample]) for name, sample in samples.items()}
    ranks = frequencies.choose_ranks(*counts.values())
    curves, slopes, without = {}, {}, {}
    for name, each in counts.items():
        slope = frequencies.fit_slope(each, ranks)
        if slope is None:
            return None
        groups = frequencies.divide(np.array([doc_id for doc_id, _ in samples[name]], dtype=np.int64))
        without[name] = frequencies.fit_without_each([tokens for _, tokens in samples[name]], groups, ranks)
        slopes[name] = slope
        total = int(each.sum())
        curves[name] = {
            "tokens": total,
            "slope": round(slope, 4),
            "error": round(frequencies.estimate_error(without[name]), 4),
            "per_million": np.round(each[ranks - 1] * (1e6 / total), 3).tolist(),
        }
    change = {
        "change": round(slopes["kept"] - slopes["input"], 4),
        "change_error": round(frequencies.estimate_error(without["kept"] - without["input"]), 4),
    }
    return {"ranks": ranks.tolist(), **curves, **change}


def _percentile(counts: Mapping[int, int], percent: int) -> int:
    """Return the least size that a percentage of all sizes do not exceed; 0 without sizes."""
    wanted = sum(counts.values()) * percent / 100
    seen = 0
    for size, count in sorted(counts.items()):
        seen += count
        if seen >= wanted:
            return size
    return 0


def hide_passwords(config: Config) -> Config:
    """Return the settings without users and passwords in URLs."""
    path, endpoint = (hide_secrets(each) for each in (config.evaluation.labeled_pairs, config.lineage.endpoint))
    evaluation, lineage = replace(config.evaluation, labeled_pairs=path), replace(config.lineage, endpoint=endpoint)
    return replace(config, evaluation=evaluation, lineage=lineage)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _count_effective(near: Near, written: Written) -> int | None:
    """Return about how many tokens are left: the bytes kept by the tokens a byte of what near signed; None if unknown.

    Tokens of documents removed, and of spans cut, do not count.
    """
    signed, kept = near.signed, written.text_bytes_kept
    return round(signed.tokens * kept / signed.text_bytes) if signed.text_bytes and kept is not None else None


def _bound_loss(near: Near) -> dict[str, Any]:
    """Return the sample of uncompared pairs and the bound on lost ones; without a sample, every pair counts as lost."""
    found, uncompared = near.lost or Lost(), near.paired.pairs_uncompared
    share = _share_at_most(found) if near.lost or not uncompared else 1.0
    pairs = math.ceil(share * uncompared)
    # A pair lost keeps one document more than there would be, at most.
    documents = min(pairs, max(found.documents - 1, 0)) if near.lost else pairs
    bounds = {"lost_share_at_most": share, "lost_at_most": pairs, "documents_lost_at_most": documents}
    return {**asdict(found), **bounds}


def _share_at_most(found: Lost) -> float:
    """Return an upper bound of the lost share: see `bound_share`.

    A drawn pair is found lost with the probability that it is lost times the probability that it is verified.
    """
    return min(bound_share(found.lost, found.drawn) / verified_share(found.possible), 1.0)


def _count_missed(config: Config, verified: Verified) -> float:
    """Return an upper estimate of the pairs at or above the threshold that share no bucket.

    A pair found stands for 1 / P of its similarity, of which all but itself are missed. Of the histogram's bins the
    lower bounds count, so this is more than the mean.
    """
    bins = len(verified.similarities)
    missed, left = 0.0, verified.rows
    for number in range(bins - 1, -1, -1):
        least = max(number / bins, config.threshold)
        found = min(verified.similarities[number], left)
        left -= found
        # Of bins without a pair the probability can be 0.
        missed += found * (1 / probability(least, *config.banding) - 1) if found else 0.0
    return missed


def show_largest(largest: Sequence[Mapping[str, Any]], texts: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the largest components with the beginnings of their examples; None if no text was written."""
    return [
        {
            "representative_id": one["examples"][0]["id"],
            "documents": one["documents"],
            "component_id": one["component_id"],
            "examples": [{"id": each["id"], "text": _begin(texts.get(each["doc_id"]))} for each in one["examples"]],
        }
        for one in largest
    ]


def _begin(text: str | None) -> str | None:
    return None if text is None else " ".join(text[:EXAMPLE_LENGTH].split())


def to_json(report: Mapping[str, Any]) -> str:
    """Write the report as JSON; sizes become strings, as JSON keys are."""
    return json.dumps(report, indent=1) + "\n"
