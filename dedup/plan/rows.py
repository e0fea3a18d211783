"""Rows of a run's tables, by name.

    documents, identical, heads     all, those whose shingle set another has, and one of each set
    buckets, memberships, bucketed  keys that several have, their members, and documents that are members
    pairs, distinct                 of buckets within the cap, once for each bucket that they share, and once
    candidates, ends                pairs that pass the estimate filter, and documents that have one
    sets, set_shingles              shingle sets that are computed, and their shingles
    edges, near_misses              candidates at the threshold or above it, and those stored a little below
    members, removed                documents in components, and those that are not kept
    distant, distant_ends           pairs of a removed document and the one kept that no edge joins, and their documents

A search of a sample counts further ones, of which nothing is known without:

    hot, hot_shingles               members of buckets over the cap, and the shingles of these
    linked                          pairs compared in place of those over the cap
    undecided, uncompared           members of these that are compared in circles, and pairs that the circles leave out

Names that end in `_bytes` hold the bytes of one item in a shuffle after LZ4: a pair of a bucket, a candidate, a
signature, and a shingle set of all, of undecided documents and of distant ends.
"""

from dataclasses import replace

from dedup.kernels.curve import NEAR_MISS, probability
from dedup.plan.choice import cost, share_compared
from dedup.plan.profile import CorpusProfile, Counts, DrawnDocuments, Trial
from dedup.plan.rates import Rates
from dedup.settings.options import Config

DISTANT_SHARE = 0.075
"""Share of chains of two edges whose end has no edge to the document kept and must be compared with it: 6 to 8 % in the
runs of `scripts/bench`."""
PAIRS = ("linked", "uncompared", "pairs", "distinct", "candidates", "edges", "near_misses")
THINNED = (
    *("identical", "buckets", "memberships", "bucketed", "ends"),
    *("members", "removed", "distant", "distant_ends"),
)
DOCUMENTS = ("identical", "bucketed", "ends", "members", "removed", "distant_ends")
"""Rows that are documents; of families drawn anew there would be more of them than the corpus has."""
SEARCHED = ("hot", "hot_shingles", "linked", "undecided", "uncompared")


def count_rows(
    config: Config, corpus: CorpusProfile, trial: Trial | None = None, counts: Counts | None = None
) -> Counts:
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
    return found if trial is None else _take_counts(found, config, corpus, trial.point, counts or trial.point)


def _take_counts(found: Counts, config: Config, corpus: CorpusProfile, point: Counts, counts: Counts) -> Counts:
    """Return rows as counted by a search."""
    drawn = corpus.drawn
    assert drawn is not None, "a trial is of documents drawn"
    more = {name: each if name.endswith("_bytes") else each * corpus.documents for name, each in counts.items()}
    if drawn.share < 1:
        # Of pairs the sample has the square of its share. How it thins the rest is left to the curve.
        more |= {name: more[name] / drawn.share for name in PAIRS}
        thinned = _count_by_curve(config, corpus, _choose_pairs(found, corpus, drawn, point))
        more |= {name: thinned[name] * (counts[name] / point[name] if point[name] else 1.0) for name in THINNED}
        more |= {name: min(more[name], corpus.documents) for name in DOCUMENTS}
        more["sets"] = max(more["ends"], more["hot"])
        more["set_shingles"] = more["sets"] * corpus.shingles
    counted = {**found, **more, "documents": corpus.documents, "heads": corpus.documents - more["identical"]}
    return _add_chance(counted, config, corpus, drawn.documents) if drawn.share == 1 else counted


def _choose_pairs(
    found: Counts, corpus: CorpusProfile, drawn: DrawnDocuments, point: Counts
) -> tuple[float, float] | None:
    """Return edges and candidates of a sample's search, scaled to the corpus; None if the curve is more certain.

    The curve saw all pairs of a few drawn documents, the search the pairs of all that share a bucket within the cap:
    the one that saw more pairs decides.
    """
    seen = found["edges"] * drawn.compared**2 / (drawn.total * corpus.documents)
    if seen >= point["edges"] * drawn.documents:
        return None
    grown = corpus.documents / drawn.share
    return point["edges"] * grown, point["candidates"] * grown


def _add_chance(rows: Counts, config: Config, corpus: CorpusProfile, searched: int) -> Counts:
    """Add chance resemblances in a corpus larger than the searched sample."""
    bands, size = config.banding
    partners = corpus.similarities.share * max(corpus.documents - searched, 0)
    jaccard = corpus.similarities.jaccard
    met = float(jaccard**size @ partners)
    if not met:
        return rows
    heads, chance = rows["heads"], float(probability(jaccard, bands, size) @ partners)
    poisson = replace(corpus, evenness=float("inf"))
    places = heads * bands
    alone = (places - rows["memberships"]) * poisson.alone(met)
    keys = places - rows["memberships"] + rows["buckets"]
    return {
        **rows,
        "pairs": rows["pairs"] + places * met / 2,
        "distinct": rows["distinct"] + heads * chance / 2,
        "bucketed": heads - (heads - rows["bucketed"]) * poisson.alone(chance),
        "memberships": places - alone,
        "buckets": keys * poisson.firsts(met) - alone,
    }


def _count_by_curve(config: Config, corpus: CorpusProfile, counted: tuple[float, float] | None = None) -> Counts:
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
    passed = share_compared(corpus.similarities, config.banding, threshold)
    at_least, wanted = jaccard >= threshold, jaccard >= threshold - NEAR_MISS
    edges, candidates = counted or (heads * float((passed * partners)[at_least].sum()) / 2, heads * choice.compared)
    similar = 2 * edges / heads
    linked = 1 - corpus.alone(similar)
    ends = heads * (1 - corpus.alone(2 * candidates / heads))
    # The first of identical documents is a member too, unless an edge has made it one.
    members = heads * linked + identical + identical * (1 - corpus.identical) * (1 - linked)
    distant = DISTANT_SHARE * heads * similar**2 / 2
    return {
        **dict.fromkeys(SEARCHED, 0.0),
        "documents": corpus.documents,
        "identical": identical,
        "heads": heads,
        "buckets": heads * bands * (corpus.firsts(shared) - alone),
        "memberships": heads * bands * (1 - alone),
        "bucketed": heads * choice.bucketed,
        "pairs": heads * choice.bucket_pairs,
        "distinct": heads * choice.candidates,
        "candidates": candidates,
        "ends": ends,
        "sets": ends,
        "set_shingles": ends * corpus.shingles,
        "edges": edges,
        "near_misses": heads * float((passed * partners)[wanted & ~at_least].sum()) / 2,
        "members": members,
        "removed": identical + heads * (1 - corpus.firsts(similar)),
        "distant": distant,
        "distant_ends": min(2 * distant, members),
        "pair_bytes": 16.0,
        "candidate_bytes": 16.0,
        "signature_bytes": choice.signature_size,
        "set_bytes": 8 * corpus.shingles,
        "undecided_set_bytes": 8 * corpus.shingles,
        "distant_set_bytes": 8 * corpus.shingles,
    }
