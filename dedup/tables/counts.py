"""Counts made with the tables of a run: a typed value for each stage, the same from every engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """Counts of SIGNATURES."""

    rows: int
    """Documents, equal rows counted one by one."""
    text_bytes: int = 0
    tokens: int = 0
    shingles: int = 0
    """Distinct shingles, summed over the documents."""
    documents_empty: int = 0
    """Documents without a token."""
    documents_short: int = 0
    """Documents with fewer tokens than a shingle, but with one."""
    ids_null: int = 0
    sample_bytes: int = 0
    """Bytes of the token sample."""
    foreign: int = 0
    """Documents of `input.without`; the other counts are of those of the input, once the layer has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapsed:
    """Counts of IDENTICAL."""

    rows: int
    """Documents with the shingle set of another document with a lesser id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucketed:
    """Counts of BUCKETS."""

    rows: int
    """Buckets of two and more members."""
    members: int = 0
    band_rows: int = 0
    """Rows (key, document) brought together."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Number of buckets of each size, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """Counts of the pairs compared in place of buckets over the cap."""

    rows: int
    members: int = 0
    undecided: int = 0
    """Documents with pairs compared under the cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Counts of CANDIDATES."""

    rows: int
    pairs_in_buckets: int = 0
    """Pairs of buckets, counted once for each bucket that they share."""
    pairs_uncompared: int = 0
    """Pairs left out by the cap on buckets, counted in the same way."""
    pairs_settled: int = 0
    """Pairs of buckets over the cap that need no comparison, since the compared ones would connect the same
    documents."""
    pairs_distinct: int = 0
    pairs_after_length: int = 0
    """Distinct pairs whose sizes allow the threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Counts of EDGES."""

    rows: int
    """Pairs with exact Jaccard at or above the threshold."""
    compared: int = 0
    """Rows of the table on disk: edges, and pairs that may be near misses."""
    similarities: Sequence[int] = ()
    """Number of compared pairs in each of `edges.BINS` bins of Jaccard similarity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Counts of COMPONENTS."""

    rows: int
    """Documents that resemble another."""
    engine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Counts of a sample of the pairs that a cap left uncompared."""

    documents: int = 0
    """Most documents that can have such pairs."""
    drawn: int = 0
    """Distinct pairs of the sample."""
    possible: int = 0
    """Pairs drawn that may be lost: sizes and signatures do not rule them out, and their documents were in two
    components when they were drawn."""
    verified: int = 0
    """Possible pairs compared exactly, drawn once more."""
    lost: int = 0
    """Compared pairs at or above the threshold."""

    @property
    def rows(self) -> int:
        """Pairs lost."""
        return self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeled:
    """Counts of the labelled pairs that ended in one component."""

    given: int = 0
    """Labelled pairs of duplicates."""
    points: Sequence[Mapping[str, Any]] = ()
    """Labelled pairs of which both documents are in the corpus, by similarity."""

    @property
    def rows(self) -> int:
        """Labelled pairs that the corpus has."""
        return sum(point["pairs"] for point in self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """Counts of MEMBERS."""

    rows: int
    removed: int = 0
    """Members that are removed."""
    near: int = 0
    """Members removed that are no identical copy of the one kept."""
    distant: int = 0
    """Members without an edge to the one kept."""
    spared: int = 0
    """Members kept by a limit."""
    chained: int = 0
    """Members removed although less similar to the one kept than the threshold."""
    least: float | None = None
    """Least similarity of a removed member to the one kept."""
    relinked: int = 0
    """Components larger than the limit, whose removed members must each resemble the one kept for it."""
    similarities: Sequence[int] = ()
    """Number of members removed as near in each of `jaccard.BINS` bins of similarity to the one kept."""
    doubtful: Sequence[Mapping[str, Any]] = ()
    """Members removed as near that are least similar to the one kept, as from `summarise_removals`."""
    parted: int = 0
    """Members that linkage by representative would keep besides, by the pairs compared."""
    joined: Sequence[int | None] = ()
    """Shingle sets joined to another by the pairs compared, at each of `choose_thresholds`; None where no stored pairs
    show it."""
    removers: Sequence[Mapping[str, Any]] = ()
    """Members of a `source` removed in favour of another `by` it, for the pairs of sources with most; empty without a
    column of sources."""
    rules: Mapping[str, int] = field(default_factory=dict)
    """Number of choices that each rule of the order has decided."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Number of components of each size, ascending."""
    largest: Sequence[Mapping[str, Any]] = ()
    """Largest components, each with `documents`, `component_id` and `examples` of doc_id and id, the one kept first."""

    @property
    def shown(self) -> list[int]:
        """Document ids of the members whose texts a report shows; ascending."""
        examples = {each["doc_id"] for one in self.largest for each in one["examples"]}
        return sorted(examples | {each[name] for each in self.doubtful for name in ("doc_id", "representative_doc_id")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Counts of what a batch adds to a store."""

    rows: int
    """Rows of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Counts of the layer `near`."""

    signed: Signed
    collapsed: Collapsed
    bucketed: Bucketed
    paired: Paired
    verified: Verified
    connected: Connected
    lost: Lost | None
    """Counts of a sample of the pairs that a cap left uncompared; None where counting failed."""
    elected: Elected
    labeled: Labeled | None
    """Counts of labelled pairs; None without labels, and where counting failed."""

    @classmethod
    def none(cls) -> Self:
        """Return the counts of a run without the layer."""
        return cls(
            signed=Signed(rows=0),
            collapsed=Collapsed(rows=0),
            bucketed=Bucketed(rows=0),
            paired=Paired(rows=0),
            verified=Verified(rows=0),
            connected=Connected(rows=0),
            lost=Lost(),
            elected=Elected(rows=0),
            labeled=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
    """Counts of a layer."""

    layer: str
    documents: int
    """Documents given to the layer."""
    text_bytes: int
    """Bytes of their texts, without spans cut by earlier layers."""
    tokens: int | None = None
    """Tokens of their texts; None where the layer counts none."""
    removed: int = 0
    """Most documents that the layer may remove; for near, documents that resemble another."""
    spans: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Documents removed, and spans."""
        return self.removed + self.spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of the output."""

    kept: int
    removed: int
    """Documents removed."""
    edges: int
    near_misses: int
    quarantined: int = 0
    removed_by: Mapping[str, int] = field(default_factory=dict)
    """Documents removed, by layer."""
    spans: int = 0
    """Spans cut or marked by layers."""
    text_bytes_kept: int | None = None
    """Bytes of the texts kept; None where no text is written."""
    parts: Mapping[str, int] | None = None
    """Rows kept and removed, where several are a document; None where each is one."""

    @property
    def rows(self) -> int:
        """Documents kept."""
        return self.kept
