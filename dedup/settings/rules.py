"""Rules of a settings table's fields: annotation and `range`, checked when the table is made.

A field may say which setting it needs, and of what values, for it to change anything: `needs`.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args, get_origin

from dedup.errors import ConfigError, suggest

Limit: TypeAlias = float | Literal[""]
"""Number, or empty for none."""
Count: TypeAlias = int | Literal["auto"]
"""Integer, or "auto" for one that the job chooses."""
Copies: TypeAlias = int | Literal["log2", "sqrt"]
"""Integer, or the name of a function of a size."""
Texts: TypeAlias = tuple[str, ...]
Records: TypeAlias = tuple[Any, ...]
"""Tables of TOML, or values parsed from them."""

_INT64_MAX = 2**63 - 1


class Range(NamedTuple):
    """Bounds of a number, both included unless `above` leaves the lower one out."""

    low: int
    high: int | None = None
    above: bool = False

    def rule(self, kind: type) -> str:
        """Say the bounds in words; an integer without an upper bound must still fit the JVM's long."""
        if kind is int and self.high is None:
            return f"a 64-bit integer of at least {self.low}"
        if kind is int:
            return f"an integer from {self.low} to {self.high}"
        low = f"above {self.low}" if self.above else f"of at least {self.low}"
        return f"a finite number {low}" if self.high is None else f"a number {low} and at most {self.high}"

    def holds(self, value: object, kind: type) -> bool:
        """Tell whether the value is a number of the kind within the bounds; NaN and a bool are not."""
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or (kind is int and not isinstance(value, int))
        ):
            return False
        # Python compares an int with a float exactly, so an integer beyond the largest float is refused here as well.
        unbounded = _INT64_MAX if kind is int else sys.float_info.max
        high = unbounded if self.high is None else self.high
        return (self.low < value if self.above else self.low <= value) and value <= high


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Base of all tables: checks every field against its annotation and its `range` when an instance is made."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            check(type(self).__name__, entry.name, value, entry)
            if entry.type == Texts:
                object.__setattr__(self, entry.name, tuple(value))
            if entry.type is float or (entry.type == Limit and value != ""):
                # 1 and 1.0 are one setting, so they must also print as one.
                object.__setattr__(self, entry.name, float(value))


Tables: TypeAlias = tuple[Table, ...]


def check(where: str, name: str, value: object, entry: Field[Any]) -> None:
    """Refuse a value that breaks the rule of its field's annotation and `range`."""
    kind = entry.type
    # Choices named by the field's metadata may take imports, which a default value need not wait for.
    choices = () if "choices" in entry.metadata and value == entry.default else list_choices(entry)
    wrong = ""
    if choices:
        rule, wrong = _judge_choice(value, choices, is_list=kind == Texts)
        holds = not rule
    elif kind is str:
        # A lone surrogate, which a badly encoded command line can hold, has no TOML and no UTF-8.
        rule, holds = "a Unicode string", _is_text(value)
    elif kind is bool:
        rule, holds = "true or false", isinstance(value, bool)
    elif kind is int or kind is float:
        bounds: Range = entry.metadata["range"]
        rule, holds = bounds.rule(kind), bounds.holds(value, kind)
    elif kind == Limit:
        bounds = entry.metadata["range"]
        rule, holds = f"{bounds.rule(float)}, or empty", value == "" or bounds.holds(value, float)
    elif kind in {Count, Copies}:
        bounds, words = entry.metadata["range"], get_args(get_args(kind)[1])
        rule, holds = (
            f"{bounds.rule(int)}, or {' or '.join(map(literal, words))}",
            value in words or bounds.holds(value, int),
        )
    elif kind in _OF_LISTS:
        rule, accepts = _OF_LISTS[kind]
        holds = isinstance(value, list | tuple) and all(map(accepts, value))
    elif isinstance(kind, type) and issubclass(kind, Table):
        rule, holds = f"a table of type {kind.__name__}", isinstance(value, kind)
    else:
        raise TypeError(f"{name}: no rule is defined for the annotation {kind}")
    if not holds:
        raise ConfigError(f"{where}: {name} must be {rule} (got {literal(value)}{suggest(wrong, choices)})")


def require_text(where: str, value: str) -> str:
    """Return a string, unless it holds a lone surrogate.

    Raises
    ------
    ConfigError
        When it does, as what was given in another encoding.
    """
    if not _is_text(value):
        raise ConfigError(f"{where}: must be a Unicode string (got {literal(value)})")
    return value


def refuse_single(where: str, value: object) -> None:
    """Refuse a single text where a list is asked for, of which each character would be one.

    Raises
    ------
    ConfigError
    """
    if isinstance(value, str | bytes):
        raise ConfigError(f"{where}: must be a list, as [{value!r}] (got {value!r})")


def list_choices(entry: Field[Any]) -> Sequence[str]:
    """Return the values that a field is chosen from; empty where its annotation has another rule."""
    if "choices" in entry.metadata:
        found: Sequence[str] = entry.metadata["choices"]()
        return found
    return get_args(entry.type) if get_origin(entry.type) is Literal else ()


def _judge_choice(value: object, choices: Sequence[str], *, is_list: bool) -> tuple[str, str]:
    """Return the rule that a value breaks, empty where it breaks none, and the first part of it that is no choice."""
    given = value if isinstance(value, list | tuple) and is_list else () if is_list else (value,)
    unknown = [each for each in given if each not in choices]
    if given and not unknown and len({*given}) == len(given):
        return "", ""
    rule = (
        f"a list of some of {', '.join(choices)}, each once"
        if is_list
        else f"one of {', '.join(map(literal, choices))}"
    )
    return rule, next((each for each in unknown if isinstance(each, str)), "")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


_OF_LISTS: Mapping[Any, tuple[str, Callable[[object], bool]]] = {
    Texts: ("a list of Unicode strings", _is_text),
    Records: ("a list of tables", lambda value: isinstance(value, Mapping) or is_dataclass(value)),
    Tables: ("a list of settings of layers", lambda value: isinstance(value, Table)),
}


def literal(value: object) -> str:
    """Return a value as a TOML literal, or as readable text when a field could not hold it."""
    # JSON's strings, numbers and booleans are TOML's, except that TOML also escapes DEL and that JSON would escape
    # characters beyond U+FFFF as surrogate pairs, which ensure_ascii=False avoids.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
