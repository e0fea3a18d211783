"""A request for a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dedup.settings.options import Config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request for a run."""

    inputs: Sequence[str]
    """Paths; of a table the folders that it is read from, as far as Spark knows them."""
    output: str
    config: Config
    overwrite: bool = False
    baseline: str | None = None
    table: "DataFrame | None" = None
    """The input, where it is rows of Spark and no files; an unfinished run of it is not resumed."""
