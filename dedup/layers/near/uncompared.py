"""Pairs that the cap on buckets leaves uncompared: a sample of them is verified, which estimates what that costs."""

from functools import partial

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Engine, Rows, Size
from dedup.kernels.sets import lsh
from dedup.layers.near import comparison, templates
from dedup.layers.near.labels import find_parted
from dedup.layers.near.tables import ShingleSets, sets_size
from dedup.tables import arrow
from dedup.tables.counts import Lost


def verify_sample(
    engine: Engine[Rows],
    linked: Rows,
    documents: Rows,
    sets: ShingleSets[Rows],
    components: Rows,
    *,
    threshold: float,
    least: float | None,
    cap: int,
    share: float,
    size: Size,
) -> Lost:
    """Verify a sample of the pairs that buckets in place of those over the cap leave out.

    Parameters
    ----------
    linked
        These BUCKETS.
    documents
        Documents with size and signature.
    least
        Least estimate of a candidate; None: sizes alone decide.
    share
        Share of the pairs that is drawn, and `size` what comparing these moves.
    """
    large = engine.map(linked, partial(templates.take_large, cap=cap), arrow.BUCKETS)
    compare = comparison.estimate(threshold, least, cap=cap, share=share)
    drawn = engine.compare("drawn", large, documents, compare, size)
    sample = engine.collect(engine.select(drawn, "left_id", "right_id")).sort_by(
        [("left_id", "ascending"), ("right_id", "ascending")]
    )
    left, right = (sample[name].to_numpy() for name in sample.column_names)
    parted = find_parted(engine, left, right, components)
    left, right = left[parted], right[parted]
    chosen = lsh.thin(left, right, lsh.verified_share(left.size))
    pairs = engine.parallelise("uncompared_pairs", pa.table({"left_id": left[chosen], "right_id": right[chosen]}))
    verify = comparison.verify(threshold, near_misses=False)
    count = int(np.count_nonzero(chosen))
    similar = engine.compare("uncompared", pairs, sets.rows, verify, sets_size(sets, count))
    return Lost(
        drawn=engine.tally(drawn).get("pairs_distinct", 0),
        possible=left.size,
        verified=count,
        lost=engine.tally(similar)["rows"],
    )
