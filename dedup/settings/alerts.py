"""The settings of alerts, TOML table [alerts]."""

from dataclasses import dataclass, field
from typing import Literal

from dedup.settings.rules import Limit, Range, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts(Table):
    """Limits of what the report measures; a measurement beyond its limit, or unknown though it has one, is a breach."""

    on_breach: Literal["warn", "fail"] = "warn"
    """After a breach: "warn" publishes the result and shows the breach first in the report, "fail" ends the job with
    exit code 3 before anything is published; the same command with other limits goes on from there."""

    removal_rate_above: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Most of the documents that may be removed, a number of at least 0 and at most 1, or empty for no limit."""

    removal_rate_below: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Least of the documents that must be removed, a number of at least 0 and at most 1, or empty for no limit."""

    removal_rate_change_above: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Greatest difference of the removal rate to that of the --baseline, up or down, a number of at least 0 and at most
    1, or empty for no limit."""

    text_bytes_per_doc_change_above: Limit = field(default="", metadata={"range": Range(0)})
    """Greatest change of the mean bytes of a text since the --baseline, as a share of what they were, a finite number
    of at least 0, or empty for no limit."""

    tokens_per_doc_change_above: Limit = field(default="", metadata={"range": Range(0)})
    """Greatest change of the mean tokens of a document since the --baseline, as a share of what they were, a finite
    number of at least 0, or empty for no limit."""

    shingles_per_doc_change_above: Limit = field(default="", metadata={"range": Range(0)})
    """Greatest change of the mean distinct shingles of a document since the --baseline, as a share of what they were, a
    finite number of at least 0, or empty for no limit."""

    similarity_drift_above: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Most of the pairs compared that may have another similarity than those of the --baseline, a number of at least 0
    and at most 1, or empty for no limit."""

    bucket_drift_above: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Most of the documents in buckets that may be in larger or smaller ones than those of the --baseline, a number of
    at least 0 and at most 1, or empty for no limit."""

    survival_by_source_below: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Least of the documents of any source that must be kept, a number of at least 0 and at most 1, or empty for no
    limit."""

    empty_rate_above: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Most of the documents that may have no token, a number of at least 0 and at most 1, or empty for no limit."""

    candidate_pairs_per_doc_above: Limit = field(default="", metadata={"range": Range(0)})
    """Most candidates per document, a finite number of at least 0, or empty for no limit."""

    bucket_size_p99_above: Limit = field(default="", metadata={"range": Range(0)})
    """Most documents that 99 of 100 buckets may hold, a finite number of at least 0, or empty for no limit."""

    verify_drop_rate_above: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Most of the candidates that the exact comparison may drop, a number of at least 0 and at most 1, or empty for no
    limit."""

    recall_on_labeled_set_below: Limit = field(default="", metadata={"range": Range(0, 1)})
    """Least of the labelled pairs that must be found, a number of at least 0 and at most 1, or empty for no limit."""

    signature_bytes_above: Limit = field(default="", metadata={"range": Range(0)})
    """Most bytes of the table of signatures, a finite number of at least 0, or empty for no limit."""

    index_bytes_above: Limit = field(default="", metadata={"range": Range(0)})
    """Most bytes of band rows, a key and an id of 8 bytes each, which are brought together in buckets, a finite number
    of at least 0, or empty for no limit."""

    stage_seconds_above: Limit = field(default="", metadata={"range": Range(0)})
    """Most seconds of any one stage, a finite number of at least 0, or empty for no limit."""
