"""Settings of a run that plans and evaluations refuse, or leave out, and those that nothing in a run reads."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from dedup.errors import ConfigError
from dedup.layers import LAYERS, NEAR
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
OF_FILES = ("input.format", "input.name_filter", "input.on_bad_record", "output.files")
"""Settings of files that the job reads and writes by itself."""
CHOOSING = ("keep.order", "limits.per_source")
READS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "url": CHOOSING,
        "exact": CHOOSING,
        "lines": (),
        NEAR: (
            *("threshold", "mode", "lsh.bands", "lsh.rows", "lsh.recall", "shingles.shingle_size"),
            *("buckets.max_bucket", "cluster.linkage", "cluster.max_component", *CHOOSING),
        ),
        "semantic": ("buckets.max_bucket", "cluster.max_component", *CHOOSING),
        "containment": ("shingles.shingle_size", "buckets.max_bucket", *CHOOSING),
        "contamination": (),
        "passages": ("keep.order",),
    }
)
"""Settings that layers read besides their own, of those that not all read; a layer that is not here reads all."""


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


def list_idle(config: Config) -> list[str]:
    """Return the settings that are not the defaults, and that no layer of the run reads."""
    read = {name for layer in config.layers for name in READS.get(layer, READS[NEAR])}
    # A size of 1 is asked for where the elements of sets are the shingles, whatever the layers.
    read |= {"shingles.shingle_size"} if config.shingles.has_sets else set()
    idle = {*READS[NEAR]} - read
    others = LAYERS.keys() - {*config.layers}
    return [name for name in list_changed(config) if name in idle or name.partition(".")[0] in others]
