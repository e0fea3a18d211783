"""Report of a run as text for a terminal."""

from collections.abc import Mapping
from typing import Any

from dedup.layers import NEAR
from dedup.report.alerts import to_sentence


def _list_removed(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows of the table of layers and their finds."""
    names = [layer["layer"] for layer in report["layers"]]
    rows = [(f"rows {name}", f"{count:,}") for name, count in (report["parts"] or {}).items()]
    for layer in report["layers"] if names != [NEAR] else ():
        rows.append((f"removed by {layer['layer']}", f"{layer['removed']:,}"))
        if layer["spans"]:
            rows.append((f"spans of {layer['layer']}", f"{layer['spans']:,}"))
    if NEAR in names:
        rows += [(name, f"{report[name]:,}") for name in ("identical", "near", "components")]
        rows.append(("pairs uncompared", f"{report['pairs']['uncompared']:,}"))
    return rows


def to_table(report: Mapping[str, Any], seconds: float | None = None) -> str:
    """Return breaches of alerts, the headline and the seconds of every stage as plain text.

    Parameters
    ----------
    seconds
        Seconds of the whole run; by default those until the report was made.
    """
    rows = [
        ("documents", f"{report['documents']:,}"),
        ("kept", f"{report['kept']:,}"),
        *_list_removed(report),
        *((f"removed of {each['name']}", f"{each['removed']:,}") for each in report["profiles"]),
    ]
    if report["without"]:
        rows.append(("removed for --without", f"{report['without']['removed']:,}"))
    if report["spared"]:
        rows.append(("spared by the limit", f"{report['spared']:,}"))
    if report["chained"]:
        rows.append(("removed by chains", f"{report['chained']:,}"))
        rows.append(("least similarity", f"{report['least_similarity']:.4f}"))
    if report["relinked"]:
        rows.append(("giant components", f"{report['relinked']:,}"))
    if len(report["decided"]) > 1:
        rows += [(f"decided by {rule}", f"{count:,}") for rule, count in report["decided"].items()]
    if report["quarantined"]:
        rows.append(("records quarantined", f"{report['quarantined']:,}"))
    if report["pairs"]["uncompared"]:
        rows.append(("lost pairs, at most", f"{report['uncompared']['lost_at_most']:,}"))
    if report["labeled_pairs"]:
        rows.append(("recall of labelled", f"{report['recall_on_labeled_set']:.4f}"))
    lines = [f"ALERT: {to_sentence(breach)}" for breach in report["alerts"]]
    if lines:
        lines.append("")
    width = max([22, *(len(name) for name, _ in rows)])
    lines += [f"{name:<{width}}{value:>10}" for name, value in rows]
    stages = report["stages"]
    width = max([18, *(len(name) + 2 for name in stages)])
    lines += ["", f"{'stage':<{width}}{'rows':>14}{'seconds':>10}"]
    lines.append(f"{'start':<{width}}{'':>14}{report['start_seconds']:>10.1f}")
    lines += [f"{name:<{width}}{each['rows']:>14,}{each['seconds']:>10.1f}" for name, each in stages.items()]
    whole = report["seconds"] if seconds is None else seconds
    rest = whole - report["start_seconds"] - sum(each["seconds"] for each in stages.values())
    # Steps of which a part was made beside another stage count twice.
    lines += [f"{name:<{width}}{'':>14}{each:>10.1f}" for name, each in (("report", max(rest, 0.0)), ("all", whole))]
    return "\n".join(lines)
