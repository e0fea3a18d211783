"""Answer of a plan as text for a terminal."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dedup.display import size
from dedup.plan.answer import TRIED
from dedup.plan.chance import LENGTHS, estimate_chance

WIDTH = 110
NAMES = {"tokens": "tokens", "char": "characters", "ids": "token ids"}


def to_text(answer: Mapping[str, Any]) -> str:
    """Write an answer."""
    settings, corpus = answer["settings"], answer["corpus"]
    lines = [
        (
            f"threshold {settings['threshold']:g}, shingles of {settings['shingle_size']}, {corpus['documents']:,} "
            f"documents of {corpus['tokens']:.0f} {NAMES[settings['unit']]} and {corpus['text_bytes']:,.0f} bytes"
        ),
        f"similarities: {corpus['source']}",
    ]
    if settings["unit"] == "char":
        lines += ["", *_warn(settings, corpus)]
    if answer["check"] and answer["targets"]:
        lines += ["", *_list_targets(answer["check"])]
    lines += ["", *_list_choices(answer)]
    for crossing in answer["crossings"]:
        lines += _wrap(
            f"{crossing['recall']} and {crossing['candidates']} meet at {crossing['bands']:.2f} bands of "
            f"{crossing['rows']:.2f} rows: fewer rows cannot meet both."
        )
    lines += ["", *_tell_widths(answer), "", *_compare_datasketch(answer)]
    if answer["capacity"]:
        lines += ["", *_list_capacity(answer)]
    return "\n".join(lines)


def _warn(settings: Mapping[str, Any], corpus: Mapping[str, Any]) -> list[str]:
    size, long = settings["shingle_size"], LENGTHS[-1]
    return _wrap(
        f"Unrelated texts share character shingles, long ones many: two of these documents have a similarity of "
        f"{corpus['mean_jaccard']:.4f} on average, two of {long:,} characters {estimate_chance(long, size):.4f}, where "
        "5 words a shingle leave .0004. Take longer shingles for longer texts: docs/choosing.md."
    )


def _list_targets(check: Mapping[str, Any]) -> list[str]:
    name = f"{check['bands']} x {check['rows']}"
    lines = [f"{name} {'meets all' if all(each['met'] for each in check['targets']) else 'misses targets'}"]
    return lines + [
        f"  {each['target']:<32} {_number(each['value']):>9}  {'met' if each['met'] else 'MISSED'}"
        for each in check["targets"]
    ]


def _list_choices(answer: Mapping[str, Any]) -> list[str]:
    choices = answer["choices"]
    similarities = list(choices[0]["probabilities"])
    head = ["bands", "rows", "values", "stored B", "shuffled B", *(f"P({each})" for each in similarities)]
    head += ["candidates", "compared", "core us"]
    best = _find_best(answer)
    rows = [
        [
            f"{each['bands']}",
            f"{each['rows']}",
            f"{each['signature_size']}",
            f"{each['signature_bytes']}",
            "-" if each["shuffle_bytes"] is None else f"{each['shuffle_bytes']:.0f}",
            *(_number(each["probabilities"][key]) for key in similarities),
            _number(each["candidates"]),
            _number(each["compared"]),
            f"{each['core_seconds'] * 1e6:.1f}",
            "<" if len(choices) > 1 and each is best else "",
        ]
        for each in choices
    ]
    lines = _align([[*head, ""], *rows])
    note = "Per document: bytes of a signature, bytes that a whole run shuffles, candidates, those compared exactly, "
    note += "microseconds of a core for the steps that depend on the choice."
    if len(choices) > 1:
        note += " < marks the cheapest choice; only choices that no other beats on every cost are listed."
    if any(each["shuffle_bytes"] is None for each in choices):
        note += (
            f" A choice of more than {TRIED} times its cost is not tried in the sample, and what it shuffles not told."
        )
    threshold = answer["settings"]["threshold"]
    return [
        *lines,
        "",
        *_wrap(f"{note} The signature filter wrongly drops {_one_in(best['lost'])} candidate pairs at {threshold:g}."),
    ]


def _tell_widths(answer: Mapping[str, Any]) -> list[str]:
    *narrower, kept = answer["widths"]
    others = [
        f"{each['standard_error']:.4f} with {each['bits']} bit{'s' * (each['bits'] > 1)} ({each['bytes']:,} bytes, "
        f"{_number(each['compared'])} compared)"
        for each in reversed(narrower)
    ]
    return _wrap(
        f"The estimate reads a byte of each value: its standard error at {answer['settings']['threshold']:g} is "
        f"{kept['standard_error']:.4f}. It would be {', '.join(others)}."
    )


def _find_best(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    best = answer["best"].items()
    return next(each for each in answer["choices"] if best <= each.items())


def _compare_datasketch(answer: Mapping[str, Any]) -> list[str]:
    other = answer["datasketch"]
    threshold = answer["settings"]["threshold"]
    size = _find_best(answer)["signature_size"]
    missed = [each["target"] for each in other["targets"] if not each["met"]]
    said = f", which misses {' and '.join(missed)}" if missed else ""
    return _wrap(
        f"datasketch would take {other['bands']} x {other['rows']} for {threshold:g} and at most {size} values: "
        f"P({threshold:g}) = {_number(other['probabilities'][f'{threshold:g}'])}{said}. It minimises the "
        "area under P below the threshold plus the area above P beyond it, as if pairs of every similarity were "
        "equally many. It takes neither a recall nor a cost into account, and its P is near a half at the threshold."
    )


def _list_capacity(answer: Mapping[str, Any]) -> list[str]:
    plan = answer["capacity"]
    ranges = plan["ranges"]
    span = _range(ranges["removed"], _rounded) if ranges else ""
    about = f" ({span})" if span else ""
    lines = [
        (
            f"{plan['documents']:,} documents, {size(plan['text_bytes'])} of text, {plan['bands']} x {plan['rows']}, "
            f"{plan['executors']} x {plan['cores']} cores, about {_rounded(plan['removed'])} removed{about}"
        ),
        "",
        *_list_stages(plan),
        "",
    ]
    if plan["uncounted"]:
        lines += _wrap(
            f"Not in this plan: the layers {', '.join(plan['uncounted'])}. Besides near only passages is planned, "
            "and only with --sample. Layers before near leave it less work than is planned."
        )
        lines.append("")
    if plan["left_out"]:
        lines += _wrap(f"Not in this plan: {', '.join(plan['left_out'])}. All but one of each component are removed.")
        lines.append("")
    lines += [
        (
            f"{stage['name'] + ' ' + kind:<24}{item['count']:>10.4g} x {_each(item['each']):>6} B = "
            f"{size(item['count'] * item['each']):>8}  {item['what']}"
        )
        for stage in plan["stages"]
        for kind in ("shuffle", "tables")
        for item in stage[kind]
    ]
    cores = plan["executors"] * plan["cores"]
    cost = f"cost: {_hours(plan['core_hours'])} core hours, {_hours(plan['core_hours_per_terabyte'])} for a TB of text"
    if plan["price"] is not None:
        cost += f"; in money {plan['price_of_work']:,.2f}, or {plan['price']:,.2f} for {cores:,} cores of the whole run"
    working = plan["core_hours"] - plan["start_core_hours"]
    idle = [stage["name"] for stage in plan["stages"] if stage["partitions"] < cores and stage["core_hours"] > 0]
    few = f"; stages with fewer tasks than cores: {', '.join(idle)}" if idle else ""
    lines += [
        "",
        f"rates: {answer['rates']['source']}",
        (
            f"hours: {_hours(working)} core hours / {cores:,} cores / {plan['efficiency']:.0%} + "
            f"{answer['rates']['fixed']:.0f} s = {_hours(plan['hours'])}{few}"
        ),
        cost,
        (
            f"memory: {size(plan['worker_bytes_per_executor'])} of Python workers in each executor, beside its heap; "
            f"{size(plan['driver_bytes'])} of the driver for edges ({plan['engine']} finds the components)"
        ),
        (
            f"disk: {size(plan['table_bytes'])} in OUT.partial besides the result; "
            f"{size(plan['shuffle_bytes'] / plan['executors'])} of shuffles on each executor"
        ),
        "",
    ]
    head = ["documents", "text", "tables", "shuffle", "core hours", "hours"]
    priced = plan["price"] is not None
    sizes = [
        [
            f"{each['documents']:,}",
            size(each["text_bytes"]),
            size(each["table_bytes"]),
            size(each["shuffle_bytes"]),
            _hours(each["core_hours"]),
            _hours(each["hours"]),
            *([f"{each['price']:,.2f}"] if priced else []),
        ]
        for each in plan["sizes"]
    ]
    return lines + _align([[*head, *(["price"] if priced else [])], *sizes])


def _list_stages(plan: Mapping[str, Any]) -> list[str]:
    """Return the table of stages; each number with its range, if a sample gives one."""
    measures = {"table_bytes": size, "shuffle_bytes": size, "core_hours": _hours}
    has_ranges = plan["ranges"] is not None
    table = [["stage"]]
    for name in ("tables", "shuffle", "core hours"):
        table[0] += [name, "LOW to HIGH"] if has_ranges else [name]
    for stage in [*plan["stages"], {**plan, "name": "all"}]:
        row = [stage["name"]]
        for measure, write in measures.items():
            row.append(write(stage[measure]))
            if has_ranges:
                row.append(_range(stage["ranges"][measure], write))
        table.append([*row, f"{stage['partitions']:,}" if "partitions" in stage else ""])
    table[0].append("tasks")
    begun = [""] * len(table[0])
    begun[0], begun[table[0].index("core hours")] = "start", _hours(plan["start_core_hours"])
    table.insert(-1, begun)
    if not has_ranges:
        return _align(table)
    low, high = plan["quantiles"]
    others = " and other families" if plan["families"] else ""
    note = f"LOW to HIGH: {low:.0%} to {high:.0%} quantiles of searches of the sample with other hash seeds{others}."
    return [*_align(table), "", *_wrap(note)]


def _range(ends: Sequence[float], write: Callable[[float], str]) -> str:
    low, high = map(write, ends)
    return f"{low} to {high}" if low != high else ""


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align cells in columns, the first of names to the left and numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    left = rows[1][0][:1].isalpha()
    return [
        "  ".join(
            cell.ljust(width) if left and not number else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _number(value: float) -> str:
    """Write a share or a count with four digits at most."""
    if value == 0:
        return "0"
    if value < 0.0005:
        return f"{value:.0e}"
    if value < 10:
        return f"{value:.4f}"
    return f"{value:,.0f}"


def _one_in(share: float) -> str:
    """Write a small share as so many in a power of ten."""
    if share == 0:
        return "no"
    whole = 10 ** max(-math.floor(math.log10(share)), 1)
    return f"{share * whole:.0f} in {whole:,}"


def _hours(value: float) -> str:
    return f"{value:,.2f}" if value >= 0.1 else f"{value:.2g}"


def _rounded(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}"


def _each(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
