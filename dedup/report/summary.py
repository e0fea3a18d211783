"""What the report shows besides measurements: the sample of tokens, plots, and examples of the largest components."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F

from dedup.config import to_dict
from dedup.report.build import rank_tokens
from dedup.report.plots import draw_plots
from dedup.run import Run
from dedup.stages import representatives, signatures


def draw(work: Run, known: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the rank-frequency curves of the sample (see `report.rank_tokens`), and the plots.

    Parameters
    ----------
    known
        bucket_sizes, component_sizes and recall_measured, as in report.json.
    """
    token_ranks = rank_tokens(_read_sample(work))
    measured = work.stages["edges"]
    shown = {"settings": to_dict(work.config), "edges": measured["rows"], "similarities": measured.get("similarities")}
    return token_ranks, draw_plots({**known, **shown, "token_ranks": token_ranks})


def _read_sample(work: Run) -> dict[str, list[bytes]]:
    """Return the tokens of the sample of documents, all and those kept."""
    sample = signatures.select_sample(work.tables["signatures"])
    duplicates = representatives.select_duplicates(work.tables["members"])
    removed = duplicates.select("doc_id").join(F.broadcast(sample.select("doc_id")), on="doc_id", how="left_semi")
    absent = set(removed.toArrow()["doc_id"].to_pylist())
    rows = sample.toArrow()
    every = rows["tokens"].to_pylist()
    # Of equal rows one is kept.
    single = dict(zip(rows["doc_id"].to_pylist(), every, strict=True))
    return {"input": every, "kept": [tokens for doc_id, tokens in single.items() if doc_id not in absent]}


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
