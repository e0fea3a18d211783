"""Details of layers as tables for people."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dedup.display import count, number

LONGEST = 300
"""Characters shown of a text."""


class Listed(NamedTuple):
    """Table of a layer's details."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def list_details(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the layers with details: `name`, and `tables`, the first of single numbers."""
    layers = [layer for layer in report["layers"] if "details" in layer]
    return [{"name": layer["layer"], "tables": tabulate(layer["details"])} for layer in layers]


def find_curve(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the details of the layer whose threshold was chosen by vectors; none of other reports."""
    found = (layer.get("details", {}) for layer in report.get("layers") or ())
    return next((details for details in found if details.get("curve")), {})


def tabulate(details: Mapping[str, Any]) -> list[Listed]:
    """Return tables of single values, of lists of records, and of nested values."""
    single = [(_name(key), _show(value)) for key, value in details.items() if not isinstance(value, Mapping | list)]
    tables = [Listed("", ["", ""], single)] if single else []
    for key, value in details.items():
        title = _name(key)
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            tables += _tabulate_records(title, value)
        elif isinstance(value, list) and value:
            tables.append(Listed(title, ["", ""], [(str(place), _show(each)) for place, each in enumerate(value)]))
        elif isinstance(value, Mapping):
            tables += [table._replace(title=f"{title} {table.title}".strip()) for table in tabulate(value)]
    return tables


def _tabulate_records(title: str, records: Sequence[Mapping[str, Any]]) -> list[Listed]:
    """Return a table of records, and tables of the lists within them."""
    names = [key for key in records[0] if not any(isinstance(record[key], Mapping | list) for record in records)]
    tables = [
        Listed(title, [_name(key) for key in names], [[_show(record[key]) for key in names] for record in records])
    ]
    for record in records:
        nested = {key: value for key, value in record.items() if key not in names and value}
        tables += [
            table._replace(title=f"{title}, {_show(record[names[0]])}: {table.title}") for table in tabulate(nested)
        ]
    return tables


def _name(key: str) -> str:
    return key.replace("_", " ")


def _show(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    if isinstance(value, int):
        return count(value)
    if isinstance(value, float):
        return number(value)
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
