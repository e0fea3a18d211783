"""Comparison with an earlier run, the baseline."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from dedup.display import duration, hide_secrets, printable, share
from dedup.errors import StorageError
from dedup.kernels.sets.jaccard import BINS
from dedup.report.metrics import METRICS
from dedup.settings.files import flatten

WEIGHED = (
    "documents",
    "removal_rate",
    "chained_share",
    "least_similarity",
    "kept_by_representative",
    "empty_rate",
    "quarantined",
    "tokens_per_doc",
    "shingles_per_doc",
    "text_bytes_removed",
    "candidate_pairs_per_doc",
    "verify_drop_rate",
    "recall_on_labeled_set",
)
"""Numbers whose differences are described in sentences."""
MOST_SOURCES = 5
"""Most sources whose difference is described."""
LEAST_CHANGE = 0.01
"""Least difference of a source's kept share that is described."""
LEAST_SLOWER = 0.2
"""Least relative difference of time that is described: one machine's runs differ by less."""
LENGTHS = {f"{name}_change": name for name in ("text_bytes_per_doc", "tokens_per_doc", "shingles_per_doc")}
"""Means of which the change relative to the baseline is told."""
DISTRIBUTIONS = {"similarity_drift": "similarities", "bucket_drift": "bucket_sizes"}
"""Histograms of which the distance to the baseline's is told."""
DRIFT = (*LENGTHS, *DISTRIBUTIONS)
COMPARED = tuple(name for name in METRICS if name not in {"removal_rate_change", *DRIFT})
"""Numbers of report.json shown beside the baseline's."""


def parse_baseline(path: str, content: str | None) -> dict[str, Any]:
    """Return the report of an earlier run from the report.json of its output; None stands for a missing one.

    Raises
    ------
    StorageError
        When there is none.
    """
    try:
        found = json.loads(content) if content is not None else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not _is_number(found.get("removal_rate")) or "settings" not in found:
        raise StorageError(f"--baseline {path}: must be the output of an earlier run (it has no report.json of one)")
    return found | {"output": path}


def hold_against(report: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the baseline's numbers, and its settings that differ, with both values."""
    now, then = (flatten(each["settings"]) for each in (report, baseline))
    return {
        "output": hide_secrets(baseline["output"]),
        "numbers": {name: value for name in COMPARED if _is_number(value := baseline.get(name))},
        "settings": {name: [then.get(name), now[name]] for name in now if then.get(name) != now[name]},
        "differences": tell_differences(report, baseline),
        "plotted": pick_plotted(baseline),
    }


def measure_drift(report: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, float | None]:
    """Return DRIFT: how far the corpus is from that of an earlier run; None where either is unknown.

    A mean's is its change as a share of the earlier one, up or down. A histogram's is the total variation distance, the
    least share of it that must move to make the one from the other: of the pairs compared, by similarity, and of the
    places of documents in buckets of two and more, by the power of two up to which their bucket's size is.
    """
    drift: dict[str, float | None] = {}
    for change, name in LENGTHS.items():
        now, then = report[name], baseline.get(name)
        drift[change] = abs(now / then - 1) if now is not None and _is_number(then) and then > 0 else None
    earlier = pick_plotted(baseline)
    for distance, name in DISTRIBUTIONS.items():
        one, other = (_share_out(each.get(name) or ()) for each in (report, earlier))
        both = {*one, *other}
        moved = sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in both) / 2
        drift[distance] = moved if one and other else None
    return drift


def _share_out(counts: Mapping[int, float] | Sequence[float]) -> dict[int, float]:
    """Return the shares of the bins of a histogram; of sizes of groups, those of their members by powers of two."""
    if isinstance(counts, Mapping):
        weights: dict[int, float] = {}
        for size, count in counts.items():
            power = (size - 1).bit_length()
            weights[power] = weights.get(power, 0) + size * count
    else:
        weights = dict(enumerate(counts))
    total = sum(weights.values())
    return {key: weight / total for key, weight in weights.items()} if total else {}


