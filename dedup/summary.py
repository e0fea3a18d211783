"""What the report shows besides measurements: the sample of tokens, plots, and examples of the largest components."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dedup.config import to_dict
from dedup.report import rank_tokens
from dedup.run import Run
from dedup.stages import representatives, signatures


def draw(work: Run, known: Mapping[str, Any], removed: Collection[int]) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return the rank-frequency curves of the sample (see `report.rank_tokens`), and the plots.

    Parameters
    ----------
    known
        bucket_sizes and component_sizes, as in report.json.
    removed
        The documents of the sample that are not kept.
    """
    # Half a second, in which Spark writes the output.
    from dedup.plots import draw_plots  # noqa: PLC0415

    sample = signatures.select_sample(work.tables["signatures"]).toArrow()
    every = sample["tokens"].to_pylist()
    # Of equal rows one is kept.
    texts = dict(zip(sample["doc_id"].to_pylist(), every, strict=True))
    token_ranks = rank_tokens(
        {"input": every, "kept": [text for doc_id, text in texts.items() if doc_id not in removed]}
    )
    measured = work.stages["edges"]
    shown = {"settings": to_dict(work.config), "edges": measured["rows"], "similarities": measured.get("similarities")}
    return token_ranks, draw_plots({**known, **shown, "token_ranks": token_ranks})


def read_removed(work: Run) -> set[int]:
    """Return the documents of the sample that are not kept."""
    return {int(doc_id) for doc_id in work.texts("members", "removed")}


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
