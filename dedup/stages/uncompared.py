"""BUCKETS over the cap -> a sample of the pairs that it leaves uncompared."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from dedup.kernels import Hashes, Integers
from dedup.kernels.sets import lsh
from dedup.stages.candidates import pair_documents
from dedup.stages.components import find_parted
from dedup.stages.exchange import Batches, Counters, Pairs, distinct
from dedup.stages.placement import place_pairs
from dedup.stages.table import Keep, Seen, Table, count_rows
from dedup.stages.templates import Linked
from dedup.tables.counts import Lost, Paired
from dedup.tables.schemas import PAIRS


class Drawn(NamedTuple):
    """A sample of the pairs that a cap leaves out."""

    sample: Table[int]
    """PAIRS of those to verify."""
    counts: Lost
    """Without those lost, which the comparison tells."""


def draw(
    keep: Keep,
    linked: Table[Linked],
    paired: Paired,
    heads: DataFrame,
    *,
    components: DataFrame | None,
    documents: int,
    threshold: float,
    signature_size: int,
    estimate_sigmas: float | None,
    cap: int,
) -> Drawn:
    """Draw from the pairs that the cap leaves out, and from those of them that may be lost.

    These are the pairs that neither sizes nor signatures rule out, as `pair_documents` has it, and whose documents are
    in two of the components, COMPONENTS; None where these are not known yet.
    """
    share = lsh.uncompared_share(paired.pairs_uncompared)

    def list_pairs(keys: Hashes, members: Integers, offsets: Integers) -> Iterator[Pairs]:
        # Sorted ids take half of the bytes, and small families are drawn from many times.
        yield distinct(*lsh.sample_uncompared(keys, members, offsets, cap, share))

    def build(counters: Counters) -> DataFrame:
        drawn = pair_documents(
            linked.frame.filter(f"size > {cap}"),
            heads,
            pairs_of=list_pairs,
            threshold=threshold,
            signature_size=signature_size,
            estimate_sigmas=estimate_sigmas,
            meeting=place_pairs(paired.pairs_uncompared * share, linked.counts.members, documents, signature_size),
            counters=counters,
        ).select(*PAIRS.names)
        return drawn if components is None else find_parted(drawn, components).select(*PAIRS.names)

    possible = keep("possible", PAIRS, build, _measure)
    sample = Table(frame=possible.frame, counts=possible.counts.possible)
    if (thinned := lsh.verified_share(sample.counts)) < 1:
        sample = keep("sample", PAIRS, lambda _: thin(possible.frame, thinned), count_rows)
    return Drawn(sample, replace(possible.counts, documents=linked.counts.undecided, verified=sample.counts))


def thin(pairs: DataFrame, share: float) -> DataFrame:
    """Return a share of the pairs (left_id, right_id), as `lsh.thin` has it."""

    def choose(batches: Batches) -> Batches:
        for batch in batches:
            left, right = (batch[name].to_numpy() for name in PAIRS.names)
            yield batch.filter(pa.array(lsh.thin(left, right, share)))

    return pairs.mapInArrow(choose, PAIRS)


def _measure(seen: Seen) -> Lost:
    return Lost(drawn=seen.get("pairs_distinct", 0), possible=seen["rows"])
