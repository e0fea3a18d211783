"""Formats of values for people."""

import codecs
import json
import logging
import re
import sys

CLEAR = f"\r{' ' * 60}\r\x1b[K"
"""Characters that clear the line of progress; a notebook knows no escapes."""
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
USER = re.compile(
    r"(?<=://)(?:[^\s/:]*:\S*@|(?<!abfs://)(?<!abfss://)(?<!wasb://)(?<!wasbs://)[^\s/:]+@)", re.IGNORECASE
)
"""A user with a password, or one without; in its place Azure's URLs have the container."""
SIGNATURE = re.compile(r"(?<=[?&]sig=)[^&\s'\"]*")
"""Secret part of a URL that a token of Azure opens."""


def printable(text: str) -> str:
    """Return the text with control characters escaped: strings of a corpus must not command the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def to_json(value: object) -> str:
    """Return a value as JSON, with escapes where stdout does not take all characters."""
    takes_all = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name == "utf-8"
    return json.dumps(value, ensure_ascii=not takes_all, default=str)


def hide_secrets(text: str) -> str:
    """Return the text without the user, the password and Azure's signature of each URL in it.

    A user and a password may have any characters. A password can hold `/` and `@`, as keys of S3 do, so a URL that
    names a port and has an `@` in its path loses what stands before that: nothing tells the two apart.
    """
    return SIGNATURE.sub("***", USER.sub("", text))


class SecretFormatter(logging.Formatter):
    """Log lines and tracebacks by `hide_secrets`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record."""
        return hide_secrets(super().format(record))


def make_handler() -> logging.Handler:
    """Return a handler that writes lines to stderr, without secrets; on a terminal in place of the line of progress."""
    handler = logging.StreamHandler()
    handler.setFormatter(SecretFormatter(f"{CLEAR if sys.stderr and sys.stderr.isatty() else ''}%(message)s"))
    return handler


def log_to_stderr(level: str | None = None) -> None:
    """Send warnings to stderr, without secrets, and of the package what is of a level; None leaves its own."""
    if level is not None:
        logging.getLogger("dedup").setLevel(level)
    handler = make_handler()
    # py4j logs every lost connection, which is raised as well; through the root logger too, which nothing else uses.
    handler.addFilter(lambda record: record.name != "root" and not record.name.startswith("py4j"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def count(value: int | None) -> str:
    """Write a number of things."""
    return "unknown" if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """Write a share as percent."""
    return "unknown" if value is None else f"{value:.2%}"


def size(value: float | None) -> str:
    """Write bytes in the unit that leaves one to three digits before the point."""
    if value is None:
        return "unknown"
    unit = 0
    while abs(value) >= 999.5 and unit < len(UNITS) - 1:
        value /= 1000
        unit += 1
    return f"{value:.3g} {UNITS[unit]}"


def duration(seconds: float) -> str:
    """Write a time in the units that people count in."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, hours = divmod(round(seconds / 60), 60)[::-1]
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def number(value: float | None) -> str:
    """Write any number, without digits of no significance."""
    return "unknown" if value is None else f"{round(value, 6):,}".removesuffix(".0")


def change(now: float | None, then: float | None) -> str:
    """Write a change with its sign."""
    if now is None or then is None:
        return "unknown"
    difference = round(now - then, 6)
    return "0" if not difference else f"{'+' if difference > 0 else '-'}{number(abs(difference))}"
