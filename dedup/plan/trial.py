"""Trial search of the drawn documents, counted by family: the source of a plan's rows and of their ranges.

Documents that share a bucket are a family, so every count of a search is a sum over families. A plan's range is what
other seeds of the hash functions give and, where the corpus is larger than the documents drawn, what other families
would: each is drawn anew with a weight of Poisson's distribution (the bootstrap of sums: J. A. Hanley, B. MacGibbon,
Creating non-parametric bootstrap samples using Poisson frequencies, 2006).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dedup.kernels import Floats, Hashes, Integers, sample_search
from dedup.kernels.components import connect
from dedup.kernels.hashing import mix
from dedup.kernels.sets import exact, lsh, minhash
from dedup.kernels.sets.jaccard import find_near_misses
from dedup.kernels.sets.pairs import decode
from dedup.plan.profile import Counts, DrawnDocuments, Trial
from dedup.plan.repeats import count_passages
from dedup.plan.sample import compress
from dedup.settings.banding import SIGMAS
from dedup.settings.options import Config

SEEDS = 10
"""Seeds of the hash functions besides the settings' own."""
BOOTSTRAPS = 10
"""Draws of families for each seed."""
WEIGHED_PAIRS = 1 << 17
"""Most pairs compressed to measure compression."""


def search_drawn(drawn: DrawnDocuments, config: Config, documents: int, *, ranges: bool = True) -> Trial:
    """Search the drawn documents as a run would, for a corpus of a given size.

    Parameters
    ----------
    ranges
        Whether to search with other seeds too.
    """
    searched = _search(drawn, config, config.seed)
    # Which documents reach the layer hardly depends on the seed.
    kept = searched.found.components == np.arange(drawn.documents)
    told = count_passages(drawn, kept, config) if "passages" in config.layers else {}
    others: list[Counts] = []
    for number in range(SEEDS if ranges else 0):
        other = _search(drawn, config, config.seed + 1 + number)
        families, each = _count(drawn, config, other, told), _weigh_rows(drawn, other)
        # A file that is the whole corpus holds all families there are.
        is_whole = documents == drawn.documents
        chance, size = np.random.default_rng(number), families["documents"].size
        weights = [np.ones(size)] if is_whole else [chance.poisson(1, size) for _ in range(BOOTSTRAPS)]
        others += [_rate(families, drawn_again) | each for drawn_again in weights]
    families = _count(drawn, config, searched, told)
    point = _rate(families, np.ones(families["documents"].size)) | _weigh_rows(drawn, searched)
    return Trial(point, others)


def _rate(families: Mapping[str, Floats], weights: Floats | Integers) -> dict[str, float]:
    """Return counts per document, each family weighted by the number of times that it is drawn."""
    total = max(float(weights @ families["documents"]), 1.0)
    return {name: float(weights @ counts) / total for name, counts in families.items()}


class _Searched(NamedTuple):
    setting: sample_search.Setting
    found: sample_search.SampleResult
    signatures: Hashes
    hot: Integers
    """Members of buckets over the cap."""
    paired: tuple[Integers, Integers]
    compared: tuple[Integers, Integers]


def _search(drawn: DrawnDocuments, config: Config, seed: int) -> _Searched:
    shingles, offsets = drawn.shingles, drawn.offsets
    setting = sample_search.Setting(
        threshold=config.threshold,
        bands=config.banding.bands,
        rows=config.banding.rows,
        # Of a random part of the documents a bucket holds that part.
        max_bucket=max(round(config.buckets.max_bucket * drawn.share), 2),
        estimate_sigmas=SIGMAS,
    )
    doc_ids = np.arange(drawn.documents)
    signatures = minhash.sign(shingles, offsets, setting.size, seed)
    heads = sample_search.find_heads(doc_ids, shingles, offsets)
    found = sample_search.search(sample_search.SampleDocuments(doc_ids, shingles, offsets, heads, signatures), setting)
    _, members, bounds = found.buckets
    sizes = np.diff(bounds)
    return _Searched(
        setting=setting,
        found=found,
        signatures=signatures,
        hot=np.unique(members[np.repeat(sizes > setting.max_bucket, sizes)]),
        paired=divmod(found.paired, doc_ids.size),
        compared=divmod(found.compared, doc_ids.size),
    )


