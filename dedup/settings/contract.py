"""The text contract: the tokenizer that the settings ask for."""

import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

from dedup.errors import ConfigError
from dedup.extras import check_extra
from dedup.kernels.text.markup import Unmarked
from dedup.kernels.text.set_elements import SetElements
from dedup.kernels.text.single_characters import SingleCharacters
from dedup.kernels.text.text_columns import TextColumns
from dedup.kernels.text.token_ids import TokenIds, load
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.text.unicode_words import UnicodeWords, list_languages
from dedup.settings.options import Config, Text

UNITS: Mapping[str, Callable[..., Tokenizer]] = {"tokens": UnicodeWords, "char": SingleCharacters, "set": SetElements}
"""Tokenizers by shingles.unit, that of sets without the settings of [text]."""
EXTRAS = {"stemming": "stemming", "han": "chinese"}
"""Extras that settings of [text] need."""
KEY_BYTES = 16
"""Least length of a key: 128 random bits are out of reach of guessing."""


def load_tokenizer(config: Config) -> Tokenizer:
    """Return the tokenizer of the settings, with the key if one is set.

    Raises
    ------
    ConfigError
        When the file of the key cannot be read or is too short, or others may read it; no message has its content.
        As `make_tokenizer`.
    """
    path = config.hash.key_file
    return make_tokenizer(config, read_key(path) if path else b"")


def make_tokenizer(config: Config, key: bytes) -> Tokenizer:
    """Return the tokenizer of the settings with a key that has been read; empty for none.

    Raises
    ------
    ConfigError
        When the settings of "ids" are at odds, or its file is no tokenizer.
    DedupError
        When its library is not installed.
    """
    found, markup = _make_unmarked(config, key), config.text.markup
    if markup != "keep":
        check_extra("text.markup", markup)
        found = Unmarked(tokenizer=found, markup=markup)
    weights = tuple(config.input.weights.values())
    return found if len(weights) == 1 else TextColumns(tokenizer=found, weights=weights)


def _make_unmarked(config: Config, key: bytes) -> Tokenizer:
    """Return the tokenizer of texts without markup."""
    settings = asdict(config.text)
    del settings["markup"]
    for name, extra in EXTRAS.items():
        if settings[name] != getattr(Text(), name):
            check_extra(f"text.{name}", extra)
    language = config.text.stemming
    if language and config.shingles.unit == "char":
        raise ConfigError(f'text.stemming: must be empty with shingles.unit = "char" (got {language!r})')
    if language and language not in list_languages():
        raise ConfigError(f"text.stemming: must be one of {', '.join(list_languages())}, or empty (got {language!r})")
    unit, file = config.shingles.unit, config.shingles.tokenizer_file
    if config.shingles.has_sets and config.shingles.shingle_size != 1:
        size = config.shingles.shingle_size
        raise ConfigError(
            f'shingles.shingle_size: must be 1 with unit = "set", whose elements have no order (got {size})'
        )
    if config.shingles.has_sets and config.text != Text():
        raise ConfigError(
            'text: must be as by default with shingles.unit = "set", whose elements are taken as they are'
        )
    if unit != "ids":
        if file:
            raise ConfigError(f'shingles.tokenizer_file: must be empty unless unit is "ids" (got {file})')
        chosen = {} if config.shingles.has_sets else settings
        return UNITS[unit](seed=config.seed, key=key, **chosen)
    if config.text != Text(markup=config.text.markup):
        raise ConfigError('text: only markup may be set with shingles.unit = "ids", whose file says how texts are read')
    check_extra("shingles.unit", unit)
    return TokenIds(content=_read_tokenizer(file), seed=config.seed, key=key)


def _read_tokenizer(path: str) -> bytes:
    try:
        content = Path(path).read_bytes()
        load(content)
    except (OSError, ValueError) as error:
        # The empty path is the folder at work.
        reason = (getattr(error, "strerror", None) or error) if path else '""'
        raise ConfigError(
            f"shingles.tokenizer_file: {path or 'it'} must be the JSON of a Hugging Face tokenizer (got {reason})"
        ) from error
    return content


def read_key(path: str, where: str = "hash.key_file") -> bytes:
    """Read a key of 16 to 64 bytes; a longer secret stands for its BLAKE2b digest.

    Raises
    ------
    ConfigError
        As `load_tokenizer`; names the setting or option that gave the path.
    """
    try:
        rights = stat.S_IMODE(Path(path).stat().st_mode)
        key = Path(path).read_bytes().strip()
    # No path has a NUL.
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{where}: {path} must be a readable file (got {getattr(error, 'strerror', error)})"
        ) from error
    if rights & 0o077:
        raise ConfigError(f"{where}: {path} must be its owner's alone (got mode {rights:04o}); chmod 600 {path}")
    if len(key) < KEY_BYTES:
        raise ConfigError(f"{where}: {path} must hold at least {KEY_BYTES} bytes (got {len(key)})")
    return key if len(key) <= blake2b.MAX_KEY_SIZE else blake2b(key).digest()
