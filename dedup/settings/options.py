"""The settings of a job: one frozen dataclass per TOML table, checked once and then passed around as data.

A default stands beside its field and nowhere else; `conf/dedup.toml` repeats the defaults and the field docstrings for
users, and a test compares the two.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeVar

from dedup.errors import ConfigError
from dedup.files.formats import list_creatable
from dedup.layers import LAYERS, NEAR
from dedup.settings.alerts import Alerts
from dedup.settings.banding import MAX_SIGNATURE_SIZE, SIGMAS, Banding, choose
from dedup.settings.inputs import Input
from dedup.settings.keeping import FOREIGN, Rule, parse_merge, parse_order
from dedup.settings.profiles import DEFAULT, Profile
from dedup.settings.rules import Copies, Count, Range, Records, Table, Tables, Texts

Own = TypeVar("Own", bound=Table)


def check_signature_size(where: str, prefix: str, bands: Count, rows: Count) -> None:
    """Refuse more MinHash values than a signature may have, of numbers that are given."""
    if bands != "auto" and rows != "auto" and bands * rows > MAX_SIGNATURE_SIZE:
        raise ConfigError(
            f"{where}: {prefix}bands * {prefix}rows must be at most {MAX_SIGNATURE_SIZE} (got {bands * rows})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Table):
    """Normalisation of texts, after Unicode's NFKC; signatures made with different values are never compared."""

    case: Literal["lower", "keep"] = "lower"
    """Letters: "lower" compares them in lower case, "keep" as they are."""

    accents: Literal["keep", "drop"] = "keep"
    """Combining diacritical marks (U+0300 to U+036F, as in é): "keep" lets them count, "drop" takes them off."""

    digits: Literal["keep", "zero"] = "keep"
    """Decimal digits: "keep" compares them as they are, "zero" takes all for 0, so that dates and numbers of equal
    length are equal."""

    tokens: Literal["words", "punctuation", "whitespace"] = "words"
    """Tokens: "words" are runs of letters, marks, digits and underscores, and single characters of scripts written
    without spaces; "punctuation" adds every other visible character as a token of its own; with "whitespace" a token
    is whatever stands between white space."""

    markup: Literal["keep", "html", "markdown"] = "keep"
    """Markup: "html" and "markdown" compare what stands between tags or marks alone, by the extra of this name; "keep"
    compares all. The layers passages and contamination, whose spans are places in the text, need "keep"."""

    stemming: str = ""
    """Language whose words are compared by their stems, as "english", by Snowball's rules and the extra stemming; when
    empty, words are compared whole."""

    arabic: Literal["keep", "drop"] = "keep"
    """Arabic vowel signs (harakat, dagger alif) and tatweel: "keep" lets them count, "drop" takes them off."""

    han: Literal["keep", "simplified"] = "keep"
    """Chinese characters: "simplified" compares each traditional one as the simplified one that OpenCC makes of it by
    itself, by the extra chinese; "keep" compares them as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash(Table):
    """Secret key of the hashes of tokens; signatures made with different keys are never compared."""

    key_file: str = ""
    """Local file of a secret of at least 16 bytes, white space around it not counted, which its owner alone may read
    (chmod 600); when empty, anyone can compute the hashes. Without the key nobody can write documents whose hashes
    collide, or that evade comparison; the key itself is never written, its fingerprint is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shingles(Table):
    """Shingles, the units in which texts are compared; signatures made with different values are never compared."""

    shingle_size: int = field(default=5, metadata={"range": Range(1, 64)})
    """Consecutive tokens in a shingle, an integer from 1 to 64: a larger one makes long copies stand out from common
    phrases, a smaller one forgives more edits; a document with fewer tokens has one shingle of all its tokens."""

    unit: Literal["tokens", "char", "ids", "set"] = "tokens"
    """Tokens of every layer: "tokens" are those of [text]; "char" makes each character of the normalised text one, and
    one space of what separates words, so that shingles are character n-grams, for which 5 to 9 is usual, the longer the
    texts the more; "ids" are the token ids that tokenizer_file gives to the text as it is; "set" are the elements of
    lists, strings or integers, in place of texts, with a shingle_size of 1 and the layers near, url and containment."""

    tokenizer_file: str = ""
    """Local file of a tokenizer for "ids", JSON of Hugging Face's library tokenizers, which the extra ids installs;
    signatures made with different files are never compared."""

    stored: bool = True
    """Whether a store holds the shingle sets of its documents, true or false: they are nine tenths of its bytes; false
    makes the few that later batches are compared with from the texts again, which must stay in their files."""

    @property
    def has_sets(self) -> bool:
        """Whether documents are sets, and no texts."""
        return self.unit == "set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lsh(Table):
    """Search by MinHash: a pair of similarity J is a candidate with probability 1 - (1 - J^rows)^bands."""

    bands: Count = field(default="auto", metadata={"range": Range(1, 4096), "needs": ("mode", "lsh")})
    """Bands of a signature, an integer from 1 to 4096, or "auto" for what the recall asks for at the threshold: more
    bands find more true pairs and make more candidates; bands times rows is at most 16384."""

    rows: Count = field(default="auto", metadata={"range": Range(1, 128), "needs": ("mode", "lsh")})
    """MinHash values in a band, an integer from 1 to 128, or "auto" for what costs least (21 bands of 6 rows at a
    threshold of 0.8): more rows make fewer candidates and find fewer true pairs."""

    recall: float = field(default=0.998, metadata={"range": Range(0, 1), "needs": ("mode", "lsh")})
    """Least probability with which "auto" makes a pair at the threshold a candidate, a number of at least 0 and at most
    1; given bands and rows are taken as they are, with a warning where they miss it."""

    def __post_init__(self) -> None:
        """Check the fields, then their product."""
        # Not super(): on a class with slots it refers to the class before the slots were added.
        Table.__post_init__(self)
        check_signature_size(type(self).__name__, "", self.bands, self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets(Table):
    """Pairs of documents that share a band key."""

    max_bucket: int = field(default=150, metadata={"range": Range(2)})
    """Documents in the largest bucket of which all pairs are candidates, a 64-bit integer of at least 2; documents of
    larger buckets are compared where they share a shingle that at most so many of them have, and in part where that
    does not decide; the report counts the pairs left uncompared. The layer "containment" compares a document with as
    many larger ones, the largest, for each shingle that they share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Components(Table):
    """Components of edges; the result is the same whichever engine computes it."""

    engine: Literal["auto", "graphframes", "driver"] = "auto"
    """Engine: "graphframes" computes on the cluster, "driver" in the driver's memory, and "auto" takes the driver for
    forests of up to 5 million edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver(Table):
    """Work that Spark's driver does by itself; the result is the same either way."""

    search_bytes: Count = field(default="auto", metadata={"range": Range(0)})
    """Memory that the driver may take to search between the passes over files, which Spark's tasks make, or to add a
    batch to a store, a 64-bit integer of at least 0, or "auto" for half of what is free where Spark runs on one machine
    and 1 GB on a cluster. What needs more is shared out to the tasks, in some 40 jobs; 0 shares out all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(Table):
    """Linkage: which documents of a component are removed."""

    linkage: Literal["component", "representative"] = "component"
    """Linkage: with "component" one document stays of a whole component, chains of similar documents included; with
    "representative" every document removed is itself at least as similar as the threshold to the one kept for it."""

    max_component: int = field(default=0, metadata={"range": Range(0)})
    """Documents of the largest component that "component" takes whole, a 64-bit integer of at least 0; larger ones
    have "representative" linkage and are counted in the report. 0 sets no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(Table):
    """Choice of the documents that stay."""

    order: Texts = ("smallest_id",)
    """Rules by which the document kept is chosen, a list of Unicode strings; each decides among those that are equal by
    the ones before, and the smallest id at the end. "smallest_id" is in the user's own order, numbers as numbers and
    strings by bytes; "longest" and "shortest" count bytes of text; "latest:COLUMN" and "earliest:COLUMN" take dates,
    numbers or ISO 8601 in strings; "highest:COLUMN" and "lowest:COLUMN" numbers; "source:A,B" prefers sources in the
    order named; "sql:EXPRESSION" takes the highest value of an expression of Spark, where the input is a table. Nulls
    come last."""

    drop: Literal["others", "all", "without"] = "others"
    """Documents that go of those that the layers url, exact and near find alike: "others" all but one, "all" every one,
    and "without" those alone that input.without has too, so that further duplicates stay, whatever the layer."""

    merge: Texts = ()
    """Values that the documents removed pass on to the one kept, a list of Unicode strings, each a further column of
    its row: "count" the documents that it stands for, "NAME:COLUMN" the distinct values of a column as a list
    `dedup_NAME`, "first:COLUMN" and "last:COLUMN" the least and greatest value, as texts."""

    copies: Copies = field(default=1, metadata={"range": Range(1)})
    """Documents that stay of a cluster of the layers near and semantic, the first by the order; the others go in favour
    of the very first: a 64-bit integer of at least 1, or "log2" or "sqrt", for no more than a number, for 1 + log2 of
    the cluster's size, or for its root, rounded down. With output.mode "weights" one stays, and the weights of a
    cluster add up to this."""

    def __post_init__(self) -> None:
        """Check the fields, then the entries of the order."""
        Table.__post_init__(self)
        parse_order(self.order)
        parse_merge(self.merge)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Table):
    """Limits of a source's effect on others; a source that plants copies with small ids could have theirs removed."""

    per_source: int = field(default=0, metadata={"range": Range(0)})
    """Documents of other sources that one source may cause to be removed, a 64-bit integer of at least 0; further ones
    are kept and counted. A removal is caused by the sources of the documents between the one removed and the one kept
    or, where there are none, by the source of the one kept. 0 sets no limit."""


