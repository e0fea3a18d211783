"""Settings of a run that plans and evaluations refuse, or leave out, and those that are not the defaults."""

from collections.abc import Iterable

from dedup.errors import ConfigError
from dedup.layers import NEAR
from dedup.settings.files import find_field, flatten, to_dict
from dedup.settings.options import Config
from dedup.settings.rules import literal

DECIDING = (
    "cluster.linkage",
    "cluster.max_component",
    "keep.drop",
    "keep.copies",
    "limits.per_source",
    "input.without",
)
"""Settings by which other documents go than all but one of each component."""
OF_FILES = ("input.format", "input.name_filter", "input.on_bad_record", "output.files")
"""Settings of files that the job reads and writes by itself."""


def refuse_without_near(config: Config, purpose: str) -> None:
    """Refuse layers without near for a purpose that is about its bands.

    Raises
    ------
    ConfigError
    """
    if NEAR not in config.layers:
        raise ConfigError(f"layers must name near {purpose} (got {','.join(config.layers)})")


def list_left_out(config: Config, *names: str) -> list[str]:
    """Return which of DECIDING, and of further settings, are not the defaults."""
    return list_changed(config, (*DECIDING, *names))


def list_changed(config: Config, names: Iterable[str] | None = None) -> list[str]:
    """Return which of some settings, or of all, are not the defaults."""
    chosen, usual = (flatten(to_dict(each)) for each in (config, Config()))
    return [name for name in (chosen if names is None else names) if chosen[name] != usual[name]]


def list_overruled(config: Config, names: Iterable[str]) -> dict[str, list[str]]:
    """Return which of some settings change nothing for what another one says, by that and its value."""
    values, found = flatten(to_dict(config)), dict[str, list[str]]()
    for name in names:
        entry = find_field(name)
        other, *wanted = entry.metadata.get("needs", [""]) if entry else [""]
        if other and values[other] not in wanted:
            found.setdefault(f"{other} = {literal(values[other])}", []).append(name)
    return found
