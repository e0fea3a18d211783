"""An encoder of the package index alone, as docs/semantic.md shows it: pip install wordllama."""

from functools import cache
from pathlib import Path


@cache
def load():
    """Return the model of the package's wheel, which lies in a folder that it does not look for by itself."""
    import wordllama  # noqa: PLC0415 - no package of the tests

    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def encode(texts):
    """Return the vectors of texts."""
    return load().embed(texts)