ROWS = {"filter": ("kept", "removed"), "annotate": ("annotated",), "ids": ("kept",), "weights": ("weights",)}
"""Folders of an output with the input's rows, or their ids, by output.mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Table):
    """Rows and files to write."""

    mode: Literal["filter", "annotate", "ids", "weights"] = "filter"
    """Result: "filter" writes the surviving rows, "annotate" all rows with columns that say what became of them, "ids"
    only the ids of the surviving rows, "weights" the ids of all rows with the size of their cluster, its sources and a
    weight for sampling."""

    format: str = field(default="input", metadata={"choices": lambda: ["input", *list_creatable()]})
    """Format of the rows written: with "input" every file of the input has its like in the output, of the same name,
    format and compression; "parquet", "jsonl" and "csv" are written into files of their own."""

    files: int = field(default=0, metadata={"range": Range(0, 1_000_000)})
    """Files of the rows written, an integer from 0 to 1000000; 0 for as many as the input has."""

    table: str = ""
    """Table of Spark's catalog that the surviving rows are written to, in Delta Lake or Iceberg, such as "db.clean"
    or "delta.`/data/clean`", instead of files; db.clean_removed and db.clean_duplicates come with it. When empty, rows
    are files."""

    def __post_init__(self) -> None:
        """Check the fields, then those that have no use together."""
        Table.__post_init__(self)
        if self.mode == "weights" and (self.format != "input" or self.files):
            raise ConfigError('Output: mode "weights" writes one table, and takes no format and no files')


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Table):
    """Labels that the result is measured against."""

    labeled_pairs: str = ""
    """File of labelled pairs, parquet, JSON lines or CSV: columns left_id and right_id, and duplicate, true or false,
    if some are none; the report then says which share of the duplicates ended in one component, and nothing is
    measured when it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage(Table):
    """Events of what runs read and write, as OpenLineage has them."""

    endpoint: str = ""
    """Local file that events are appended to as JSON lines, or http:// or https:// address that they are posted to,
    such as "http://marquez:5000/api/v1/lineage"; when empty, none are made."""

    namespace: str = "dedup"
    """Namespace of the job in these events."""

    job: str = ""
    """Name of the job in these events; when empty, "dedup." and the name of the output's folder."""

    def __post_init__(self) -> None:
        """Check the fields, then the scheme of the address, without which it would be taken for a file."""
        Table.__post_init__(self)
        if "://" in self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"Lineage: endpoint must be a local file or an address of http:// or https:// (got {self.endpoint!r})"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Table):
    """Definition of a near duplicate, and the search for pairs."""

    threshold: float = field(default=0.8, metadata={"range": Range(0, 1, above=True)})
    """Least Jaccard similarity of the shingle sets of two near duplicates, a number above 0 and at most 1."""

    engine: Literal["auto", "spark", "memory"] = "auto"
    """Engine: "memory" searches in the memory of this machine, without Spark and Java; "spark" takes corpora of any
    size; "auto" takes memory where the estimate of what it needs fits half of what is free and Spark was not asked
    for by spark-submit. Both give the same result."""

    mode: Literal["lsh", "exact"] = "lsh"
    """Search: "lsh" finds pairs by MinHash, for corpora of any size; "exact" finds every pair at or above the
    threshold, for small corpora and as ground truth. Either way every pair is verified exactly."""

    layers: Texts = field(default=(NEAR,), metadata={"choices": lambda: [*LAYERS]})
    """Layers that search one after another, each what the ones before have left, a list of Unicode strings: "url" for
    documents of one address, "exact" for equal texts, "lines" for lines of many documents, "near" for near duplicates,
    "semantic" for the same in other words, "containment" for documents that others include, "contamination" for texts
    that models are tested by, "passages" for spans that occur twice."""

    seed: int = field(default=1, metadata={"range": Range(0)})
    """Seed of the hashes of tokens, of the MinHash functions and of the band keys, a 64-bit integer of at least 0;
    signatures made with different seeds are never compared."""

    profile: Records = ()
    """Profiles, which have settings of their own for some of the documents, a list of tables; in a file each is a table
    [[profile]], which stands at the end (docs/profiles.md). A document is of the first whose condition holds, or else
    of the default one, and no layer compares documents of two."""

    input: Input = field(default_factory=Input)
    """Table [input]."""

    text: Text = field(default_factory=Text)
    """Table [text]."""

    hash: Hash = field(default_factory=Hash)
    """Table [hash]."""

    shingles: Shingles = field(default_factory=Shingles)
    """Table [shingles]."""

    lsh: Lsh = field(default_factory=Lsh)
    """Table [lsh]."""

    buckets: Buckets = field(default_factory=Buckets)
    """Table [buckets]."""

    components: Components = field(default_factory=Components)
    """Table [components]."""

    driver: Driver = field(default_factory=Driver)
    """Table [driver]."""

    cluster: Cluster = field(default_factory=Cluster)
    """Table [cluster]."""

    keep: Keep = field(default_factory=Keep)
    """Table [keep]."""

    limits: Limits = field(default_factory=Limits)
    """Table [limits]."""

    output: Output = field(default_factory=Output)
    """Table [output]."""

    evaluation: Evaluation = field(default_factory=Evaluation)
    """Table [evaluation]."""

    lineage: Lineage = field(default_factory=Lineage)
    """Table [lineage]."""

    tables: Tables = ()
    """Tables of layers, as [url], by their classes; a default one is left out, since the layers there are decide."""

    alerts: Alerts = field(default_factory=Alerts)
    """Table [alerts]."""

    def __post_init__(self) -> None:
        """Check the fields, then the profiles."""
        Table.__post_init__(self)
        changed = sorted((each for each in self.tables if each != type(each)()), key=lambda each: type(each).__name__)
        object.__setattr__(self, "tables", tuple(changed))
        profiles = tuple(each if isinstance(each, Profile) else Profile.of(each) for each in self.profile)
        object.__setattr__(self, "profile", profiles)
        names = [each.name for each in profiles]
        if len({*names}) < len(names):
            raise ConfigError(f"profile: every entry must have a name of its own (got {', '.join(names)})")
        for each in profiles:
            try:
                own = self._choose(each)
            except ConfigError as error:
                raise ConfigError(f'profile "{each.name}": {error}') from error
            if own.shingles.has_sets != self.shingles.has_sets:
                raise ConfigError(
                    'profile: shingles.unit must be "set" in all profiles or in none: all read one column'
                )

    def of(self, kind: type[Own]) -> Own:
        """Return the settings of a layer, by their class."""
        return next((each for each in self.tables if isinstance(each, kind)), kind())

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns of the texts that are compared."""
        return tuple(self.input.weights)

    @property
    def compares_sets(self) -> bool:
        """Whether sets of shingles are all that is compared of documents, of which places in a text tell nothing."""
        return self.shingles.has_sets or len(self.text_columns) > 1

    @property
    def row_joint(self) -> str:
        """Text between two rows of a document; the text of a set ends with a line feed of its own."""
        return "" if self.shingles.has_sets else "\n"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Rules by which the document that stays is chosen."""
        own = parse_order(self.keep.order)
        return (FOREIGN, *own) if self.input.without else own

    @property
    def by_profile(self) -> dict[str, Self]:
        """Settings of each profile's documents, in the order of the profiles, the default one last."""
        return {each.name: self._choose(each) for each in self.profile} | {DEFAULT: replace(self, profile=())}

    def _choose(self, profile: Profile) -> Self:
        changed: dict[str, dict[str, Any]] = {}
        for key, value in profile.own:
            table, _, name = key.rpartition(".")
            changed.setdefault(table, {})[name] = value
        own = changed.pop("", {})
        tables = {table: replace(getattr(self, table), **values) for table, values in changed.items()}
        return replace(self, profile=(), **own, **tables)

    @property
    def writes_texts(self) -> bool:
        """Whether rows of the input are written, and not ids alone."""
        return self.output.mode not in {"ids", "weights"}

    @property
    def banding(self) -> Banding:
        """Bands and rows, given or chosen from the threshold."""
        bands, rows = (None if given == "auto" else given for given in (self.lsh.bands, self.lsh.rows))
        if bands is not None and rows is not None:
            return Banding(bands, rows)
        return choose(self.threshold, self.lsh.recall, SIGMAS, bands, rows)

    @property
    def signature_size(self) -> int:
        """MinHash values in a signature, bands * rows."""
        return self.banding.bands * self.banding.rows

    def settle(self) -> Self:
        """Return the settings with the numbers that "auto" stands for, in profiles too."""
        settled = []
        for each in self.profile:
            bands, rows = self._choose(each).banding
            settled.append(replace(each, own=(*({**dict(each.own), "lsh.bands": bands, "lsh.rows": rows}).items(),)))
        lsh = replace(self.lsh, bands=self.banding.bands, rows=self.banding.rows)
        return replace(self, lsh=lsh, profile=tuple(settled))
