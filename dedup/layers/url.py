"""The layer of documents of one address."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

import ada_url
import pyarrow as pa

from dedup.engine.engine import Engine, Rows, describe
from dedup.layers.copies import KEYS, Choice, remove_copies, to_keys
from dedup.layers.layer import Found

WEB = ("http:", "https:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What of an address counts."""

    with_scheme: bool
    with_query: bool
    tracking: Sequence[str]
    """Names of parameters that do not count, in which a star stands for any characters."""

    def canonicalise(self, url: str | None) -> str | None:
        """Return the canonical form of an address; None where it is none.

        The WHATWG's parser lower-cases scheme and host, writes hosts of other scripts in Punycode, leaves out default
        ports and resolves dots in paths. Besides, user and fragment, slashes at the end and parameters of tracking are
        left out, and parameters are sorted by name, those of one name in their order.

        References
        ----------
        .. [1] WHATWG, URL Standard, https://url.spec.whatwg.org
        """
        try:
            parsed = ada_url.parse_url((url or "").strip(), ("protocol", "host", "pathname", "search"))
        except ValueError:
            return None
        protocol, path = parsed["protocol"], parsed["pathname"].rstrip("/")
        scheme = "" if protocol in WEB and not self.with_scheme else protocol
        search = self._sort(parsed["search"]) if self.with_query and parsed["search"] else ""
        return f"{scheme}//{parsed['host']}{path}{search and '?' + search}"

    def _sort(self, search: str) -> str:
        parameters = ada_url.URLSearchParams(search)
        for name in {*parameters.keys()}:
            if any(fnmatchcase(name.lower(), pattern.lower()) for pattern in self.tracking):
                parameters.delete(name)
        parameters.sort()  # type: ignore[no-untyped-call]
        return str(parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlLayer:
    """The layer with its settings."""

    place: int
    """Of the column of addresses among those in `merged`."""
    form: Form
    choice: Choice
    name: str = "url"

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: one pass over the rows, of which digests travel only."""
        documents = describe(engine, "documents", partial(_describe, place=self.place, form=self.form), KEYS)
        removals = remove_copies(engine, documents, layer=self.name, kind="url", jaccard=None, choice=self.choice)
        return Found(documents=documents, removals=removals)


def _describe(batch: pa.RecordBatch, *, place: int, form: Form) -> dict[str, pa.Array]:
    """Return the keys of addresses."""
    urls = (form.canonicalise(values[place]) for values in batch["merged"].to_pylist())
    return to_keys([None if url is None else url.encode() for url in urls])
