"""The layer of documents of one address."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Self
from urllib.parse import unquote_plus

import ada_url
import pyarrow as pa

from dedup.engine.engine import Engine, Rows, describe
from dedup.errors import ConfigError
from dedup.kernels.digests import digest_each
from dedup.layers.copies import KEYS, Choice, remove_copies, to_keys
from dedup.layers.layer import CHOOSING, EarlierKeys, Found, Layer, Setup
from dedup.settings.options import Config
from dedup.settings.rules import Table, Texts

WEB = ("http:", "https:")
ENCODED = re.compile("%[0-9A-Fa-f]{2}")
"""Octet that an address spells in hexadecimal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url(Table):
    """Layer "url": of documents of one address, one stays."""

    column: str = ""
    """Column of the addresses, dots leading to fields of structs; http and https are one, and a null or an invalid URL
    matches no other."""

    tracking: Texts = ("utm_*", "fbclid", "gclid", "dclid", "msclkid", "yclid", "igshid", "mc_cid", "mc_eid", "_ga")
    """Parameters of the query that say where a reader came from and not which page it is, a list of Unicode strings, in
    which a star stands for any characters; "*" leaves out the whole query. The others are sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Parts of an address that count."""

    tracking: Sequence[str]
    """Names of parameters that do not count, in which a star stands for any characters."""

    def canonicalise(self, url: str | None) -> str | None:
        """Return the canonical form of an address; None where it is none.

        The WHATWG's parser [1]_ lower-cases scheme and host, writes hosts of other scripts in Punycode, leaves out
        default ports and resolves dots in paths. RFC 3986 [2]_, section 6.2.2, has characters that need no encoding
        decoded, hexadecimal digits in upper case, and every host in lower case; a host is the same with the dot of the
        root of all domains. Besides, user and fragment, slashes at the end and parameters of tracking are left out, and
        parameters are read as forms write them and sorted by name, those of one name in their order.

        References
        ----------
        .. [1] WHATWG, URL Standard, https://url.spec.whatwg.org
        .. [2] T. Berners-Lee, R. Fielding, L. Masinter: Uniform Resource Identifier: Generic Syntax. RFC 3986 (2005).
        """
        try:
            parsed = ada_url.parse_url((url or "").strip(), ("protocol", "hostname", "port", "pathname", "search"))
        except ValueError:
            return None
        protocol = parsed["protocol"]
        host, path = (ENCODED.sub(_normalise, parsed[part]) for part in ("hostname", "pathname"))
        scheme = "" if protocol in WEB else protocol
        port = parsed["port"] and ":" + parsed["port"]
        search = self._sort(parsed["search"]) if parsed["search"] else ""
        # A path without a host may be a name, as in urn:isbn:1, and not begin as urn://isbn:1 does.
        slashes = "//" if host or path.startswith("/") else ""
        return f"{scheme}{slashes}{host.lower().removesuffix('.')}{port}{path.rstrip('/')}{search and '?' + search}"

    def _sort(self, search: str) -> str:
        parameters = ada_url.URLSearchParams(search)
        parameters.sort()  # type: ignore[no-untyped-call]
        # The parser's own names must be UTF-8, and deleting them one by one would take the square of their number.
        written = [(unquote_plus(each.partition("=")[0]), each) for each in str(parameters).split("&")]
        left_out = {name for name in {name for name, _ in written} if self._leaves_out(name.lower())}
        return "&".join(parameter for name, parameter in written if name not in left_out)

    def _leaves_out(self, name: str) -> bool:
        # Of what else has a meaning for fnmatch, brackets stand in names of parameters.
        return any(fnmatchcase(name, re.sub(r"[\[?]", r"[\g<0>]", pattern.lower())) for pattern in self.tracking)


def _normalise(encoded: re.Match[str]) -> str:
    """Decode a letter, a digit or one of -._~, which need no encoding."""
    char = chr(int(encoded[0][1:], 16))
    return char if char.isascii() and (char.isalnum() or char in "-._~") else encoded[0].upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlLayer(Layer):
    """The layer with its settings."""

    name = "url"
    table = Url
    reads = CHOOSING
    is_incremental = True
    reads_texts = False
    copies_kind = "url"
    place: int
    """Place of the column of addresses among those in `merged`."""
    form: Form
    choice: Choice

    @classmethod
    def check(cls, config: Config) -> None:
        """See `Layer.check`."""
        if not config.of(Url).column:
            raise ConfigError('url.column: must name the column of addresses for the layer "url" (got "")')

    @classmethod
    def list_columns(cls, config: Config) -> list[tuple[str, str]]:
        """See `Layer.list_columns`."""
        return [("url.column", config.of(Url).column)]

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        [place] = setup.places
        form = Form(tracking=setup.config.of(Url).tracking)
        return cls(place=place, form=form, choice=Choice.of(setup.config))

    def find(self, engine: Engine[Rows], past: EarlierKeys | None = None) -> Found[Rows]:
        """Search the documents: one pass over the rows, of which digests travel only."""
        documents = describe(engine, "documents", partial(_describe, place=self.place, form=self.form), KEYS)
        removals = remove_copies(engine, documents, self, jaccard=None, choice=self.choice, past=past)
        return Found(documents=documents, removals=removals, keys=documents)

    find_since = find


def _describe(batch: pa.RecordBatch, *, place: int, form: Form) -> dict[str, pa.Array]:
    """Return the keys of addresses."""
    urls = pa.array((form.canonicalise(values[place]) for values in batch["merged"].to_pylist()), pa.string())
    return to_keys(digest_each(urls), urls.is_null().to_numpy(zero_copy_only=False))