def tell_differences(report: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    """Describe the numbers that differ from the earlier run and matter to a decision."""
    told = []
    for name in WEIGHED:
        metric, now, then = METRICS[name], report[name], baseline.get(name)
        if now is None or not _is_number(then) or (shown := metric.show(now)) == (before := metric.show(then)):
            continue
        told.append(f"{metric.label} {'rose' if now > then else 'fell'} from {before} to {shown}")
    earlier = _list_survival(baseline)
    survival = [(name, kept, earlier[name]) for name, kept in _list_survival(report).items() if name in earlier]
    changed = [each for each in survival if abs(each[1] - each[2]) >= LEAST_CHANGE]
    for name, kept, kept_then in sorted(changed, key=lambda one: -abs(one[1] - one[2]))[:MOST_SOURCES]:
        verb = "rose" if kept > kept_then else "fell"
        told.append(f"share kept of source {printable(name)!r} {verb} from {share(kept_then)} to {share(kept)}")
    now, then = (_sum_seconds(each) for each in (report, baseline))
    if then and abs(now - then) > LEAST_SLOWER * then:
        told.append(f"time {'rose' if now > then else 'fell'} from {duration(then)} to {duration(now)}")
    return told


def _list_survival(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the kept share of each source."""
    sources = _known(report, "survival_by_source")
    pairs = {name: (_known(sources, name).get("kept"), _known(sources, name).get("documents")) for name in sources}
    return {name: kept / of for name, (kept, of) in pairs.items() if _is_number(kept) and _is_number(of) and of}


def _sum_seconds(report: Mapping[str, Any]) -> float:
    stages = _known(report, "stages")
    return sum(seconds for name in stages if _is_number(seconds := _known(stages, name).get("seconds")))


def pick_plotted(baseline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of an earlier report that plots show, if they are complete and can be drawn."""
    plotted: dict[str, Any] = {"survival": _list_survival(baseline)}
    for name in ("similarities", "removal_similarities"):
        if _are_numbers(counts := baseline.get(name)) and len(counts) == BINS:
            plotted[name] = counts
    for name in ("bucket_sizes", "component_sizes"):
        sizes = _known(baseline, name)
        if sizes and all(str(size).isdecimal() for size in sizes) and _are_numbers([*sizes.values()]):
            plotted[name] = {int(size): count for size, count in sizes.items()}
    if isinstance(dial := baseline.get("dial"), list):
        points = [[point.get("threshold"), point.get("removed")] for point in dial if isinstance(point, dict)]
        plotted["dial"] = [point for point in points if _are_numbers(point)]
    ranks = _known(baseline, "token_ranks").get("ranks")
    per_million = _known(baseline, "token_ranks", "kept").get("per_million")
    if _are_numbers(ranks) and _are_numbers(per_million) and len(ranks) == len(per_million):
        plotted["tokens"] = [ranks, per_million]
    lsh = _known(baseline, "settings", "lsh")
    if _are_numbers(banding := [lsh.get("bands"), lsh.get("rows")]):
        plotted["banding"] = banding
    stages = _known(baseline, "stages")
    seconds = {name: _known(stages, name).get("seconds") for name in stages}
    for name, numbers in (("seconds", seconds), ("pairs", _known(baseline, "pairs"))):
        plotted[name] = {key: value for key, value in numbers.items() if _is_number(value)}
    if _are_numbers([baseline.get("kept"), baseline.get("documents")]) and baseline["documents"]:
        plotted["kept"] = baseline["kept"] / baseline["documents"]
    return plotted


def _known(values: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the object below these names; an empty one where there is none."""
    for name in names:
        found = values.get(name)
        values = found if isinstance(found, dict) else {}
    return values


def _are_numbers(values: object) -> TypeGuard[list[float]]:
    return isinstance(values, list) and all(map(_is_number, values))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
