"""What the report shows besides measurements: the sample of tokens, and plots."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from dedup.report.build import rank_tokens
from dedup.report.plots import draw_plots
from dedup.settings.files import to_dict
from dedup.settings.options import Config
from dedup.tables.counts import Near

Sample: TypeAlias = Sequence[tuple[int, bytes]]
"""Tokens of a sample of documents by doc_id, those of equal rows as often as there are such."""


def draw(
    config: Config, counts: Near, sample: Sample, removed: Collection[int]
) -> tuple[dict[str, Any] | None, Mapping[str, str]]:
    """Return the rank-frequency curves of the sample (see `report.rank_tokens`), and the plots.

    Parameters
    ----------
    removed
        Documents of the sample that are removed.
    """
    kept = {doc_id: tokens for doc_id, tokens in sample if doc_id not in removed}
    token_ranks = rank_tokens({"input": [tokens for _, tokens in sample], "kept": list(kept.values())})
    plots = draw_plots(
        {
            "settings": to_dict(config.settle()),
            "bucket_sizes": counts.bucketed.sizes,
            "component_sizes": counts.elected.sizes,
            "recall_measured": list(counts.labeled.points) if counts.labeled else [],
            "edges": counts.verified.rows,
            "similarities": list(counts.verified.similarities),
            "token_ranks": token_ranks,
        }
    )
    return token_ranks, plots
