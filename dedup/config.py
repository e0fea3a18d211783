"""The settings of a job: one frozen dataclass per TOML table, checked once and then passed around as data.

A default stands beside its field and nowhere else; `conf/dedup.toml` repeats the defaults and the field docstrings for
users, and a test compares the two.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from dedup.errors import ConfigError
from dedup.fields import Limit
from dedup.fields import Range as _Range
from dedup.fields import Table as _Table
from dedup.fields import check as _check
from dedup.fields import literal as _literal

MAX_SIGNATURE_SIZE = 16384
"""Most MinHash values in a signature: 128 KiB a document as 64-bit values, far above any published setting."""

_PRESETS = Path(__file__).resolve().parent.parent / "conf" / "presets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input(_Table):
    """What is read."""

    format: Literal["auto", "parquet", "jsonl", "csv", "text"] = "auto"
    """Format of the input: "auto" guesses it from the file names, "parquet" and "csv" and "jsonl" (one JSON object a
    line) hold one document a row, "text" holds one document a file."""

    id_column: str = ""
    """Column of the ids, unique integers or strings; when empty, a row is identified by the digest of all its columns,
    and a document of "text" input by its path."""

    text_column: str = "text"
    """Column of the texts that are compared; a null counts as an empty text."""

    name_filter: str = ""
    """Hadoop glob that file names must match to be read, such as "*.{py,md}"; when empty, all files are read."""

    on_bad_record: Literal["fail", "quarantine"] = "fail"
    """A line of "jsonl" that is no JSON object, or a row of "csv" with more or fewer cells than the header: "fail" ends
    the job, "quarantine" sets it aside in the output's folder quarantine, with its file and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shingles(_Table):
    """How a text becomes a set of shingles; signatures made with different values are never compared."""

    shingle_size: int = field(default=5, metadata={"range": _Range(1, 64)})
    """Consecutive tokens in a shingle, an integer from 1 to 64: a larger one makes long copies stand out from common
    phrases, a smaller one forgives more edits; a document with fewer tokens has one shingle of all its tokens."""

    seed: int = field(default=1, metadata={"range": _Range(0)})
    """Seed of the token hash, a 64-bit integer of at least 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lsh(_Table):
    """Which pairs are compared: a pair of similarity J is a candidate with probability 1 - (1 - J^rows)^bands."""

    bands: int = field(default=21, metadata={"range": _Range(1, 4096)})
    """Bands of a signature, an integer from 1 to 4096: more bands find more true pairs and make more candidates;
    bands times rows is at most 16384."""

    rows: int = field(default=6, metadata={"range": _Range(1, 128)})
    """MinHash values in a band, an integer from 1 to 128: more rows make fewer candidates and find fewer true pairs."""

    seed: int = field(default=1, metadata={"range": _Range(0)})
    """Seed of the MinHash functions and of the band keys, a 64-bit integer of at least 0."""

    def __post_init__(self) -> None:
        """Check the fields, then their product."""
        # Not super(): on a class with slots it refers to the class before the slots were added.
        _Table.__post_init__(self)
        _check_signature_size(type(self).__name__, "", self.bands, self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets(_Table):
    """How documents that share a band key are paired."""

    max_bucket: int = field(default=150, metadata={"range": _Range(2)})
    """Documents in the largest bucket of which all pairs are candidates, a 64-bit integer of at least 2; larger
    buckets are compared under this cap, and the pairs left uncompared are counted in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates(_Table):
    """Which candidates are dropped before the exact comparison."""

    estimate_sigmas: float = field(default=4.0, metadata={"range": _Range(0)})
    """Standard errors below the threshold at which the signatures' estimate drops a candidate, a finite number of at
    least 0: 4 loses fewer than 1 in 10,000 true pairs, 0 up to half of those at the threshold, and a large number
    drops none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Components(_Table):
    """How edges become components; the result is the same whichever engine computes it."""

    engine: Literal["auto", "graphframes", "driver"] = "auto"
    """Engine: "graphframes" computes on the cluster, "driver" in the driver's memory, and "auto" takes the driver for
    forests of up to driver_edges edges."""

    driver_edges: int = field(default=5_000_000, metadata={"range": _Range(0)})
    """Edges of the largest forest that "auto" sends to the driver, a 64-bit integer of at least 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Representatives(_Table):
    """Which document of a component is kept."""

    policy: Literal["smallest_id"] = "smallest_id"
    """Policy: "smallest_id" keeps the smallest id in the user's own order, numbers as numbers and strings by bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(_Table):
    """What is written."""

    mode: Literal["filter", "annotate", "ids"] = "filter"
    """Result: "filter" writes the surviving rows, "annotate" all rows with columns that say what became of them, "ids"
    only the ids of the surviving rows."""

    format: Literal["input", "parquet", "jsonl", "csv"] = "input"
    """Format of the rows written: "input" is that of the input, "parquet", "jsonl" and "csv" are themselves; "text"
    input is written as "parquet", since one document a file has no row format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts(_Table):
    """Limits of what the report measures; a measurement beyond its limit, or unknown though it has one, is a breach."""

    on_breach: Literal["warn", "fail"] = "warn"
    """After a breach: "warn" publishes the result and shows the breach first in the report, "fail" ends the job with
    exit code 3 before anything is published; the same command with other limits goes on from there."""

    removal_rate_above: Limit = field(default="", metadata={"range": _Range(0, 1)})
    """Most of the documents that may be removed, a number of at least 0 and at most 1, or empty for no limit."""

    removal_rate_below: Limit = field(default="", metadata={"range": _Range(0, 1)})
    """Least of the documents that must be removed, a number of at least 0 and at most 1, or empty for no limit."""

    removal_rate_change_above: Limit = field(default="", metadata={"range": _Range(0, 1)})
    """Greatest difference of the removal rate to that of the --baseline, up or down, a number of at least 0 and at most
    1, or empty for no limit."""

    survival_by_source_below: Limit = field(default="", metadata={"range": _Range(0, 1)})
    """Least of the documents of any source that must be kept, a number of at least 0 and at most 1, or empty for no
    limit."""

    empty_rate_above: Limit = field(default="", metadata={"range": _Range(0, 1)})
    """Most of the documents that may have no token, a number of at least 0 and at most 1, or empty for no limit."""

    candidate_pairs_per_doc_above: Limit = field(default="", metadata={"range": _Range(0)})
    """Most candidates per document, a finite number of at least 0, or empty for no limit."""

    bucket_size_p99_above: Limit = field(default="", metadata={"range": _Range(0)})
    """Most documents that 99 of 100 buckets may hold, a finite number of at least 0, or empty for no limit."""

    verify_drop_rate_above: Limit = field(default="", metadata={"range": _Range(0, 1)})
    """Most of the candidates that the exact comparison may drop, a number of at least 0 and at most 1, or empty for no
    limit."""

    recall_on_labeled_set_below: Limit = field(default="", metadata={"range": _Range(0, 1)})
    """Least of the labelled pairs that must be found, a number of at least 0 and at most 1, or empty for no limit."""

    signature_bytes_above: Limit = field(default="", metadata={"range": _Range(0)})
    """Most bytes of the table of signatures, a finite number of at least 0, or empty for no limit."""

    index_bytes_above: Limit = field(default="", metadata={"range": _Range(0)})
    """Most bytes of band rows that are shuffled into buckets, a finite number of at least 0, or empty for no limit."""

    stage_seconds_above: Limit = field(default="", metadata={"range": _Range(0)})
    """Most seconds of any one stage, a finite number of at least 0, or empty for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(_Table):
    """What counts as a near duplicate, and how the pairs are found."""

    threshold: float = field(default=0.8, metadata={"range": _Range(0, 1, above=True)})
    """Least Jaccard similarity of the shingle sets of two near duplicates, a number above 0 and at most 1."""

    mode: Literal["lsh", "exact"] = "lsh"
    """Search: "lsh" finds pairs by MinHash, for corpora of any size; "exact" finds every pair at or above the
    threshold, for small corpora and as ground truth. Either way every pair is verified exactly."""

    input: Input = field(default_factory=Input)
    """Table [input]."""

    shingles: Shingles = field(default_factory=Shingles)
    """Table [shingles]."""

    lsh: Lsh = field(default_factory=Lsh)
    """Table [lsh]."""

    buckets: Buckets = field(default_factory=Buckets)
    """Table [buckets]."""

    candidates: Candidates = field(default_factory=Candidates)
    """Table [candidates]."""

    components: Components = field(default_factory=Components)
    """Table [components]."""

    representatives: Representatives = field(default_factory=Representatives)
    """Table [representatives]."""

    output: Output = field(default_factory=Output)
    """Table [output]."""

    alerts: Alerts = field(default_factory=Alerts)
    """Table [alerts]."""

    @property
    def signature_size(self) -> int:
        """MinHash values in a signature, bands * rows."""
        return self.lsh.bands * self.lsh.rows


_TABLES: Mapping[str, type[_Table]] = MappingProxyType(
    {
        entry.name: entry.type
        for entry in fields(Config)
        if isinstance(entry.type, type) and issubclass(entry.type, _Table)
    }
)
_SETTINGS: Mapping[str, Field[Any]] = MappingProxyType(
    {entry.name: entry for entry in fields(Config) if entry.name not in _TABLES}
    | {f"{name}.{entry.name}": entry for name, table in _TABLES.items() for entry in fields(table)}
)


def load_config(path: str | None = None, preset: str | None = None, overrides: Sequence[str] = ()) -> Config:
    """Read the settings: the defaults, changed by the preset, then by the file, then by the overrides.

    Parameters
    ----------
    path
        TOML file of the user, UTF-8.
    preset
        Name of a file in `conf/presets`, without its suffix.
    overrides
        Settings as `key=value` with a dotted key, later ones winning; a value that is not TOML is taken as a string.

    Returns
    -------
    Config
        The checked settings.

    Raises
    ------
    ConfigError
        A file cannot be read or parsed, or a key or value is refused; one line that names where it stands.
    """
    layers = []
    if preset is not None:
        layers.append((f"preset {preset}", _parse(f"preset {preset}", _read_preset(preset))))
    if path is not None:
        layers.append((path, _parse(path, _read(path))))
    layers += [("--set", _parse_override(override)) for override in overrides]

    settings: dict[str, Any] = {}
    size_where = ""
    for where, table in layers:
        changes = _flatten(where, table)
        settings |= changes
        # The last place that had a say in the signature size is the one to name when it is too large.
        if changes.keys() & {"lsh.bands", "lsh.rows"}:
            size_where = where
    default = Lsh()
    bands, rows = settings.get("lsh.bands", default.bands), settings.get("lsh.rows", default.rows)
    _check_signature_size(size_where, "lsh.", bands, rows)
    return _build(settings)


def to_dict(config: Config) -> dict[str, Any]:
    """Return the settings in full as nested plain dictionaries, one for each table, ready for JSON."""
    return asdict(config)


def to_toml(config: Config) -> str:
    """Return the settings in full as TOML that `load_config` reads back to an equal `Config`."""
    top, tables = [], []
    for name, value in to_dict(config).items():
        if name in _TABLES:
            tables.append("\n".join([f"\n[{name}]", *(f"{key} = {_literal(entry)}" for key, entry in value.items())]))
        else:
            top.append(f"{name} = {_literal(value)}")
    return "\n".join([*top, *tables]) + "\n"


def _build(settings: Mapping[str, Any]) -> Config:
    """Make a `Config` of checked settings, given by dotted key."""
    values = {name: value for name, value in settings.items() if "." not in name}
    for name, table in _TABLES.items():
        prefix = f"{name}."
        chosen = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
        values[name] = table(**chosen)
    return Config(**values)


def _read(path: str) -> str:
    """Read a file of the user."""
    try:
        # Some Windows editors begin a file with a byte order mark, which TOML does not allow.
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: must be a readable file (got {error.strerror})") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}: must be UTF-8 (got byte {error.object[error.start]:#04x} at line {line})"
        ) from error


def _read_preset(name: str) -> str:
    """Read a preset by name, never by path."""
    presets = {file.stem: str(file) for file in sorted(_PRESETS.glob("*.toml"))}
    if name not in presets:
        raise ConfigError(f"--preset: name must be one of {', '.join(map(_literal, presets))} (got {_literal(name)})")
    return _read(presets[name])


def _parse(where: str, text: str) -> dict[str, Any]:
    """Parse TOML; the message of a syntax error names the line as well."""
    try:
        return tomllib.loads(text)
    except ValueError as error:
        last_line = text.rstrip().count("\n") + 1
        reason = str(error).replace("(at end of document)", f"(at end of document, line {last_line})")
        raise ConfigError(f"{where}: {reason}") from error


def _parse_override(override: str) -> dict[str, Any]:
    """Turn `a.b=value` into nested dictionaries."""
    key, equals, text = override.partition("=")
    if not equals:
        raise ConfigError(f"--set: override must be key=value (got {_literal(override)})")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except ValueError:
        parsed = {}
    # A line break can smuggle in further keys: such a text is no single value either.
    value = parsed["value"] if parsed.keys() == {"value"} else text.strip()
    *parents, last = key.strip().split(".")
    table = {last: value}
    for part in reversed(parents):
        table = {part: table}
    return table


def _flatten(where: str, table: Mapping[str, object], prefix: str = "") -> dict[str, Any]:
    """Return the settings of a parsed TOML table by dotted key, each one known and checked."""
    settings: dict[str, Any] = {}
    for part, value in table.items():
        name = prefix + (part if re.fullmatch(r"[\w-]+", part) else _literal(part))
        if name in _SETTINGS:
            _check(where, name, value, _SETTINGS[name])
            settings[name] = value
        elif isinstance(value, dict) and (value or name in _TABLES):
            settings |= _flatten(where, value, f"{name}.")
        elif name in _TABLES:
            raise ConfigError(f"{where}: {name} must be a table (got {_literal(value)})")
        else:
            raise ConfigError(f"{where}: unknown key {name} (did you mean {_find_nearest(name)}?)")
    return settings


def _find_nearest(name: str) -> str:
    """Return the known key most like an unknown one; the right key in the wrong table comes first."""
    last = name.rpartition(".")[2]
    same_last = [known for known in _SETTINGS if known.rpartition(".")[2] == last]
    return difflib.get_close_matches(name, same_last or list(_SETTINGS), n=1, cutoff=0.0)[0]


def _check_signature_size(where: str, prefix: str, bands: int, rows: int) -> None:
    """Refuse more MinHash values than a signature may have."""
    if bands * rows > MAX_SIGNATURE_SIZE:
        raise ConfigError(
            f"{where}: {prefix}bands * {prefix}rows must be at most {MAX_SIGNATURE_SIZE} (got {bands * rows})"
        )
