"""Settings of a run that plans and evaluations refuse, or leave out."""

from dedup.errors import ConfigError
from dedup.layers import NEAR
from dedup.settings.files import flatten, to_dict
from dedup.settings.options import Config

DECIDING = (
    "cluster.linkage",
    "cluster.max_component",
    "keep.drop",
    "keep.copies",
    "limits.per_source",
    "input.without",
)
"""Settings by which other documents go than all but one of each component."""


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
    chosen, usual = (flatten(to_dict(each)) for each in (config, Config()))
    return [name for name in (*DECIDING, *names) if chosen[name] != usual[name]]
