"""The hash specification: the settings and versions that decide a signature's bits."""

import unicodedata
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from dedup.kernels.hashing import VERSION, key_fingerprint
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.settings.options import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSpec:
    """Specification of all that a signature depends on; two that differ are never compared (docs/hash-spec.md)."""

    version: int
    """Version of the steps from a text to a band key."""
    unicode: str
    """Version of the Unicode data that texts were normalised by."""
    key: str
    """Fingerprint of the secret; empty without one."""
    case: str
    accents: str
    digits: str
    tokens: str
    shingle_size: int
    shingle_seed: int
    bands: int
    """Bands of a signature; 0 without signatures."""
    rows: int
    signature_seed: int
    markup: str = "keep"
    stemming: str = ""
    arabic: str = "keep"
    han: str = "keep"
    unit: str = "tokens"
    columns: str = ""
    """Columns that texts are of, where there are several, as in input.columns, with commas between."""
    basis: str = ""
    """Digest of the tokenizer's file and versions of libraries, where tokens depend on any."""

    @classmethod
    def of(cls, config: Config, tokenizer: Tokenizer) -> Self:
        """Return the specification that the settings and their tokenizer ask for."""
        return cls(
            version=VERSION,
            unicode=unicodedata.unidata_version,
            key=key_fingerprint(tokenizer.key),
            **asdict(config.text),
            shingle_size=config.shingles.shingle_size,
            shingle_seed=config.seed,
            bands=config.banding.bands if config.mode == "lsh" else 0,
            rows=config.banding.rows,
            signature_seed=config.seed,
            unit=config.shingles.unit,
            columns=",".join(config.input.columns),
            basis=tokenizer.basis,
        )

    def difference(self, other: Self) -> dict[str, tuple[Any, Any]]:
        """Return all differences: name, this specification's value and the other's."""
        pairs = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(self)}
        return {name: (mine, theirs) for name, (mine, theirs) in pairs.items() if mine != theirs}

    def to_dict(self) -> dict[str, Any]:
        """Return the specification as plain values, for JSON and the metadata of tables."""
        return asdict(self)
