"""Columns that the layers of the settings read, and settings that they lack."""

from collections.abc import Sequence

from dedup.errors import ConfigError
from dedup.files.profile_filter import Condition
from dedup.settings.keeping import list_merged
from dedup.settings.layers import NEAR
from dedup.settings.options import Config
from dedup.settings.profiles import list_conditioned

KINDS = {"url": "url", "exact": "equal", NEAR: "identical"}
"""Kind by which a layer that removes copies calls wholly equal rows."""


def list_noted(config: Config) -> tuple[tuple[str, str], ...]:
    """Return the columns of which the values are read along, each after its setting.

    They are those of `keep.merge`, then of profiles, then of url.
    """
    merged = [("keep.merge", name) for name in list_merged(config.keep.merge)]
    conditioned = [("profile.when", name) for name in list_conditioned(config.profile)]
    own = [("url.column", config.url.column)] if "url" in config.layers else []
    return (*merged, *conditioned, *own)


def list_conditions(config: Config) -> tuple[tuple[Condition, ...], ...]:
    """Return the conditions of the profiles."""
    begin, columns = len(list_merged(config.keep.merge)), list_conditioned(config.profile)
    return tuple(
        tuple(Condition(begin + columns.index(name), values) for name, values in each.when) for each in config.profile
    )


def check_layers(config: Config) -> None:
    """Refuse layers that lack a setting.

    Raises
    ------
    ConfigError
    """
    if "url" in config.layers and not config.url.column:
        raise ConfigError('url.column: must name the column of addresses for the layer "url" (got "")')
    if "contamination" in config.layers and not config.contamination.sets:
        raise ConfigError('contamination.sets: must name sets of texts for the layer "contamination" (got none)')
    if "lines" in config.layers and config.lines.sources and not config.input.source_column:
        raise ConfigError(
            f"lines.sources: must be 0 where input.source_column names no column (got {config.lines.sources})"
        )


def name_repeated(layers: Sequence[str]) -> tuple[str, str]:
    """Return the first layer that removes copies, and its word for wholly equal rows; empty without one."""
    return next(((name, KINDS[name]) for name in layers if name in KINDS), ("", ""))
