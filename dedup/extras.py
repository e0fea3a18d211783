"""Extras of pyproject.toml, packages that only some work needs."""

from importlib.util import find_spec

from dedup.errors import DedupError
from dedup.version import __version__

WHEEL = f"corpus_dedup-{__version__}-py3-none-any.whl"
"""Name of the package's own file: on an index the package's name may be a stranger's."""
SETUP = {
    "spark": "scripts/setup adds them to a checkout, and a Java 17 or 21 where it can",
    "store": "scripts/setup adds it to a checkout",
    "serve": ".venv/bin/pip install uvicorn httptools uvloop adds them to a checkout",
}
ADDED = {
    "ids": ("tokenizers", "tokenizers"),
    "stemming": ("PyStemmer", "Stemmer"),
    "html": ("resiliparse", "resiliparse"),
    "markdown": ("markdown-it-py", "markdown_it"),
    "chinese": ("opencc", "opencc"),
}
"""Extras of one package each, which a checkout has not by itself: its name, and that of its module."""
SETUP |= {extra: f".venv/bin/pip install {name} adds it to a checkout" for extra, (name, _) in ADDED.items()}
PACKAGES = {
    "spark": ("pyspark", "pandas"),
    "store": ("deltalake",),
    "serve": ("uvicorn", "httptools", "uvloop"),
} | {extra: (module,) for extra, (_, module) in ADDED.items()}


def check_extra(where: str, extra: str) -> None:
    """Make sure that the packages of an extra are installed.

    Parameters
    ----------
    where
        Setting, option or path that asks for them.

    Raises
    ------
    DedupError
        When one is not.
    """
    missing = [name for name in PACKAGES[extra] if find_spec(name) is None]
    if missing:
        raise DedupError(
            f"{where}: {' and '.join(PACKAGES[extra])} must be installed (got no {' and no '.join(missing)}); "
            f"{SETUP[extra]}, and pip install '{WHEEL}[{extra}]' to another Python"
        )
