"""Parts of the report besides measurements: the token sample, and plots."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from dedup.informing import PLOTS, Inform
from dedup.report.baseline import pick_plotted
from dedup.report.build import Sample, rank_tokens
from dedup.report.plots import draw_plots
from dedup.settings.files import to_dict
from dedup.settings.options import Config
from dedup.tables.counts import Near

FIGURES = "dedup.report.figures"
"""Packages that draw plots; half a second to import."""


class Drawing(NamedTuple):
    """Plots, and the token curves that they show."""

    token_ranks: dict[str, Any] | None = None
    """Rank-frequency curves of the sample, see `build.rank_tokens`."""
    plots: Mapping[str, str] = {}
    left_out: Mapping[str, str] = {}
    """Parts left out because they failed, as in `Inform`, which may have been in another process."""


def draw(
    config: Config, counts: Near, sample: Sample, removed: Collection[int], baseline: Mapping[str, Any] | None
) -> Drawing:
    """Draw the plots that do not depend on the output.

    Parameters
    ----------
    removed
        Documents of the sample that are removed.
    baseline
        The report of an earlier run, which the plots show as well.
    """
    inform = Inform()
    kept = dict(each for each in sample if each[0] not in removed)
    token_ranks = inform("the frequencies of tokens", rank_tokens, {"input": sample, "kept": [*kept.items()]})
    told = {
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
    return Drawing(token_ranks, inform(PLOTS, draw_plots, told, {}, inform) or {}, inform.left_out)


def draw_rest(report: Mapping[str, Any], drawn: Drawing) -> Drawing:
    """Draw the plots of a report that are not yet drawn."""
    inform = Inform()
    inform.left_out.update(drawn.left_out)
    plots = inform(PLOTS, draw_plots, report, drawn.plots, inform) or drawn.plots
    return drawn._replace(plots=plots, left_out=inform.left_out)
