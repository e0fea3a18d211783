"""What a run is asked to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dedup.settings.options import Config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a run is asked to do."""

    inputs: Sequence[str]
    """Paths; of a table the folders that it is read from, as far as Spark knows them."""
    output: str
    config: Config
    overwrite: bool = False
    baseline: str | None = None
    table: "DataFrame | None" = None
    """The input, where it is rows of Spark and no files; no later run goes on with an unfinished one of it."""
