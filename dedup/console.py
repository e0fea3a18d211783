"""What a job may print."""


def printable(text: str) -> str:
    """Return the text with control characters escaped: what comes from a corpus must not command the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
