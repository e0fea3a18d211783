"""The table [input] of the settings."""

from dataclasses import dataclass, field
from typing import Literal

from dedup.files.formats import FORMATS
from dedup.settings.rules import Range, Table, Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(Table):
    """Documents to read."""

    format: str = field(default="auto", metadata={"choices": lambda: ["auto", *FORMATS]})
    """Format of the input: "auto" guesses it from the file names, "parquet", "arrow" (IPC), "orc", "jsonl" (one JSON
    object a line) and "csv" hold one document a row, "text" holds one document a file."""

    table: str = ""
    """Table or view of Spark's catalog that is read in place of --input, such as "db.pages", or files or a folder of
    Delta Lake that Spark reads as one, such as "parquet.`/data/pages`" or "delta.`/data/pages`"; when empty, none."""

    id_column: str = ""
    """Column of the ids, unique integers or strings, dots leading to fields of structs; when empty, a row is identified
    by the digest of all its columns, and a document of "text" input by its path."""

    text_column: str = "text"
    """Column of the texts that are compared, dots leading to fields of structs as in "meta.body"; a null counts as an
    empty text."""

    source_column: str = ""
    """Column of where a document comes from (a feed, a domain, a language), by which the report counts what is left
    and limits.per_source what is removed; when empty, all documents are of one source."""

    name_filter: str = ""
    """Hadoop glob that file names must match to be read, such as "*.{py,md}"; when empty, all files are read."""

    max_text_bytes: int = field(default=1 << 28, metadata={"range": Range(1)})
    """Longest text in bytes of UTF-8, a 64-bit integer of at least 1; a longer one ends the job by its id, since the
    worker that reads it needs 8 bytes of memory for each of its bytes."""

    without: Texts = ()
    """Documents that the input is to lose, a list of Unicode strings: files, folders or globs of any format, with the
    columns of the input, or one store; tables where the input is one. They take part in the search, are preferred to
    all of the input, and are not written; when empty, there are none."""

    without_batches: Texts = ()
    """Batches of the store in input.without whose documents count, a list of Unicode strings; when empty, all."""

    on_bad_record: Literal["fail", "quarantine"] = "fail"
    """A line of "jsonl" that is no JSON object, or a row of "csv" with more or fewer cells than the header: "fail" ends
    the job, "quarantine" sets it aside in the output's folder quarantine, with its file and the reason."""
