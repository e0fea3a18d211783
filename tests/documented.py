"""The commands that the README and the pages of docs show."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from dedup.run.session import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n(.*)", re.MULTILINE)
LINE = re.compile(r"^    (scripts/.*)$|`(scripts/[a-z]+ (?:[a-z]+ )?--[^`\n]*)`", re.MULTILINE)
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b|\.\.\.")
HOURS = ("scripts/bench", "scripts/measured")
"""What takes hours."""


class Shown(NamedTuple):
    """A command, or a block of them for one shell, and whether it is shown to be refused."""

    page: str
    text: str
    refused: bool = False


def find_commands() -> Iterator[Shown]:
    """Return all that can be typed as it stands: blocks for a shell, commands with their answer, those in a line."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for kind, block in BLOCK.findall(text):
            if kind == "sh":
                yield Shown(page.name, block.strip())
            else:
                for command, answer in COMMAND.findall(block):
                    yield Shown(page.name, command, answer.startswith("dedup: "))
        for pair in LINE.findall(text):
            command = "".join(pair)
            if not PLACEHOLDER.search(command) and not command.startswith(HOURS):
                yield Shown(page.name, command)
