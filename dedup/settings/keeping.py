"""Rules of `keep.order` and `keep.merge`, parsed."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from dedup.errors import ConfigError
from dedup.settings.rules import literal

PLAIN: tuple[str, ...] = ("smallest_id", "longest", "shortest")
OF_COLUMN = ("latest", "earliest", "highest", "lowest")
LISTED, SQL = "source", "sql"
COUNT = "count"
ENDS = ("first", "last")
NOTES = ("dedup_kept", "dedup_representative_id", "dedup_component_id", "dedup_kind", "dedup_jaccard")
"""Columns of mode annotate, which `keep.merge` gives to no values of its own."""


class Rule(NamedTuple):
    """Rule of one entry: the words before and after its colon."""

    name: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.of}" if self.of else self.name


FOREIGN = Rule("without")
"""Rule before all others where documents that the input is to lose take part: they are always preferred."""
FIRST_COME = Rule("first_come")
"""Rule before all others where documents of earlier batches take part."""


def parse_order(entries: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules of `keep.order`.

    Raises
    ------
    ConfigError
        When an entry is no rule.
    """
    rules = tuple(Rule(name, of) for name, _, of in (entry.partition(":") for entry in entries))
    for rule, entry in zip(rules, entries, strict=True):
        is_plain = rule.name in PLAIN and entry == rule.name
        if not is_plain and not (rule.name in {*OF_COLUMN, LISTED, SQL} and rule.of.strip()):
            known = ", ".join([*PLAIN, *(f"{name}:COLUMN" for name in OF_COLUMN), f"{LISTED}:A,B", f"{SQL}:EXPRESSION"])
            raise ConfigError(f"keep.order: must have entries of {known} (got {entry!r}{_part(entry)})")
    return rules


def parse_merge(entries: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules of `keep.merge`.

    Raises
    ------
    ConfigError
        When an entry is no rule, two give one column, or one gives a column of mode annotate.
    """
    rules = tuple(Rule(name, of) for name, _, of in (entry.partition(":") for entry in entries))
    for rule, entry in zip(rules, entries, strict=True):
        if entry != COUNT and not (re.fullmatch(r"[a-z][a-z0-9_]*", rule.name) and rule.of and rule.name != COUNT):
            raise ConfigError(
                f"keep.merge: must have entries of {COUNT}, first:COLUMN, last:COLUMN, NAME:COLUMN with a name of "
                f"lower-case letters, digits and underscores (got {entry!r}{_part(entry)})"
            )
    names = [name_merged(rule).lower() for rule in rules]
    if len({*names}) < len(names):
        raise ConfigError(f"keep.merge: must give every column once (got {', '.join(names)})")
    if taken := {*names}.intersection(NOTES):
        raise ConfigError(f'keep.merge: must give no column of output.mode "annotate" (got {min(taken)})')
    return rules


def _part(entry: str) -> str:
    """Return how several entries are written, as the end of a message, where one has commas."""
    return f"; several are a list, {literal(entry.split(','))}" if "," in entry else ""


def list_merged(entries: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of `keep.merge`, each once."""
    return tuple(dict.fromkeys(rule.of for rule in parse_merge(entries) if rule.of))


def name_merged(rule: tuple[str, str]) -> str:
    """Return the column that a rule of `keep.merge` gives."""
    name, of = rule
    return f"dedup_{name}_{of}" if name in ENDS else f"dedup_{name}"


def needs_spark(entries: Sequence[str]) -> bool:
    """Tell whether a rule of `keep.order` is an expression."""
    return any(rule.name == SQL for rule in parse_order(entries))
