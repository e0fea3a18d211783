"""Keywords of `deduplicate`, for type checkers: every setting by its name, after its table's where two have it."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

from dedup.settings.options import Config
from dedup.settings.rules import Copies, Count, Limit


class Keywords(TypedDict, total=False):
    """Settings by keyword; a test holds names and types against the settings themselves."""

    threshold: float
    engine: Literal["auto", "spark", "memory"]
    mode: Literal["lsh", "exact"]
    layers: Sequence[str]
    seed: int
    profile: Sequence[Mapping[str, Any]]
    input__format: str
    input__table: str
    id_column: str
    part_of: str
    text_column: str
    columns: Sequence[str]
    source_column: str
    name_filter: str
    max_text_bytes: int
    without: Sequence[str]
    without_batches: Sequence[str]
    on_bad_record: Literal["fail", "quarantine"]
    case: Literal["lower", "keep"]
    accents: Literal["keep", "drop"]
    digits: Literal["keep", "zero"]
    tokens: Literal["words", "punctuation", "whitespace"]
    markup: Literal["keep", "html", "markdown"]
    stemming: str
    arabic: Literal["keep", "drop"]
    han: Literal["keep", "simplified"]
    key_file: str
    shingle_size: int
    unit: Literal["tokens", "char", "ids", "set"]
    tokenizer_file: str
    stored: bool
    bands: Count
    rows: Count
    recall: float
    max_bucket: int
    components__engine: Literal["auto", "graphframes", "driver"]
    search_bytes: Count
    linkage: Literal["component", "representative"]
    max_component: int
    order: Sequence[str]
    drop: Literal["others", "all", "without"]
    merge: Sequence[str]
    copies: Copies
    per_source: int
    output__mode: Literal["filter", "annotate", "ids", "weights"]
    output__format: str
    files: int
    output__table: str
    labeled_pairs: str
    endpoint: str
    namespace: str
    job: str
    on_breach: Literal["warn", "fail"]
    removal_rate_above: Limit
    removal_rate_below: Limit
    removal_rate_change_above: Limit
    text_bytes_per_doc_change_above: Limit
    tokens_per_doc_change_above: Limit
    shingles_per_doc_change_above: Limit
    similarity_drift_above: Limit
    bucket_drift_above: Limit
    survival_by_source_below: Limit
    empty_rate_above: Limit
    candidate_pairs_per_doc_above: Limit
    bucket_size_p99_above: Limit
    verify_drop_rate_above: Limit
    recall_on_labeled_set_below: Limit
    signature_bytes_above: Limit
    index_bytes_above: Limit
    stage_seconds_above: Limit
    column: str
    tracking: Sequence[str]
    exact__compare: Literal["bytes", "text"]
    lines__unit: Literal["line", "paragraph"]
    lines__compare: Literal["bytes", "text"]
    documents: int
    min_characters: int
    lines__action: Literal["cut", "ignore", "mark"]
    vector_column: str
    encoder: str
    semantic__threshold: float | Literal[""]
    semantic__action: Literal["remove", "check"]
    guards: Sequence[str]
    overlap: float
    semantic__linkage: Literal["representative", "component"]
    containment__threshold: float
    min_shingles: int
    sets: Sequence[str]
    match_tokens: int
    contamination__action: Literal["drop", "cut", "mark"]
    margin: int
    common: int
    passages__tokens: int
    passages__action: Literal["cut", "drop", "mark"]
    keep_first: bool
    drop_share: float
    min_tokens_left: int
    ends: Literal["token", "sentence"]


class BatchOptions(Keywords, total=False):
    """All that a batch takes by keyword."""

    config: str | PathLike[str] | Config | None
    preset: str | None
    settings: Mapping[str, object]
    overwrite: bool
    progress: bool | None


class Options(BatchOptions, total=False):
    """All that `deduplicate` takes by keyword, besides `spark`."""

    store: str | PathLike[str] | None
    batch: str
    reelect: bool
