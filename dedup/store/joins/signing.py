"""DOCUMENTS -> SIGNATURES of a batch that Spark adds to a store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from dedup.errors import DataError
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.settings.hashspec import HashSpec
from dedup.stages import documents, identical, signatures
from dedup.stages.documents import Corpus
from dedup.stages.table import Keep, Table
from dedup.tables.counts import Collapsed, Signed

Given = ParamSpec("Given")
Value = TypeVar("Value")


class Read(NamedTuple):
    """Documents that were signed, each by an id of its own."""

    corpus: Corpus
    signed: Table[Signed]
    shared: Table[Collapsed]
    renamed: Mapping[str, int]
    """Document ids of ids whose hash is that of another."""


class Stage(Protocol):
    """A runner of stages that notes counts and time of each under its name, unless the stage returns None."""

    def __call__(self, name: str, work: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs) -> Value:
        """Return what the work returns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signer:
    """Parameters by which a batch is signed; `keep` writes its tables, `stage` times its stages."""

    tokenizer: Tokenizer
    spec: HashSpec
    id_column: str
    """Empty where an id is the digest of its row."""
    sample_share: float
    """Share of the documents whose tokens are stored."""
    cores: int
    keep: Keep
    stage: Stage

    def read(self, corpus: Corpus) -> Read:
        """Sign the documents, find those of one shingle set, and make sure that every one has an id of its own.

        Raises
        ------
        DataError
            When the input has no document, or null or repeated ids.
        """
        stage = self.stage
        signed = stage("signatures", self._sign, corpus)
        shared = stage("identical", self._collapse, corpus, signed)
        renamed = self._find_renamed(signed, shared)
        if renamed:
            corpus = corpus.rename(renamed)
            signed = Table(frame=documents.exchange_ids(signed.frame, renamed), counts=signed.counts)
            shared = stage("identical", identical.collapse, self.keep, signed, cores=self.cores, table="renamed")
        self._check_repeated(signed, shared)
        return Read(corpus, signed, shared, renamed)

    def _sign(self, corpus: Corpus) -> Table[Signed]:
        build = partial(
            signatures.sign_documents,
            corpus,
            tokenizer=self.tokenizer,
            hashed=self.spec.to_dict(),
            shingle_size=self.spec.shingle_size,
            bands=self.spec.bands,
            rows=self.spec.rows,
            signature_seed=self.spec.signature_seed,
            sample_share=self.sample_share,
        )
        signed = signatures.sign(self.keep, corpus, lambda counters: build(counters=counters), self.spec.to_dict())
        if not signed.counts.rows:
            raise DataError("--input: must hold at least one document (it has none)")
        return signed

    def _collapse(self, corpus: Corpus, signed: Table[Signed]) -> Table[Collapsed]:
        """Find the documents of one shingle set, and make sure that no id is null."""
        shared = identical.collapse(self.keep, signed, cores=self.cores)
        documents.check_null(corpus, signed.counts.ids_null, id_column=self.id_column)
        return shared

    def _find_renamed(self, signed: Table[Signed], shared: Table[Collapsed]) -> dict[str, int]:
        """Return other document ids for ids whose hash is that of another."""
        if not shared.counts.repeated:
            return {}
        return documents.find_renamed(signed.frame, identical.select_repeated(shared.frame))

    def _check_repeated(self, signed: Table[Signed], shared: Table[Collapsed]) -> None:
        """Make sure that ids are unique."""
        if shared.counts.repeated:
            repeated = identical.select_repeated(shared.frame)
            documents.check_repeated(signed.frame, repeated, id_column=self.id_column)
