"""Measurements of the report compared with the limits of [alerts]."""

from collections.abc import Mapping, Sequence
from typing import Any

from dedup.display import number
from dedup.errors import AlertError


def find_breaches(report: Mapping[str, Any], limits: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the measurements beyond their limits, and unknown measurements with a limit.

    Parameters
    ----------
    report
        As from `report.build_report`.
    limits
        Table [alerts]: METRIC_above and METRIC_below, empty for no limit.

    Returns
    -------
    list of dict
        `alert`, the name of the limit; `metric`; `label`, the stage or source, empty where there is none; `value`, None
        where unknown; `limit`.
    """
    breaches = []
    for alert, limit in list_limits(limits).items():
        metric, _, side = alert.rpartition("_")
        sign = 1 if side == "above" else -1
        breaches += [
            {"alert": alert, "metric": metric, "label": label, "value": value, "limit": limit}
            for label, value in _measure(report, metric).items()
            if value is None or sign * value > sign * limit
        ]
    return breaches


def list_limits(alerts: Mapping[str, Any]) -> dict[str, float]:
    """Return the limits of table [alerts] that are set."""
    return {name: limit for name, limit in alerts.items() if name.endswith(("_above", "_below")) and limit != ""}


def _measure(report: Mapping[str, Any], metric: str) -> Mapping[str, float | None]:
    """Return the values of a metric by stage or source, or one value without a label."""
    if metric == "stage_seconds":
        return {name: stage["seconds"] for name, stage in report["stages"].items()}
    if metric == "survival_by_source" and report[metric]:
        return {name: source["kept"] / source["documents"] for name, source in report[metric].items()}
    return {"": report[metric]}


def to_sentence(breach: Mapping[str, Any]) -> str:
    """Describe a breach in words; labels from the corpus are quoted, with control characters escaped."""
    of = f" of {breach['label']!r}" if breach["label"] else ""
    if breach["value"] is None:
        return f"{breach['metric']} is unknown and has a limit of {number(breach['limit'])}"
    side = breach["alert"].rpartition("_")[2]
    return f"{breach['metric']}{of} is {number(breach['value'])}, {side} its limit of {number(breach['limit'])}"


def refuse(breaches: Sequence[Mapping[str, Any]], where: str) -> AlertError:
    """Return the error that ends a run because its report, in this folder, has breaches."""
    told = "; ".join(map(to_sentence, breaches))
    return AlertError(
        f"alerts: {told}; nothing was published: read {where}/report.html, and mend the cause or repeat the command "
        "with another limit, which goes on from here"
    )
