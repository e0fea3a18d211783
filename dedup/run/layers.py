"""Layers that the settings ask for: the columns and files that they read, and the settings that they lack."""

from dedup.errors import ConfigError
from dedup.files.profile_filter import Condition
from dedup.layers import LAYERS, NEAR, load_layer
from dedup.layers.layer import SHARED, Layer
from dedup.layers.references import Reference
from dedup.settings.keeping import list_merged
from dedup.settings.options import Config
from dedup.settings.profiles import list_conditioned
from dedup.settings.scope import list_changed


def load_layers(config: Config) -> list[type[Layer]]:
    """Return the classes of the layers, in their order."""
    return [load_layer(name) for name in config.layers]


def list_noted(config: Config) -> tuple[tuple[str, str], ...]:
    """Return the columns of which the values are read along, each after its setting.

    They are those of `keep.merge`, then of profiles, then of layers.
    """
    merged = [("keep.merge", name) for name in list_merged(config.keep.merge)]
    conditioned = [("profile.when", name) for name in list_conditioned(config.profile)]
    own = [column for layer in load_layers(config) for column in layer.list_columns(config)]
    return (*merged, *conditioned, *own)


def find_vector(config: Config) -> str:
    """Return the column of vectors that a layer reads; empty without any."""
    return next(filter(None, (layer.name_vector(config) for layer in load_layers(config))), "")


def list_places(config: Config) -> dict[str, range]:
    """Return the places of the columns of each layer among those of `list_noted`, by its name."""
    places = {}
    end = len(list_merged(config.keep.merge)) + len(list_conditioned(config.profile))
    for layer in load_layers(config):
        begin, end = end, end + len(layer.list_columns(config))
        places[layer.name] = range(begin, end)
    return places


def list_conditions(config: Config) -> tuple[tuple[Condition, ...], ...]:
    """Return the conditions of the profiles."""
    begin, columns = len(list_merged(config.keep.merge)), list_conditioned(config.profile)
    return tuple(
        tuple(Condition(begin + columns.index(name), values) for name, values in each.when) for each in config.profile
    )


def list_references(config: Config) -> list[Reference]:
    """Return the files that the layers read besides the input."""
    return [reference for layer in load_layers(config) for reference in layer.list_references(config)]


def list_idle(config: Config) -> list[str]:
    """Return the settings that are not the defaults, and that no layer of the run reads."""
    # A size of 1 is asked for where the elements of sets are the shingles, whatever the layers.
    read = {"shingles.shingle_size"} if config.shingles.has_sets else set[str]()
    idle = {*SHARED}.difference(read, *(layer.reads for layer in load_layers(config)))
    others = LAYERS.keys() - {*config.layers}
    return [name for name in list_changed(config) if name in idle or name.partition(".")[0] in others]


def check_layers(config: Config) -> None:
    """Refuse layers that lack a setting.

    Raises
    ------
    ConfigError
    """
    for layer in load_layers(config):
        layer.check(config)
        if config.compares_sets and layer.reads_texts:
            known = ", ".join(name for name in LAYERS if not load_layer(name).reads_texts)
            cause = 'shingles.unit = "set"' if config.shingles.has_sets else "input.columns"
            raise ConfigError(f'layers: must be some of {known} with {cause} (got "{layer.name}")')
    if config.keep.drop == "all" and not any(layer.copies_kind for layer in load_layers(config)):
        raise ConfigError(
            'keep.drop: "all" needs one of the layers url, exact and near, which find documents alike '
            f"(got layers = {list(config.layers)})"
        )
    if config.keep.copies != 1 and config.output.mode != "weights" and NEAR not in config.layers:
        raise ConfigError('keep.copies: needs the layer near, whose documents it keeps, or output.mode = "weights"')
    if config.evaluation.labeled_pairs and not {NEAR, "semantic"} & {*config.layers}:
        raise ConfigError(
            "evaluation.labeled_pairs: needs the layer near, whose components are held against them, or semantic, "
            f"whose threshold they choose (got layers = {list(config.layers)})"
        )


def check_parts(config: Config, *, has_table: bool) -> None:
    """Refuse settings that do not serve where documents are in several rows.

    Raises
    ------
    ConfigError
    """
    if not config.input.part_of:
        return
    if config.layers != (NEAR,) or config.shingles.unit not in {"tokens", "set"}:
        given = f"{list(config.layers)} and {config.shingles.unit}"
        raise ConfigError(f'input.part_of: needs layers = ["near"] and shingles.unit = "tokens" or "set" (got {given})')
    unset = {
        "input.table or a table": has_table,
        "input.id_column": config.input.id_column,
        "input.columns": config.input.columns,
        "input.without": config.input.without,
        "profile": [each.name for each in config.profile],
        "keep.merge": config.keep.merge,
        "keep.copies": config.keep.copies if config.keep.copies != 1 else 0,
        "limits.per_source": config.limits.per_source,
        "output.mode": config.output.mode if config.output.mode in {"ids", "weights"} else "",
    }
    for name, value in unset.items():
        if value:
            raise ConfigError(
                f"{name}: serves documents of one row alone, so input.part_of must be empty (got {value!r})"
            )


def name_repeated(config: Config) -> tuple[str, str]:
    """Return the first layer that removes copies, and its word for wholly equal rows; empty where these stay."""
    if config.keep.drop == "without" or config.input.part_of:
        return "", ""
    return next(((layer.name, layer.copies_kind) for layer in load_layers(config) if layer.copies_kind), ("", ""))
