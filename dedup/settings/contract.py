"""The text contract: the tokenizer that the settings ask for."""

import stat
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

from dedup.errors import ConfigError
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.settings.options import Config

KEY_BYTES = 16
"""Least length of a key: 128 random bits are out of reach of guessing."""


def load_tokenizer(config: Config) -> Tokenizer:
    """Return the tokenizer of the settings, with the key if one is set.

    Raises
    ------
    ConfigError
        When the file of the key cannot be read or is too short, or others may read it; no message has its content.
    """
    path = config.hash.key_file
    return make_tokenizer(config, _read_key(path) if path else b"")


def make_tokenizer(config: Config, key: bytes) -> Tokenizer:
    """Return the tokenizer of the settings with a key that has been read; empty for none."""
    return UnicodeWords(seed=config.seed, key=key, **asdict(config.text))


def _read_key(path: str) -> bytes:
    """Read a key of 16 to 64 bytes; a longer secret stands for its BLAKE2b digest."""
    try:
        rights = stat.S_IMODE(Path(path).stat().st_mode)
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"hash.key_file: {path} must be a readable file (got {error.strerror})") from error
    if rights & 0o077:
        raise ConfigError(f"hash.key_file: {path} must be its owner's alone (got mode {rights:04o}); chmod 600 {path}")
    if len(key) < KEY_BYTES:
        raise ConfigError(f"hash.key_file: {path} must hold at least {KEY_BYTES} bytes (got {len(key)})")
    return key if len(key) <= blake2b.MAX_KEY_SIZE else blake2b(key).digest()
