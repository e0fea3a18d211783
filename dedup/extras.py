"""Extras of pyproject.toml, packages that only some work needs."""

from importlib.util import find_spec

from dedup.errors import DedupError
from dedup.version import __version__

WHEEL = f"corpus_dedup-{__version__}-py3-none-any.whl"
"""Name of the package's own file: on an index the package's name may be a stranger's."""
EXTRAS = {
    "spark": (["pyspark", "pandas"], "scripts/setup adds them to a checkout, and a Java 17 or 21 where it can"),
    "store": (["deltalake"], "scripts/setup adds it to a checkout"),
    "serve": (
        ["uvicorn", "httptools", "uvloop"],
        ".venv/bin/pip install uvicorn httptools uvloop adds them to a checkout",
    ),
    "ids": (["tokenizers"], ".venv/bin/pip install tokenizers adds it to a checkout"),
    "stemming": (["Stemmer"], ".venv/bin/pip install PyStemmer adds it to a checkout"),
    "html": (["resiliparse"], ".venv/bin/pip install resiliparse adds it to a checkout"),
    "markdown": (["markdown_it"], ".venv/bin/pip install markdown-it-py adds it to a checkout"),
    "chinese": (["opencc"], ".venv/bin/pip install opencc adds it to a checkout"),
}
"""Modules of the packages of each extra, and how a checkout gets these."""


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
    names, setup = EXTRAS[extra]
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise DedupError(
            f"{where}: {' and '.join(names)} must be installed (got no {' and no '.join(missing)}); {setup}, and pip "
            f"install '{WHEEL}[{extra}]' to another Python"
        )
