"""Markup taken out of texts before they are cut into tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version

import pyarrow as pa

from dedup.kernels import Hashes, Integers
from dedup.kernels.text.tokenizer import TokenPlaces, WrappedTokenizer, read_texts

PACKAGES = {"html": "resiliparse", "markdown": "markdown-it-py"}
"""Packages that read each kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmarked(WrappedTokenizer):
    """Tokenizer of the text in markup: without tags, comments, scripts and styles, titles and texts for images."""

    markup: str
    """Kind of markup: "html", or "markdown" as CommonMark has it, with tables."""

    @property
    def basis(self) -> str:
        """See `Tokenizer.basis`."""
        package = PACKAGES[self.markup]
        return ", ".join(filter(None, [self.tokenizer.basis, f"{package} {version(package)}"]))

    def hash(self, texts: pa.Array) -> tuple[Hashes, Integers]:
        """Hash the tokens of every text without its markup; see `Tokenizer.hash`."""
        read = READERS[self.markup]()
        return self.tokenizer.hash(pa.array(map(read, read_texts(texts)), pa.large_string()))

    def locate(self, texts: pa.Array) -> TokenPlaces:
        """Refuse, as nobody tells where in the text stands what is left of it; layers that ask refuse the setting."""
        raise ValueError(
            f'text.markup: must be "keep" where places are asked for (got {self.markup}, {len(texts)} texts)'
        )


@cache
def _read_html() -> Callable[[str], str]:
    from resiliparse.extract.html2text import extract_plain_text

    def read(text: str) -> str:
        found: str = extract_plain_text(text, preserve_formatting=False, list_bullets=False, alt_texts=False)
        return found

    return read


@cache
def _read_markdown() -> Callable[[str], str]:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    parser = MarkdownIt("commonmark").enable("table")

    def write(tokens: list[Token]) -> str:
        """Return the contents of tokens, a space for each that ends a block or line."""
        return "".join(
            write(each.children) + " "
            if each.children is not None and each.type == "inline"
            else ""
            if each.type.startswith("html_") or each.type == "image"
            else each.content or ("" if each.type in {"text", *INLINE} else " ")
            for each in tokens
        )

    def read(text: str) -> str:
        return write(parser.parse(text))

    return read


INLINE = {f"{name}_{end}" for name in ("em", "strong", "link") for end in ("open", "close")}
READERS = {"html": _read_html, "markdown": _read_markdown}
