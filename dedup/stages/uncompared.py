"""BUCKETS over the cap -> what the pairs that it leaves uncompared cost."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from dedup.kernels import Hashes, Integers, lsh
from dedup.stages.candidates import pair_documents
from dedup.stages.components import find_parted
from dedup.stages.edges import Sets, compare
from dedup.stages.exchange import Batches, Counters, Pairs, distinct
from dedup.stages.placement import place_pairs
from dedup.stages.table import Keep, Seen, Table, count_rows
from dedup.stages.templates import Linked
from dedup.tables.counts import Connected, Lost, Paired
from dedup.tables.schemas import PAIRS


def estimate_loss(
    keep: Keep,
    linked: Table[Linked],
    paired: Table[Paired],
    *,
    heads: DataFrame,
    sets: Table[Sets],
    connected: Table[Connected],
    documents: int,
    threshold: float,
    signature_size: int,
    estimate_sigmas: float | None,
    cap: int,
    cores: int,
) -> Lost:
    """Draw from the pairs that the cap leaves out, and verify those that may be lost.

    These are the pairs that neither sizes nor signatures rule out, as `pair_documents` has it, and whose documents are
    in two components.
    """
    uncompared = paired.counts.pairs_uncompared
    share = lsh.uncompared_share(uncompared)

    def draw(keys: Hashes, members: Integers, offsets: Integers) -> Iterator[Pairs]:
        # Sorted ids take half of the bytes, and small families are drawn from many times.
        yield distinct(*lsh.sample_uncompared(keys, members, offsets, cap, share))

    def build(counters: Counters) -> DataFrame:
        drawn = pair_documents(
            linked.frame.filter(f"size > {cap}"),
            heads,
            pairs_of=draw,
            threshold=threshold,
            signature_size=signature_size,
            estimate_sigmas=estimate_sigmas,
            meeting=place_pairs(uncompared * share, linked.counts.members, documents, signature_size),
            counters=counters,
        )
        return find_parted(drawn.select(*PAIRS.names), connected.frame).select(*PAIRS.names)

    possible = keep("possible", PAIRS, build, _measure)
    sample = Table(frame=possible.frame, counts=possible.counts.possible)
    if (thinned := lsh.verified_share(sample.counts)) < 1:
        sample = keep("sample", PAIRS, lambda _: thin(possible.frame, thinned), count_rows)
    lost = compare(keep, "uncompared", sample.frame, sample.counts, sets, threshold=threshold, cores=cores)
    return replace(possible.counts, documents=linked.counts.undecided, verified=sample.counts, lost=lost.counts)


def thin(pairs: DataFrame, share: float) -> DataFrame:
    """Return a share of the pairs (left_id, right_id), as `lsh.thin` has it."""

    def choose(batches: Batches) -> Batches:
        for batch in batches:
            left, right = (batch[name].to_numpy() for name in PAIRS.names)
            yield batch.filter(pa.array(lsh.thin(left, right, share)))

    return pairs.mapInArrow(choose, PAIRS)


def _measure(seen: Seen) -> Lost:
    return Lost(drawn=seen.get("pairs_distinct", 0), possible=seen["rows"])
