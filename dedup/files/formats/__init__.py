"""Formats of files: a new one takes a class in a module of its own and a line here."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dedup.files.formats.format import Format

FORMATS: dict[str, str] = {
    "parquet": "dedup.files.formats.parquet:ParquetFormat",
    "arrow": "dedup.files.formats.ipc:ArrowFormat",
    "orc": "dedup.files.formats.orc:OrcFormat",
    "jsonl": "dedup.files.formats.jsonl:JsonlFormat",
    "csv": "dedup.files.formats.csv:CsvFormat",
    "text": "dedup.files.formats.text:TextFormat",
}
"""Class of each format, after its module, by the name that users give it; imported on demand, so that a command line
that only lists names need not wait for pyarrow."""


def load_format(name: str) -> "Format":
    """Return the format with a name in FORMATS."""
    module, _, kind = FORMATS[name].partition(":")
    found: Format = getattr(import_module(module), kind)(name)
    return found


def list_creatable() -> list[str]:
    """Return the names of the formats in which rows of any input can be written."""
    return [name for name in FORMATS if load_format(name).can_create]
