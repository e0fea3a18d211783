"""How values are written for people."""

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def printable(text: str) -> str:
    """Return the text with control characters escaped: what comes from a corpus must not command the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


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


def number(value: float | None) -> str:
    """Write any number, without digits that say nothing."""
    return "unknown" if value is None else f"{round(value, 6):,}".removesuffix(".0")


def change(now: float | None, then: float | None) -> str:
    """Write what was added or taken away."""
    if now is None or then is None:
        return "unknown"
    difference = round(now - then, 6)
    return "0" if not difference else f"{'+' if difference > 0 else '-'}{number(abs(difference))}"
