"""Rows of a run's tables."""

import math
from dataclasses import dataclass, replace
from typing import Any, cast

from dedup.kernels.components import DRIVER_EDGES
from dedup.kernels.curve import NEAR_MISS, probability
from dedup.kernels.sets.lsh import DRAWN_PAIRS, SAMPLED_PAIRS
from dedup.plan.choice import BandingChoice, cost
from dedup.plan.curve import compared
from dedup.plan.profile import CorpusProfile, Counts, Trial
from dedup.plan.rates import Rates
from dedup.settings.banding import SIGMAS
from dedup.settings.options import Config

DISTANT_SHARE = 0.075
"""Share of chains of two edges whose end has no edge to the document kept and must be compared with it: 6 to 8 % in the
runs of `scripts/bench`."""
PAIRS = ("linked", "uncompared", "pairs", "distinct", "candidates", "edges", "near_misses")
THINNED = ("identical", "buckets", "memberships", "bucketed", "ends", "members", "removed")
CHAINED = ("distant", "distant_ends", "distant_shingles")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Rows of the tables, and the bytes of some rows in a shuffle after LZ4."""

    documents: int
    identical: float
    heads: float
    """Documents of distinct shingle sets."""
    buckets: float
    memberships: float
    """Members of all buckets."""
    bucketed: float
    """Documents in a bucket."""
    pairs: float
    """Pairs of buckets to compare, counted once for each bucket that they share."""
    distinct: float
    """Distinct pairs to compare."""
    candidates: float
    ends: float
    """Documents with candidates."""
    sets: float
    """Documents whose shingle sets are computed: those with candidates, and the members of buckets over the cap."""
    set_shingles: float
    edges: float
    near_misses: float
    """Candidates a little below the threshold, stored with the edges."""
    members: float
    """Documents in components."""
    removed: float
    distant: float
    """Documents connected to the one kept only by a chain of edges."""
    distant_ends: float
    """Documents at either end of these pairs."""
    distant_shingles: float
    """Shingles of these documents."""
    links: float = 0.0
    """Edges that the engine connects."""
    engine: str = ""
    choice: BandingChoice
    hot: float = 0.0
    """Members of buckets over the cap."""
    hot_shingles: float = 0.0
    rare_shingles: float = 0.0
    """Shingles held by few members of buckets over the cap."""
    prefix_shingles: float = 0.0
    """Rare shingles by which members are paired."""
    linked: float = 0.0
    """Pairs compared in place of those over the cap."""
    undecided: float = 0.0
    """Members of buckets over the cap that are compared in circles."""
    undecided_shingles: float = 0.0
    uncompared: float = 0.0
    """Pairs left out by the circles."""
    reaching: float = 0.0
    """Documents that reach the layer of passages; 0 if not counted."""
    tokens: float = 0.0
    """Tokens of documents that reach the layer of passages."""
    grams: float = 0.0
    """Grams selected from these."""
    shared_grams: float = 0.0
    """Selected grams whose hash occurs twice."""
    asked: float = 0.0
    """Documents with a shared gram."""
    asked_windows: float = 0.0
    """Windows in question."""
    repeated_windows: float = 0.0
    """Windows in question that occur twice."""
    pieces: float = 0.0
    """Pieces of repeated spans, each with one other occurrence."""
    pair_bytes: float = 16.0
    candidate_bytes: float = 16.0
    signature_bytes: float
    set_bytes: float = 8.0
    """Bytes of a shingle."""
    distant_bytes: float = 8.0
    hot_bytes: float = 8.0
    """Bytes of a shingle of members of buckets over the cap."""

    @property
    def drawn(self) -> float:
        """Uncompared distinct pairs whose signatures are looked at, drawn from pairs of undecided documents."""
        every = self.undecided * (self.undecided - 1) / 2
        return -every * math.expm1(-min(self.uncompared, DRAWN_PAIRS) / every) if every > 0 else 0.0

    @property
    def sampled(self) -> float:
        """Most uncompared pairs that are verified."""
        return min(self.uncompared, SAMPLED_PAIRS)


def count_rows(
    config: Config, corpus: CorpusProfile, trial: Trial | None = None, counts: Counts | None = None
) -> RowCounts:
    """Return the rows of all tables.

    Parameters
    ----------
    trial
        A search of documents drawn from the corpus; None: families are taken to be as its similarities make them, and
        no bucket to be over the cap.
    counts
        One of its counts; None for that of the settings' own seed.
    """
    found = _count_by_curve(config, corpus)
    if trial is not None:
        found = _take_counts(found, config, corpus, trial, counts or trial.point)
    links, forest = found.edges + found.identical, min(found.edges + found.identical, found.members)
    engine = config.components.engine
    if engine == "auto":
        engine = "driver" if min(links, forest) <= DRIVER_EDGES else "graphframes"
    return replace(found, links=forest if engine == "graphframes" else links, engine=engine)


def _take_counts(found: RowCounts, config: Config, corpus: CorpusProfile, trial: Trial, counts: Counts) -> RowCounts:
    """Return rows as counted by a search."""
    weighed = {name: each for name, each in counts.items() if name.endswith("_bytes")}
    more = {name: each * corpus.documents for name, each in counts.items() if name not in {*weighed, "documents"}}
    if trial.share < 1:
        # Of pairs the sample has the square of its share. How it thins the rest is left to the curve.
        more |= {name: more[name] / trial.share for name in PAIRS}
        thinned = _count_by_curve(config, corpus, _choose_pairs(found, corpus, trial))
        more |= {
            name: getattr(thinned, name) * _ratio(counts[name], trial.point[name]) for name in (*THINNED, *CHAINED)
        }
        more["sets"] = max(more["ends"], more["hot"])
        more["set_shingles"] = more["sets"] * corpus.shingles
    more["heads"] = corpus.documents - more["identical"]
    counted = replace(found, **cast("dict[str, Any]", more | weighed))
    return _add_chance(counted, config, corpus, trial.documents) if trial.share == 1 else counted


def _choose_pairs(found: RowCounts, corpus: CorpusProfile, trial: Trial) -> tuple[float, float] | None:
    """Return edges and candidates of a sample's search, scaled to the corpus; None if the curve is more certain.

    The curve saw all pairs of a few drawn documents, the search the pairs of all that share a bucket within the cap:
    the one that saw more pairs decides.
    """
    drawn = corpus.drawn
    assert drawn is not None, "a trial is of documents drawn"
    seen = found.edges * drawn.compared**2 / (drawn.total * corpus.documents)
    if seen >= trial.point["edges"] * trial.documents:
        return None
    grown = corpus.documents / trial.share
    return trial.point["edges"] * grown, trial.point["candidates"] * grown


def _ratio(one: float, other: float) -> float:
    return one / other if other else 1.0


def _add_chance(rows: RowCounts, config: Config, corpus: CorpusProfile, searched: int) -> RowCounts:
    """Add chance resemblances in a corpus larger than the searched sample."""
    bands, size = config.banding
    partners = corpus.similarities.share * max(corpus.documents - searched, 0)
    jaccard = corpus.similarities.jaccard
    met = float(jaccard**size @ partners)
    distinct = rows.heads * float(probability(jaccard, bands, size) @ partners) / 2
    if not met:
        return rows
    poisson = replace(corpus, evenness=float("inf"))
    places = rows.heads * bands
    alone = (places - rows.memberships) * poisson.alone(met)
    keys = places - rows.memberships + rows.buckets
    return replace(
        rows,
        pairs=rows.pairs + places * met / 2,
        distinct=rows.distinct + distinct,
        bucketed=rows.heads - (rows.heads - rows.bucketed) * poisson.alone(2 * distinct / rows.heads),
        memberships=places - alone,
        buckets=keys * poisson.firsts(met) - alone,
    )


def _count_by_curve(config: Config, corpus: CorpusProfile, counted: tuple[float, float] | None = None) -> RowCounts:
    """Return rows by the documents' similarities, with no bucket over the cap.

    Parameters
    ----------
    counted
        Edges and candidates, if known otherwise.
    """
    bands, rows = config.banding
    threshold = config.threshold
    choice = cost(config.banding, threshold, corpus, Rates())
    jaccard, partners = corpus.similarities.jaccard, corpus.similarities.partners(corpus.documents)
    identical = corpus.documents * corpus.identical
    heads = corpus.documents - identical
    shared = float(jaccard**rows @ partners)
    alone = corpus.alone(shared)
    passed = compared(jaccard, bands, rows, threshold, SIGMAS)
    at_least, wanted = jaccard >= threshold, jaccard >= threshold - NEAR_MISS
    edges, candidates = counted or (heads * float((passed * partners)[at_least].sum()) / 2, heads * choice.compared)
    similar = 2 * edges / heads
    linked = 1 - corpus.alone(similar)
    ends = heads * (1 - corpus.alone(2 * candidates / heads))
    # The first of identical documents is a member too, unless an edge has made it one.
    members = heads * linked + identical + identical * (1 - corpus.identical) * (1 - linked)
    distant = DISTANT_SHARE * heads * similar**2 / 2
    distant_ends = min(2 * distant, members)
    return RowCounts(
        documents=corpus.documents,
        identical=identical,
        heads=heads,
        buckets=heads * bands * (corpus.firsts(shared) - alone),
        memberships=heads * bands * (1 - alone),
        bucketed=heads * choice.bucketed,
        pairs=heads * choice.bucket_pairs,
        distinct=heads * choice.candidates,
        candidates=candidates,
        ends=ends,
        sets=ends,
        set_shingles=ends * corpus.shingles,
        edges=edges,
        near_misses=heads * float((passed * partners)[wanted & ~at_least].sum()) / 2,
        members=members,
        removed=identical + heads * (1 - corpus.firsts(similar)),
        distant=distant,
        distant_ends=distant_ends,
        distant_shingles=distant_ends * corpus.shingles,
        choice=choice,
        signature_bytes=choice.signature_size,
    )
