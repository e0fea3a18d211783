"""The table [input] of the settings."""

import re
from dataclasses import dataclass, field
from typing import Literal

from dedup.errors import ConfigError
from dedup.files.formats import FORMATS
from dedup.settings.rules import Range, Table, Texts

MOST_WEIGHT = 64
"""Most elements of a set that a shingle is in all columns together."""


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

    part_of: str = ""
    """Column with the id of the document of which a row is a part, in place of id_column, for the layer near and files:
    all its rows, in the order in which they stand, are one document, which stays or goes as a whole. When empty, a row
    is a document."""

    text_column: str = "text"
    """Column of the texts that are compared, dots leading to fields of structs as in "meta.body"; a null counts as an
    empty text."""

    columns: Texts = ()
    """Columns whose texts are compared as one set of the shingles of each, a list of Unicode strings, of two or more in
    place of text_column, for the layers near, url and containment; in "title * 3" each shingle of the column counts as
    three. When empty, text_column alone."""

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

    def __post_init__(self) -> None:
        """Check the fields, then the columns together."""
        Table.__post_init__(self)
        weights = self.weights
        if self.columns and not 1 < len(weights) == len(self.columns) <= sum(weights.values()) <= MOST_WEIGHT:
            rule = f'must be two names or more, each once, as "title" or "title * 3", of at most {MOST_WEIGHT} in all'
            raise ConfigError(f"input.columns: {rule} (got {', '.join(self.columns)})")

    @property
    def document_column(self) -> str:
        """Column of the ids of documents; empty where a row is identified by its digest."""
        return self.part_of or self.id_column

    @property
    def weights(self) -> dict[str, int]:
        """Columns of the texts that are compared, each with the number as which a shingle of it counts."""
        found = (re.fullmatch(r"([^,]+?)(?: *\* *([1-9]\d?))?", each) for each in self.columns)
        return {each[1]: int(each[2] or 1) for each in found if each} or {self.text_column: 1}
