"""Entries of `[[profile]]`: conditions on documents, and the settings of those that meet them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dedup.errors import ConfigError
from dedup.settings.rules import literal

DEFAULT = "default"
"""Name of the profile of documents that meet no condition."""
OWN = (
    *("threshold", "shingles.shingle_size", "shingles.unit", "shingles.tokenizer_file"),
    *("text.case", "text.accents", "text.digits", "text.tokens"),
    *("text.markup", "text.stemming", "text.arabic", "text.han"),
    *("lsh.bands", "lsh.rows", "lsh.recall"),
)
"""Settings that a profile may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """An entry of `[[profile]]`."""

    name: str
    when: tuple[tuple[str, tuple[str, ...]], ...]
    """Columns, each with the values that meet the condition, as texts."""
    own: tuple[tuple[str, Any], ...] = ()
    """Values of the profile's own settings, by dotted key."""

    @classmethod
    def of(cls, entry: Mapping[str, object]) -> Self:
        """Make a profile of a parsed TOML table.

        Raises
        ------
        ConfigError
            When it has no name or condition, or a setting that all documents must share.
        """
        flat = _flatten(entry)
        name = flat.pop("name", "")
        if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or name == DEFAULT:
            rule = f'must have a name of lower-case letters, digits, "-" and "_", other than "{DEFAULT}"'
            raise ConfigError(f"profile: every entry {rule} (got {literal(name)})")
        where = f'profile "{name}"'
        for key in flat:
            if key not in OWN:
                raise ConfigError(f"{where}: keys must be name, when, {', '.join(OWN)} (got {literal(key)})")
        return cls(name=name, when=_read_condition(where, entry.get("when")), own=tuple(flat.items()))

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as a TOML table."""
        found: dict[str, Any] = {"name": self.name, "when": {column: list(values) for column, values in self.when}}
        for key, value in self.own:
            table, _, last = key.rpartition(".")
            (found.setdefault(table, {}) if table else found)[last] = value
        return found


def list_conditioned(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Return the columns of all conditions, each once."""
    return tuple(dict.fromkeys(column for profile in profiles for column, _ in profile.when))


def refuse_profiles(profiles: Sequence[Profile], purpose: str) -> None:
    """Refuse profiles for a purpose that needs the same settings for all documents.

    Raises
    ------
    ConfigError
    """
    if profiles:
        rule = f'must be empty {purpose}; take the rows of one by themselves, with its settings and --set "profile=[]"'
        raise ConfigError(f"profile: {rule} (got {', '.join(each.name for each in profiles)})")


def _flatten(entry: Mapping[str, object]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in entry.items():
        if key != "when":
            flat |= (
                {f"{key}.{last}": each for last, each in value.items()} if isinstance(value, Mapping) else {key: value}
            )
    return flat


def _read_condition(where: str, given: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    columns = given if isinstance(given, Mapping) else {}
    listed = {column: values if isinstance(values, list | tuple) else [values] for column, values in columns.items()}
    known = all(isinstance(each, str | int) for values in listed.values() for each in values)
    if not listed or not all(listed.values()) or not all(listed) or not known:
        rule = "when must be a table of columns, each with strings, integers or booleans of which one must be there"
        raise ConfigError(f"{where}: {rule} (got {literal(given)})")
    return tuple((column, tuple(dict.fromkeys(map(_write, values)))) for column, values in listed.items())


def _write(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
