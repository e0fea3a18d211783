"""What the report shows besides measurements: the sample of tokens, plots, and examples of the largest components."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import functions as F

from dedup.config import to_dict
from dedup.report.build import rank_tokens
from dedup.report.plots import draw_plots
from dedup.run import Run
from dedup.stages import representatives, signatures

Sample: TypeAlias = Sequence[tuple[int, bytes]]


def draw(work: Run, known: Mapping[str, Any], sample: Sample) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the rank-frequency curves of the sample (see `report.rank_tokens`), and the plots.

    Parameters
    ----------
    known
        bucket_sizes, component_sizes and recall_measured, as in report.json.
    sample
        As from `read_sample`.
    """
    token_ranks = rank_tokens({"input": [tokens for _, tokens in sample], "kept": _select_kept(work, sample)})
    measured = work.stages["edges"]
    shown = {"settings": to_dict(work.config), "edges": measured["rows"], "similarities": measured.get("similarities")}
    return token_ranks, draw_plots({**known, **shown, "token_ranks": token_ranks})


def read_sample(work: Run) -> Sample:
    """Return the tokens of the sample of documents by doc_id, that of equal rows as often as there are such."""
    rows = signatures.select_sample(work.tables["signatures"]).toArrow()
    return list(zip(rows["doc_id"].to_pylist(), rows["tokens"].to_pylist(), strict=True))


def _select_kept(work: Run, sample: Sample) -> list[bytes]:
    """Return the tokens of the documents that are kept; of equal rows one is."""
    single = dict(sample)
    duplicates = representatives.select_duplicates(work.tables["members"])
    ids = F.broadcast(signatures.select_sample(work.tables["signatures"]).select("doc_id"))
    removed = duplicates.select("doc_id").join(ids, on="doc_id", how="left_semi").toArrow()
    absent = set(removed["doc_id"].to_pylist())
    return [tokens for doc_id, tokens in single.items() if doc_id not in absent]


def read_largest(work: Run) -> list[dict[str, Any]]:
    """Return the largest components as `representatives.explain` tells them."""
    told = map(json.loads, work.texts("members", "largest"))
    return sorted(told, key=lambda one: (-one["documents"], one["component_id"]))[: representatives.LARGEST]


def show(largest: Sequence[Mapping[str, Any]], texts: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the largest components with the beginnings of their examples, None where no text was written."""
    return [
        {
            "representative_id": one["examples"][0]["id"],
            "documents": one["documents"],
            "component_id": one["component_id"],
            "examples": [{"id": each["id"], "text": texts.get(each["doc_id"])} for each in one["examples"]],
        }
        for one in largest
    ]
