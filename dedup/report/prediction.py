"""Prediction of a plan for a corpus like the run's, to compare with the measurements."""

from typing import Any

from dedup.plan.model import measure, plan
from dedup.plan.profile import assume_corpus
from dedup.plan.rates import Rates
from dedup.settings.options import Config
from dedup.tables.counts import Signed

CORES = 40
"""Cores of a plan by default; predicted bytes hardly depend on them."""
ID_BYTES = 8.0


def predict(config: Config, signed: Signed, removed: int) -> dict[str, Any] | None:
    """Predict the layer near of a run from four of its numbers.

    Parameters
    ----------
    removed
        Documents that the layer removed of those it signed.

    Returns
    -------
    dict
        `options` of `dedup plan` that ask for it; `pairs` in buckets, distinct, candidates and edges; documents
        `removed`; and `shuffle_bytes` of every stage. None in mode exact, and for less than two documents with tokens.
    """
    if config.mode != "lsh" or signed.rows - signed.documents_empty < 2:
        return None
    # As the options tell them.
    tokens, text_bytes, duplication = (
        float(f"{total / signed.rows:.4g}") for total in (signed.tokens, signed.text_bytes, removed)
    )
    # A share is below 1, also where four digits do not tell it from that.
    duplication = min(duplication, 0.9999)
    corpus = assume_corpus(
        documents=signed.rows,
        tokens=tokens,
        text_bytes=text_bytes,
        id_bytes=ID_BYTES,
        duplication=duplication,
        threshold=config.threshold,
        shingle_size=config.shingles.shingle_size,
        unit=config.shingles.unit,
    )
    planned = plan(config, corpus, CORES, Rates())
    rows = planned.rows
    return {
        "options": (
            f"--documents {signed.rows} --mean-tokens {tokens:g} --mean-bytes {text_bytes:g} "
            f"--duplication {duplication:g}"
        ),
        "pairs": {
            "in_buckets": round(rows["pairs"]),
            "distinct": round(rows["distinct"]),
            "candidates": round(rows["candidates"]),
            "edges": round(rows["edges"]),
        },
        "removed": round(rows["removed"]),
        "shuffle_bytes": {stage.name: round(measure([stage])["shuffle_bytes"]) for stage in planned.stages},
    }
