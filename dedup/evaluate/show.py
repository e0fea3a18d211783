"""An evaluation as text for a terminal."""

from collections.abc import Mapping
from typing import Any

from dedup.display import printable

PRINTED = 10
"""Missed pairs and examples in the printed table."""


def to_table(answer: Mapping[str, Any]) -> str:
    """Write an answer as plain text; control characters of the corpus are escaped."""
    trials = answer["trials"]
    planted = f", {answer['planted']:,} copies planted" if answer["planted"] else ""
    drawn = f"{answer['drawn']:,} of {answer['documents']:,} drawn, {answer['alike']:,} similar ones added"
    lines = [
        f"truth        {answer['truth']}",
        f"documents    {drawn}{planted}",
        f"pairs        {answer['pairs']:,} in {answer['families']:,} families, {answer['pairs_identical']:,} identical",
    ]
    if answer["pairs_unknown"]:
        lines.append(f"left out     {answer['pairs_unknown']:,} labelled pairs of documents that the input lacks")
    lines += [
        f"signatures   {answer['signature_values']} values, {_name(each)} takes {_size(each)}; a run uses others"
        for each in trials.values()
        if not each["as_in_a_run"]
    ]
    lines += _warn(answer)
    lines += ["", _columns("", "", *(_name(each) for each in trials.values()))]
    found = (_number(each["recall"]["edges"]["of"]) for each in trials.values())
    lines.append(_columns("duplicates", "among the pairs", *found))
    for measure in ("recall", "precision"):
        for level, words in (("candidates", "compared"), ("edges", "an edge"), ("removals", "in one component")):
            shares = (_bounds(each[measure][level]) for each in trials.values())
            lines.append(_columns(measure if level == "candidates" else "", words, *shares))
        if measure == "recall":
            lines.append(
                _columns("", "by the S-curve", *(_number(each["recall_by_curve"]) for each in trials.values()))
            )
    lines.append(_columns("removed", "", *(_bounds(each["removed"]) for each in trials.values())))
    lines.append(_columns("", "exact answer", *(_number(each["removed_exactly"]["share"]) for each in trials.values())))
    for key in next(iter(trials.values()))["cost"]:
        values = (each["cost"][key] for each in trials.values())
        lines.append(
            _columns(
                "cost" if key == "pairs_per_document" else "", key.replace("_", " "), *(_number(v) for v in values)
            )
        )
    for name, each in trials.items():
        lines += ["", *_bins(each, f", {name}" if len(trials) > 1 else "")]
    for name, each in trials.items():
        lines += _missed(each, f", {name}" if len(trials) > 1 else "")
    lines += _sides(answer["sides"]) if answer["sides"] else []
    return "\n".join(map(printable, lines))


def _warn(answer: Mapping[str, Any]) -> list[str]:
    """Return lines of caution."""
    lines = []
    if answer["drawn"] < answer["documents"]:
        lines.append("caution      a sample has smaller buckets: the report of a run says what their cap costs")
    if answer["left_open"]:
        open_ones = f"{answer['left_open']:,} documents are in components that the sample holds in part"
        lines.append(f"caution      {open_ones}: more may be in one component, and removed")
    if answer["left_out"]:
        left_out = f"{', '.join(answer['left_out'])} left out"
        lines.append(f"caution      {left_out}: near alone removes all but the smallest id of each component")
    return lines


def _name(tried: Mapping[str, Any]) -> str:
    chosen = tried["settings"]
    return f"{chosen['lsh.bands']} x {chosen['lsh.rows']}, threshold {chosen['threshold']}"


def _size(tried: Mapping[str, Any]) -> int:
    return int(tried["settings"]["lsh.bands"] * tried["settings"]["lsh.rows"])


def _columns(group: str, name: str, *cells: str) -> str:
    return f"{group:<13}{name:<30}" + "".join(f"{cell:<30}" for cell in cells).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _bounds(share: Mapping[str, Any]) -> str:
    return "-" if share["share"] is None else f"{share['share']:.4f} ({share['low']:.4f} to {share['high']:.4f})"


def _bins(tried: Mapping[str, Any], name: str) -> list[str]:
    chosen = tried["settings"]
    head = f"1-(1-J^{chosen['lsh.rows']})^{chosen['lsh.bands']}"
    lines = [
        f"by similarity{name}",
        f"{'Jaccard':<15}{'pairs':>8}{'share a bucket':>26}{head:>16}{'compared':>10}{'edge':>8}{'component':>11}",
    ]
    for each in tried["bins"]:
        span = f"{each['from']:.2f} to {each['to']:.2f}" if each["from"] < 1 else "1 (identical)"
        lines.append(
            f"{span:<15}{each['pairs']:>8,}{_bounds(each['in_bucket']):>26}{each['by_curve']:>16.4f}"
            f"{each['candidates']:>10.4f}{each['edges']:>8.4f}{each['removals']:>11.4f}"
        )
    return lines


def _missed(tried: Mapping[str, Any], name: str) -> list[str]:
    lines = []
    for kind, title in (
        ("missed", "duplicates without an edge"),
        ("wrong", "labelled false but in one component"),
    ):
        if tried[f"{kind}_count"]:
            lines += ["", f"{title}{name}: {tried[f'{kind}_count']:,}"]
        for each in tried[kind][:PRINTED]:
            reason = f"; {each['reason']}" if "reason" in each else ""
            joined = ", but joined by others" if each.get("joined_by_others") else ""
            lines.append(f"{each['left_id']} - {each['right_id']}: {each['jaccard']:.4f}{reason}{joined}")
            lines.append(f"    share: {each['shared']}")
    return lines


def _sides(sides: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, side in sides.items():
        lines += ["", f"{name.replace('_', ' ')}: {side['documents']:,}, {side['drawn']:,} of them drawn"]
        for each in side["examples"][:PRINTED]:
            lines.append(f"{each['id']}, kept instead {each['representative_id']}, {each['jaccard']:.4f} similar")
            lines.append(f"    {each['text']}")
    return lines
