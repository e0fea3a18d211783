"""The settings of the layers but `near`, whose settings are older than the word."""

from dataclasses import dataclass
from typing import Literal

from dedup.errors import ConfigError
from dedup.settings.rules import Table, Texts

NEAR = "near"
NAMES = ("url", "exact", NEAR)
"""Layers there are, in the order of most pipelines."""


def check_layers(names: Texts, where: str) -> None:
    """Refuse layers that are unknown or named twice, and a run of none.

    Raises
    ------
    ConfigError
    """
    unknown = [name for name in names if name not in NAMES]
    if not names or unknown or len({*names}) < len(names):
        rule = f"layers must name some of {', '.join(NAMES)}, each once"
        raise ConfigError(f"{where}: {rule} (got {', '.join(map(repr, names)) or 'none'})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Url(Table):
    """Layer "url": of documents of one address, one stays."""

    column: str = ""
    """Column of the addresses, dots leading to fields of structs; a null or what is no URL is like no other."""

    scheme: Literal["ignore", "compare"] = "ignore"
    """Scheme: with "ignore" http and https are one, with "compare" they are not."""

    query: Literal["compare", "ignore"] = "compare"
    """Query: "compare" sorts its parameters and leaves out those of tracking, "ignore" leaves out all of it."""

    tracking: Texts = ("utm_*", "fbclid", "gclid", "dclid", "msclkid", "yclid", "igshid", "mc_cid", "mc_eid", "_ga")
    """Parameters of the query that say where a reader came from and not which page it is, a list of Unicode strings, in
    which a star stands for any characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Table):
    """Layer "exact": of documents of one text, one stays; empty ones are like no other."""

    compare: Literal["bytes", "text"] = "bytes"
    """Equality: "bytes" of the text in UTF-8, or "text" as [text] normalises it, its tokens in their order."""