def _count(drawn: DrawnDocuments, config: Config, searched: _Searched, told: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the counts of every family, from counts of every document."""
    setting, found, _, hot, paired, compared = searched
    families = _find_families(searched)

    def tally(places: Integers, weights: npt.NDArray[Any] | None = None) -> Floats:
        return np.bincount(families[places], weights, minlength=int(families.max()) + 1).astype(np.float64)

    doc_ids, sizes, ends = np.arange(drawn.documents), np.diff(drawn.offsets), np.unique(np.concatenate(compared))
    sets = np.union1d(hot, ends)
    _, members, bounds = found.buckets
    firsts, bucket_sizes = members[bounds[:-1]], np.diff(bounds)
    in_buckets = np.where(bucket_sizes <= setting.max_bucket, bucket_sizes * (bucket_sizes - 1) // 2, 0)
    of_undecided, undecided_sizes = found.undecided[1][found.undecided[2][:-1]], np.diff(found.undecided[2])
    # The pairs of a circle grow as its members do, not as their square; those of a sample are told as if they did.
    # As floats: of a corpus of 10^12 documents the pairs of a bucket are too many for integers.
    in_circles = lsh.pair_counts(np.rint(undecided_sizes / drawn.share), config.buckets.max_bucket)
    circled, uncompared = (each * drawn.share**2 for each in in_circles)
    weights = _weigh_circles(searched, float(circled.sum()))
    misses = find_near_misses(*compared, found.jaccard, setting.threshold)
    in_components = np.bincount(found.components, minlength=doc_ids.size)[found.components] > 1
    distant, undecided = _list_distant(found), np.unique(found.undecided[1])
    chained = np.unique(np.concatenate(distant))
    return {
        "documents": tally(doc_ids),
        "identical": tally(np.flatnonzero(found.heads != doc_ids)),
        "buckets": tally(firsts),
        "memberships": tally(members),
        "bucketed": tally(np.unique(members)),
        "pairs": tally(firsts, in_buckets) + tally(of_undecided, circled),
        "hot": tally(hot),
        "hot_shingles": tally(hot, sizes[hot]),
        "linked": tally(decode(found.linked)[0]),
        "undecided": tally(undecided),
        "uncompared": tally(of_undecided, uncompared),
        "distinct": tally(paired[0], weights),
        "candidates": tally(compared[0], weights[np.searchsorted(found.paired, found.compared)]),
        "ends": tally(ends),
        "sets": tally(sets),
        "set_shingles": tally(sets, sizes[sets]),
        "edges": tally(found.edges // doc_ids.size, weights[np.searchsorted(found.paired, found.edges)]),
        "near_misses": tally(compared[0][misses]),
        "members": tally(np.flatnonzero(in_components)),
        "removed": tally(np.flatnonzero(found.components != doc_ids)),
        "distant": tally(distant[0]),
        "distant_ends": tally(chained),
        **{name: tally(doc_ids, counts) for name, counts in told.items()},
    }


def _weigh_circles(searched: _Searched, wanted: float) -> Floats:
    """Return the weight of each distinct pair; those of circles weigh as much as the wanted pairs of their buckets."""
    found, cap = searched.found, searched.setting.max_bucket
    weights = np.ones(found.paired.size)
    given = float(lsh.pair_counts(np.diff(found.undecided[2]), cap)[0].sum())
    if given and wanted != given:
        count = found.heads.size
        for left, right in lsh.pairs(*found.undecided, cap, WEIGHED_PAIRS):
            weights[np.searchsorted(found.paired, left * count + right)] = wanted / given
    return weights


def _find_families(searched: _Searched) -> Integers:
    """Return the family of every document, numbered from 0."""
    found = searched.found
    _, members, offsets = found.buckets
    # All members of a bucket over the cap are of one, whether compared or not.
    sizes = np.diff(offsets)
    is_large = np.repeat(sizes > searched.setting.max_bucket, sizes)
    firsts = np.repeat(members[offsets[:-1]], sizes)
    doc_ids = np.arange(found.heads.size)
    left = np.concatenate((searched.paired[0], firsts[is_large], found.heads))
    _, families = connect(left, np.concatenate((searched.paired[1], members[is_large], doc_ids)))
    numbered: Integers = np.unique(families, return_inverse=True)[1]
    return numbered


def _list_distant(found: sample_search.SampleResult) -> tuple[Integers, Integers]:
    """Return the shingle sets of removed documents and of those kept for them that no edge joins, in pairs."""
    places = np.arange(found.heads.size)
    removed = np.flatnonzero(found.components != places)
    left, right = found.heads[found.components[removed]], found.heads[removed]
    apart = ~found.holds(found.edges, left, right)
    return divmod(np.unique(left[apart] * places.size + right[apart]), places.size)


def _weigh_rows(drawn: DrawnDocuments, searched: _Searched) -> dict[str, float]:
    """Return the bytes of rows after LZ4: members of a family are alike, and stand together in the files or apart."""
    found, hot, cap = searched.found, searched.hot, searched.setting.max_bucket
    small = lsh.select_buckets(*found.buckets, np.diff(found.buckets[2]) <= cap)
    given = [int(lsh.pair_counts(np.diff(each[2]), cap)[0].sum()) for each in (small, found.undecided)]
    taken = [next(lsh.pairs(*each, cap, WEIGHED_PAIRS), (hot, hot)) for each in (small, found.undecided)]
    low = minhash.low_bytes(searched.signatures[found.heads == np.arange(found.heads.size)])

    def weigh(documents: Integers) -> float:
        shingles = exact.take(drawn.shingles, drawn.offsets, documents)[0]
        return 8 * compress(shingles) * shingles.size / max(documents.size, 1)

    return {
        "pair_bytes": float(np.average([_weigh_pairs(*each) for each in taken], weights=np.add(given, [1, 0]))),
        "candidate_bytes": _weigh_pairs(*searched.compared),
        "signature_bytes": low.shape[1] * compress(low),
        "set_bytes": weigh(np.union1d(hot, np.concatenate(searched.compared))),
        "undecided_set_bytes": weigh(np.unique(found.undecided[1])),
        "distant_set_bytes": weigh(np.unique(np.concatenate(_list_distant(found)))),
    }


def _weigh_pairs(left: Integers, right: Integers) -> float:
    """Return the bytes of a pair after LZ4; ids are hashes."""
    ids = [mix(ends[:WEIGHED_PAIRS].astype(np.uint64)) for ends in (left, right)]
    return 16 * compress(np.concatenate(ids))
