"""A request for a run."""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from dedup.errors import ConfigError
from dedup.files.systems import redact
from dedup.run.layers import check_layers, check_parts, list_idle, list_references
from dedup.settings.banding import SIGMAS, choose, find_recall
from dedup.settings.keeping import needs_spark
from dedup.settings.options import Config
from dedup.settings.scope import OF_FILES, list_changed, list_overruled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOG = logging.getLogger("dedup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request for a run."""

    inputs: Sequence[str]
    """Paths; of a table those that it is read from, as far as Spark knows them."""
    output: str
    config: Config
    overwrite: bool = False
    baseline: str | None = None
    table: "DataFrame | None" = None
    """The input, where it is rows of Spark and no files; an unfinished run of it is not resumed."""
    foreign_tables: "Mapping[str, DataFrame]" = field(default_factory=dict)
    """Rows that such an input is to lose, by the names of their tables."""
    preset: str = ""
    """Name of the preset of its settings, for the report; empty without one."""
    begun: float = field(default_factory=time.time)
    """Start of the run, in seconds since 1970."""

    @property
    def has_table(self) -> bool:
        """Whether the input is rows that Spark reads."""
        return self.table is not None or bool(self.config.input.table)

    @property
    def read(self) -> list[str]:
        """Paths of all that a run reads."""
        labels = filter(None, [self.config.evaluation.labeled_pairs])
        return [*self.inputs, *self.foreign, *labels, *(each.path for each in list_references(self.config))]

    @property
    def foreign(self) -> list[str]:
        """Paths of documents that the input is to lose, where they are files."""
        return [] if self.has_table else [*self.config.input.without]

    def settle(self) -> Self:
        """Return the job with numbers for what the settings leave to it; a warning tells if they find too little.

        Raises
        ------
        ConfigError
            When settings lack what they need of others.
        """
        config = self.config
        check_layers(config)
        check_parts(config, has_table=self.has_table)
        self.check_rows()
        if not config.input.source_column and any(entry.startswith("source:") for entry in config.keep.order):
            raise ConfigError("keep.order: source:... needs input.source_column, which is empty")
        if not config.input.source_column and config.limits.per_source:
            raise ConfigError(
                f"limits.per_source: needs input.source_column, which is empty (got {config.limits.per_source})"
            )
        if config.profile and config.evaluation.labeled_pairs:
            raise ConfigError(
                "evaluation.labeled_pairs: must be empty where there are profiles, which find pairs of their own "
                f"(got {config.evaluation.labeled_pairs!r})"
            )
        if idle := list_idle(config):
            LOG.warning(
                "%s: changes nothing with layers = %s, none of which reads it", ", ".join(idle), list(config.layers)
            )
        for cause, names in list_overruled(config, [each for each in list_changed(config) if each not in idle]).items():
            LOG.warning("%s: changes nothing with %s", ", ".join(names), cause)
        if self.has_table and (idle := list_changed(config, OF_FILES)):
            LOG.warning("%s: changes nothing of a table, whose files Spark reads and writes", ", ".join(idle))
        for name, own in config.by_profile.items():
            _warn_of_recall(own, f'profile "{name}": lsh' if config.profile else "lsh")
        return replace(self, config=config.settle())

    def check_foreign(self) -> None:
        """Refuse settings that have no meaning where documents lead that are none of the input, or where nobody stays.

        Raises
        ------
        ConfigError
        """
        config = self.config
        if config.keep.drop == "without" and not config.input.without:
            raise ConfigError('keep.drop: "without" needs input.without, which is empty')
        if not config.input.without and config.keep.drop == "others":
            return
        wants = {"limits.per_source": (config.limits.per_source, 0), "keep.copies": (config.keep.copies, 1)}
        for name, (value, one) in wants.items():
            if value != one:
                raise ConfigError(f"{name}: must be {one} where input.without or keep.drop decides (got {value!r})")
        if config.output.mode == "weights":
            raise ConfigError('output.mode: "weights" removes nothing, so input.without and keep.drop must not be set')

    def check_rows(self) -> None:
        """Refuse files where the settings ask for what is done with rows that Spark reads, and paths as a table.

        Raises
        ------
        ConfigError
        """
        table = self.config.input.table
        if "/" in re.sub("`[^`]*`", "", table):
            raise ConfigError(
                f"input.table: must be a table of Spark's catalog, or files named as one, such as parquet.`PATH` (got "
                f"{redact(table)!r}); give files by themselves as --input"
            )
        wants = {
            'keep.order: "sql:..."': needs_spark(self.config.keep.order),
            "output.table:": bool(self.config.output.table),
        }
        for setting, is_wanted in wants.items():
            if is_wanted and not self.has_table:
                path = redact(next(iter(self.inputs), "PATH"))
                named = f"--table 'parquet.`{path}`' (or orc, json, csv)"
                raise ConfigError(f"{setting} needs a table: {named} in place of --input")


def _warn_of_recall(config: Config, where: str) -> None:
    """Tell if given bands and rows miss the recall that "auto" would have."""
    wanted = config.lsh.recall
    found = find_recall(config.threshold, config.banding, SIGMAS)
    if config.mode == "lsh" and found < wanted - 1e-12:
        best = choose(config.threshold, wanted, SIGMAS)
        does = find_recall(config.threshold, best, SIGMAS) >= wanted - 1e-12
        LOG.warning(
            "%s: %s bands of %s rows find a pair at the threshold of %g with a probability of %.4f, below "
            "lsh.recall = %g; %s",
            *(where, *config.banding, config.threshold, found, wanted),
            f"{best.bands} bands of {best.rows} rows would do" if does else 'only mode = "exact" finds so many',
        )
