"""What the report shows besides measurements: the sample of tokens, and plots."""

from collections.abc import Collection, Mapping
from typing import Any

from dedup.report.baseline import pick_plotted
from dedup.report.build import Sample, rank_tokens
from dedup.report.plots import draw_plots
from dedup.settings.files import to_dict
from dedup.settings.options import Config
from dedup.tables.counts import Near

__all__ = ["FIGURES", "Sample", "draw"]

FIGURES = "dedup.report.figures"
"""What plots are drawn with: half a second to import."""


def draw(
    config: Config, counts: Near, sample: Sample, removed: Collection[int], baseline: Mapping[str, Any] | None
) -> tuple[dict[str, Any] | None, Mapping[str, str]]:
    """Return the rank-frequency curves of the sample (see `report.rank_tokens`), and the plots.

    Parameters
    ----------
    removed
        Documents of the sample that are removed.
    baseline
        The report of an earlier run, which the plots show as well.
    """
    kept = dict(each for each in sample if each[0] not in removed)
    token_ranks = rank_tokens({"input": sample, "kept": [*kept.items()]})
    plots = draw_plots(
        {
            "settings": to_dict(config.settle()),
            "bucket_sizes": counts.bucketed.sizes,
            "component_sizes": counts.elected.sizes,
            "recall_measured": list(counts.labeled.points) if counts.labeled else [],
            "edges": counts.verified.rows,
            "similarities": list(counts.verified.similarities),
            "removal_similarities": list(counts.elected.similarities),
            "token_ranks": token_ranks,
            "baseline": {"plotted": pick_plotted(baseline or {})},
        }
    )
    return token_ranks, plots
