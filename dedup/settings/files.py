"""Settings read from TOML files and the command line, and written back."""

import contextlib
import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, fields, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dedup.errors import ConfigError, suggest
from dedup.layers import LAYERS, load_table
from dedup.settings.options import Config, Lsh, check_signature_size
from dedup.settings.rules import Table, Texts, check, literal

DEEPEST = 8
"""Most dots in a key that is looked up; no setting has as many."""
_PRESETS = files("dedup.settings") / "presets"
_TABLES: Mapping[str, type[Table]] = MappingProxyType(
    {
        entry.name: entry.type
        for entry in fields(Config)
        if isinstance(entry.type, type) and issubclass(entry.type, Table)
    }
)
_OF_NO_TABLE: Mapping[str, Field[Any]] = MappingProxyType(
    {entry.name: entry for entry in fields(Config) if entry.name not in {*_TABLES, "tables"}}
)

GONE: Mapping[str, str] = MappingProxyType(
    {
        "shingles.seed": "set seed, one for all hashes",
        "lsh.seed": "set seed, one for all hashes",
        "candidates.estimate_sigmas": 'it is always 4; raise lsh.recall, or set mode = "exact", to find more pairs',
        "components.driver_edges": "it is always 5,000,000; set components.engine to choose who connects",
        "url.scheme": "leave it out, since http and https are always one address",
        "url.query": 'set url.tracking = ["*"] to leave out the query',
        "lines.sources": "set lines.documents, which counts the documents of all sources",
        "containment.max_larger": "set buckets.max_bucket, one cap for all",
        "alerts.chained_share_above": 'set cluster.linkage = "representative", which removes none such',
        "alerts.least_similarity_below": 'set cluster.linkage = "representative", where it is the threshold',
        "keep.copies_per_source": "set keep.copies, which counts the documents of all sources",
        'input.format = "delta"': "name the folder as a table: --table 'delta.`PATH`'",
    }
)
"""Settings and values of earlier releases, each with advice on its replacement."""


