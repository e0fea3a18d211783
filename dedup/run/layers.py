"""The layers that the settings ask for, but `near`, which each engine has its own way of."""

from collections.abc import Sequence

from dedup.errors import ConfigError
from dedup.files.chosen import Condition
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.containment import ContainmentLayer
from dedup.layers.contamination import ContaminationLayer
from dedup.layers.copies import Choice
from dedup.layers.exact import ExactLayer
from dedup.layers.layer import Layer
from dedup.layers.lines import LinesLayer
from dedup.layers.passages import NAME as PASSAGES
from dedup.layers.passages import PassagesLayer
from dedup.run.prompts import read_prompts
from dedup.settings.keeping import list_merged, parse_order
from dedup.settings.layers import NEAR, parse_sets
from dedup.settings.options import Config
from dedup.settings.profiles import list_conditioned

KINDS = {"url": "url", "exact": "equal", NEAR: "identical"}
"""What a layer that removes copies calls wholly equal rows."""


def make_layer(name: str, config: Config, tokenizer: Tokenizer, noted: int) -> Layer:
    """Return a layer.

    Parameters
    ----------
    noted
        Columns that are read along.
    """
    choice = Choice(
        rules=parse_order(config.keep.order, "keep"),
        copies=config.keep.copies,
        copies_per_source=config.keep.copies_per_source,
        per_source=config.limits.per_source,
    )
    if name == "exact":
        return ExactLayer(tokenizer=tokenizer if config.exact.compare == "text" else None, choice=choice)
    if name == PASSAGES:
        return PassagesLayer(settings=config.passages, tokenizer=tokenizer, rules=choice.rules)
    if name == "lines":
        return LinesLayer(settings=config.lines, tokenizer=tokenizer)
    if name == "containment":
        size = config.shingles.shingle_size
        return ContainmentLayer(settings=config.containment, tokenizer=tokenizer, shingle_size=size, choice=choice)
    if name == "contamination":
        prompts = read_prompts(parse_sets(config.contamination.sets, "contamination"))
        return ContaminationLayer(settings=config.contamination, tokenizer=tokenizer, prompts=prompts)
    from dedup.layers.url import Form, UrlLayer  # noqa: PLC0415 - its parser is loaded where it is used

    form = Form(
        with_scheme=config.url.scheme == "compare",
        with_query=config.url.query == "compare",
        tracking=config.url.tracking,
    )
    # Its column is the last that is read along.
    return UrlLayer(place=noted - 1, form=form, choice=choice)


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