def load_config(
    path: str | None = None,
    preset: str | None = None,
    overrides: Sequence[str] = (),
    settings: Mapping[str, object] = MappingProxyType({}),
    options: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Config:
    """Read the settings: the defaults, changed by the preset, the file, the overrides, the settings, the options.

    >>> load_config(preset="code", settings={"lsh.bands": 30}).lsh.bands
    30

    Parameters
    ----------
    path
        TOML file of the user, UTF-8.
    preset
        Name of a file in `dedup/settings/presets`, without its suffix.
    overrides
        Settings as `key=value` with a dotted key, later ones winning; a value that is not TOML is taken as a string, or
        as strings with commas between where a list is asked for. An entry with a colon is whole.
    settings
        Values by dotted key, or by table and key.
    options
        Settings by the option of a command that stands for one: its dotted key, and the value as in an override.

    Returns
    -------
    Config
        The checked settings.

    Raises
    ------
    ConfigError
        When a file cannot be read or parsed, or a key or value is refused; one line names the place.
    """
    layers = []
    if preset is not None:
        layers.append((f"preset {preset}", _parse(f"preset {preset}", _read_preset(preset))))
    if path is not None:
        layers.append((path, _parse(path, _read(path))))
    layers += [("--set", _parse_override(override)) for override in overrides]
    layers += [("settings", _nest(key, value)) for key, value in settings.items()]
    layers += [(option, _nest(key, _parse_value(key, text))) for option, (key, text) in options.items()]

    merged: dict[str, Any] = {}
    size_where = ""
    for where, table in layers:
        changes = _flatten(where, table)
        merged |= changes
        # The last place that had a say in the signature size is the one to name when it is too large.
        if changes.keys() & {"lsh.bands", "lsh.rows"}:
            size_where = where
    default = Lsh()
    bands, rows = merged.get("lsh.bands", default.bands), merged.get("lsh.rows", default.rows)
    check_signature_size(size_where, "lsh.", bands, rows)
    return _build(merged)


def name_setting(keyword: str) -> str:
    """Return the dotted key that a Python keyword means: `__` stands for the dot, and a table may be left out.

    A key without its table is the setting of no table, the only one of that name, or the only one that is no layer's
    own; any other is returned as it is.

    >>> name_setting("lsh__bands"), name_setting("shingle_size"), name_setting("mode"), name_setting("seed")
    ('lsh.bands', 'shingles.shingle_size', 'mode', 'seed')
    """
    key = keyword.replace("__", ".")
    if find_field(key):
        return key
    # What is gone is found too, so that its replacement is told.
    same_last = _list_like(key, [*list_settings(), *GONE])
    of_all = [each for each in same_last if each.rpartition(".")[0] in _TABLES]
    found = next((each for each in (same_last, of_all) if len(each) == 1), [key])
    return found[0]


def parse_config(where: str, text: str) -> Config:
    """Return the settings that a TOML text changes, all others at their defaults.

    Raises
    ------
    ConfigError
        As for `load_config`; `where` is the name of the text in the message.
    """
    return _build(_flatten(where, _parse(where, text)))


def to_dict(config: Config) -> dict[str, Any]:
    """Return the settings in full as nested plain dictionaries, one for each table, ready for JSON."""
    found = asdict(replace(config, profile=(), tables=())) | {
        name: asdict(config.of(table)) for name, table in _load_tables().items()
    }
    del found["tables"]
    found |= {"profile": [each.to_dict() for each in config.profile], "alerts": found.pop("alerts")}
    plain: dict[str, Any] = _plain(found)
    return plain


def _plain(value: Any) -> Any:  # noqa: ANN401 - what TOML has
    """Return tuples as lists, as TOML and JSON read them."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return list(value) if isinstance(value, tuple) else value


def flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested tables into dotted keys, as `--set` takes them."""
    tables = {name: value for name, value in settings.items() if isinstance(value, Mapping)}
    single = {name: value for name, value in settings.items() if name not in tables}
    return single | {f"{table}.{name}": value for table, values in tables.items() for name, value in values.items()}


def to_toml(config: Config) -> str:
    """Return the settings in full as TOML that `load_config` reads back to an equal `Config`."""
    return write_toml(to_dict(config))


def write_toml(settings: Mapping[str, Any]) -> str:
    """Return settings, as `to_dict` gives them, as TOML."""
    top, tables = [], []
    for name, value in settings.items():
        if isinstance(value, dict):
            tables.append("\n".join([f"\n[{name}]", *(f"{key} = {literal(entry)}" for key, entry in value.items())]))
        else:
            top.append(f"{name} = {_inline(value)}")
    return "\n".join([*top, *tables]) + "\n"


def _inline(value: Any) -> str:  # noqa: ANN401 - what TOML has
    """Return a value as TOML, tables on the line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{literal(key)} = {_inline(entry)}' for key, entry in value.items())} }}"
    return f"[{', '.join(map(_inline, value))}]" if isinstance(value, list) else literal(value)


def _load_tables() -> dict[str, type[Table]]:
    """Return the settings of layers by name, of which every module is imported."""
    return {name: table for name in LAYERS if (table := load_table(name))}


def _find_table(name: str) -> type[Table] | None:
    """Return the table of a name, imported with its layer if it is one's; None where no table has the name."""
    return _TABLES.get(name) or load_table(name)


def find_field(key: str) -> Field[Any] | None:
    """Return the field of a dotted key; None of a key that is no setting."""
    table, _, name = key.rpartition(".")
    if not table:
        return _OF_NO_TABLE.get(name)
    kind = _find_table(table)
    return next((entry for entry in fields(kind) if entry.name == name), None) if kind else None


def list_settings() -> list[str]:
    """Return the dotted keys of all settings, those of no table first."""
    tables = {**_TABLES, **_load_tables()}
    return [*_OF_NO_TABLE, *(f"{name}.{entry.name}" for name, kind in tables.items() for entry in fields(kind))]


def _build(settings: Mapping[str, Any]) -> Config:
    """Make a `Config` of checked settings, given by dotted key."""
    given: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        table, _, name = key.rpartition(".")
        given.setdefault(table, {})[name] = value
    values = given.pop("", {})
    tables: dict[str, Any] = {name: kind(**own) for name, own in given.items() if (kind := _find_table(name))}
    of_layers = tuple(tables.pop(name) for name in LAYERS if name in tables)
    return Config(**values, **tables, tables=of_layers)


def _read(path: str) -> str:
    """Read a file of the user."""
    try:
        # Some Windows editors begin a file with a byte order mark, which TOML does not allow.
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}: must be UTF-8 (got byte {error.object[error.start]:#04x} at line {line})"
        ) from error
    # No path has a NUL.
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: must be a readable file (got {getattr(error, 'strerror', error)})") from error


def _read_preset(name: str) -> str:
    """Read a preset by name, never by path."""
    presets = list_presets()
    if name not in presets:
        rule = f"must be one of {', '.join(map(literal, presets))}"
        raise ConfigError(f"--preset: name {rule} (got {literal(name)}{suggest(str(name), presets)})")
    return presets[name]


def list_presets() -> dict[str, str]:
    """Return the texts of the presets by name, in order."""
    # The package may lie in a zip, as on a cluster.
    found = sorted((file for file in _PRESETS.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in found}


def _parse(where: str, text: str) -> dict[str, Any]:
    """Parse TOML; the message of a syntax error names the line as well."""
    try:
        return tomllib.loads(text)
    except ValueError as error:
        last_line = text.rstrip().count("\n") + 1
        reason = str(error).replace("(at end of document)", f"(at end of document, line {last_line})")
        raise ConfigError(f"{where}: {reason}") from error
    except RecursionError:
        raise ConfigError(f"{where}: must be TOML of tables in a file (got values nested too deep to read)") from None


def _parse_override(override: str) -> dict[str, Any]:
    """Turn `a.b=value` into nested dictionaries."""
    key, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"--set: override must be key=value (got {literal(override)})")
    return _nest(key.strip(), _parse_value(key.strip(), text, quoted=True))


def _parse_value(key: str, text: str, *, quoted: bool = False) -> Any:  # noqa: ANN401 - what TOML has
    """Return the value of a setting that a word of a command line stands for.

    Parameters
    ----------
    quoted
        Whether a string may be TOML's, in quotes, as in `--set`.
    """
    entry = find_field(key)
    kind = None if entry is None else entry.type
    value: Any = text.strip() if quoted else text
    if quoted or kind is not str:
        with contextlib.suppress(ValueError, RecursionError):
            # TOML asks for a digit before the point.
            parsed = tomllib.loads("value = " + re.sub(r"^\s*\.(?=[0-9])", "0.", text))
            # A line break can smuggle in further keys: such a text is no single value. A column may be called 1.
            known = str if kind is str else str | list if kind == Texts else object
            if parsed.keys() == {"value"} and isinstance(parsed["value"], known):
                value = parsed["value"]
    if kind == Texts and isinstance(value, str):
        return [value] if ":" in value else [part.strip() for part in value.split(",") if part.strip()]
    return value


def _nest(key: str, value: object) -> dict[str, Any]:
    """Return a value under its dotted key as TOML would nest it."""
    *parents, last = key.split(".")
    table = {last: value}
    for part in reversed(parents):
        table = {part: table}
    return table


def _flatten(where: str, table: Mapping[str, object], prefix: str = "") -> dict[str, Any]:
    """Return the settings of a parsed TOML table by dotted key, each one known and checked."""
    settings: dict[str, Any] = {}
    for part, value in table.items():
        name = prefix + (part if re.fullmatch(r"[\w-]+", part) else literal(part))
        gone = name if name in GONE else f'{name} = "{value}"' if isinstance(value, str) else ""
        if gone in GONE:
            raise ConfigError(f"{where}: {gone} is no setting any more: {GONE[gone]}")
        if entry := find_field(name):
            check(where, name, value, entry)
            settings[name] = value
        elif isinstance(value, dict) and (value or _find_table(name)) and name.count(".") < DEEPEST:
            settings |= _flatten(where, value, f"{name}.")
        elif _find_table(name):
            raise ConfigError(f"{where}: {name} must be a table (got {literal(value)})")
        else:
            raise ConfigError(f"{where}: unknown key {name} (did you mean {_find_nearest(name)}?)")
    return settings


def _find_nearest(name: str) -> str:
    """Return the known key most like an unknown one; the right key in the wrong table comes first."""
    known = list_settings()
    same_last = _list_like(name.rpartition(".")[2], known)
    return difflib.get_close_matches(name, same_last or known, n=1, cutoff=0.0)[0]


def _list_like(last: str, keys: Sequence[str]) -> list[str]:
    """Return the dotted keys that end with a name."""
    return [key for key in keys if key.rpartition(".")[2] == last]
