"""Pairs found by a setting among the documents of a sample, compared with the truth."""

import difflib
import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dedup.evaluate.pairs import Pairs
from dedup.evaluate.sample import Sample
from dedup.evaluate.truth import Truth
from dedup.kernels import Flags, Integers, sample_search
from dedup.kernels.confidence import measure_share
from dedup.kernels.curve import probability
from dedup.kernels.representatives import elect
from dedup.kernels.sets import exact, filters, minhash
from dedup.settings.options import Config

BINS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Lower ends of the bins of similarity; the last holds identical sets."""
LISTED = 100
"""Most pairs and documents of a kind that are listed."""
EXCERPT_LENGTH = 80
"""Characters of a text shown."""
COMPARED_WORDS = 2000
"""Words of a text searched for parts shared with another."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SettingResult:
    """Setting and its result."""

    config: Config
    setting: sample_search.Setting
    found: sample_search.SampleResult
    seconds: float
    representatives: Integers
    """Position of the document kept for each."""

    @property
    def removed(self) -> Flags:
        """Tell which documents are removed."""
        removed: Flags = self.representatives != np.arange(self.representatives.size)
        return removed


def judge(sample: Sample, truth: Truth, alike: Pairs, tried: SettingResult) -> dict[str, Any]:
    """Return recall and precision, by level and by similarity, the cost, and the missed pairs.

    A pair is a candidate when it was compared exactly, an edge when that reached the threshold, and removed when both
    documents are in one component. Documents of one shingle set are all three.
    """
    found, setting = tried.found, tried.setting
    left, right, jaccard = truth.pairs.left, truth.pairs.right, truth.pairs.jaccard
    duplicates = truth.duplicates(setting.threshold)
    curve = probability(jaccard, setting.bands, setting.rows)
    levels = {
        "candidates": found.holds(found.compared, left, right),
        "edges": found.holds(found.edges, left, right),
        "removals": found.components[left] == found.components[right],
    }
    recall = {name: _share(reached[duplicates], truth.families[duplicates]) for name, reached in levels.items()}
    precision = (
        _precision_of_labels(truth.labels, truth.families, levels)
        if truth.labels is not None
        else _precision_of_sample(sample, alike, tried)
    )
    true_components = alike.connect(setting.threshold, sample.doc_ids.size)
    kept_exactly = elect(true_components, sample.rank())
    chosen = sample.drawn & (sample.sources < 0)
    removed_exactly = kept_exactly != np.arange(kept_exactly.size)
    missed = np.flatnonzero(duplicates & ~levels["edges"])
    missed = missed[np.lexsort((-jaccard[missed], levels["removals"][missed]))]
    wrong = np.flatnonzero(~duplicates & levels["removals"]) if truth.labels is not None else missed[:0]
    return {
        "recall": recall,
        "recall_by_curve": float(curve[duplicates].mean()) if duplicates.any() else None,
        "precision": precision,
        "jaccard_estimate_bias": _measure_bias(sample, truth, setting.size),
        "bins": _bin(truth, levels, found.shares_bucket(left, right), curve),
        "removed": _share(tried.removed[chosen]),
        "removed_exactly": _share(removed_exactly[chosen]),
        "missed_count": int(missed.size),
        "missed": [
            {
                **_show_pair(sample, int(left[each]), int(right[each]), float(jaccard[each])),
                "reason": _find_reason(sample, tried, int(left[each]), int(right[each]), float(jaccard[each])),
                "joined_by_others": bool(levels["removals"][each]),
            }
            for each in missed[:LISTED].tolist()
        ],
        "wrong_count": int(wrong.size),
        "wrong": [
            _show_pair(sample, int(left[each]), int(right[each]), float(jaccard[each]))
            for each in wrong[:LISTED].tolist()
        ],
    }


def list_sides(sample: Sample, first: SettingResult, second: SettingResult) -> dict[str, Any]:
    """Return the documents removed by one setting and kept by the other."""
    sides = {}
    for name, one, other in (("removed_by_first_only", first, second), ("removed_by_second_only", second, first)):
        changed = np.flatnonzero(one.removed & ~other.removed)
        kept = one.representatives[changed]
        similarities = exact.compare(sample.sets, sample.sets, changed, kept)
        sides[name] = {
            "documents": int(changed.size),
            "drawn": int(np.count_nonzero(sample.drawn[changed])),
            "examples": [
                {
                    "id": sample.name(position),
                    "text": _cut(sample.read(position)),
                    "representative_id": sample.name(representative),
                    "jaccard": similarity,
                }
                for position, representative, similarity in zip(
                    changed[:LISTED].tolist(), kept[:LISTED].tolist(), similarities[:LISTED].tolist(), strict=True
                )
            ],
        }
    return sides


def _share(counted: Flags, families: Integers | None = None) -> dict[str, Any]:
    """Return the share of true cases, with its interval; None takes every case for a family of its own."""
    if families is None:
        families = np.arange(counted.size)
    _, numbers = np.unique(families, return_inverse=True)
    return asdict(measure_share(np.bincount(numbers, weights=counted), np.bincount(numbers)))


def _precision_of_labels(labels: Flags, families: Integers, levels: dict[str, Flags]) -> dict[str, Any]:
    """Return the share of duplicates among the labelled pairs at a level; undefined without a false label."""
    stated = not labels.all()
    return {name: _share(labels[reached & stated], families[reached & stated]) for name, reached in levels.items()}


def _precision_of_sample(sample: Sample, alike: Pairs, tried: SettingResult) -> dict[str, Any]:
    """Return the share of pairs at a level, one document drawn, that the exact search finds too."""
    found, count = tried.found, sample.doc_ids.size
    true_pairs = alike.at(tried.setting.threshold, count)
    drawn = np.zeros(count, dtype=bool)
    drawn[found.heads[sample.drawn]] = True
    shares = {}
    for name, pairs in (("candidates", found.compared), ("edges", found.edges)):
        chosen = pairs[drawn[pairs // count] | drawn[pairs % count]]
        shares[name] = _share(np.isin(chosen, true_pairs))
    same, every = _count_agreeing(found.components, alike.connect(tried.setting.threshold, count), sample.drawn)
    shares["removals"] = asdict(measure_share(same, every))
    return shares


def _count_agreeing(groups: Integers, others: Integers, drawn: Flags) -> tuple[Integers, Integers]:
    """Count each group's pairs with a drawn document: those also together in the other grouping, and all."""

    def count(labels: Integers) -> tuple[Integers, Integers]:
        firsts, numbers = np.unique(labels, return_index=True, return_inverse=True)[1:]
        members, not_drawn = np.bincount(numbers), np.bincount(numbers, weights=~drawn).astype(np.int64)
        return firsts, (members * (members - 1) - not_drawn * (not_drawn - 1)) // 2

    firsts, every = count(groups)
    cells, within = count(groups * groups.size + others)
    numbers = np.searchsorted(groups[firsts], groups[cells])
    return np.bincount(numbers, weights=within, minlength=every.size).astype(np.int64), every


def _bin(
    truth: Truth, levels: dict[str, Flags], shares_bucket: Flags, curve: npt.NDArray[np.float64]
) -> list[dict[str, Any]]:
    """Return the fate of the pairs of each non-empty bin of similarity, with the expectation by the S-curve."""
    bins = []
    numbers = np.searchsorted(BINS, truth.pairs.jaccard, side="right") - 1
    for number in np.unique(numbers).tolist():
        chosen = numbers == number
        bins.append(
            {
                "from": BINS[number],
                "to": BINS[min(number + 1, len(BINS) - 1)],
                "pairs": int(np.count_nonzero(chosen)),
                "by_curve": float(curve[chosen].mean()),
                "in_bucket": _share(shares_bucket[chosen], truth.families[chosen]),
                **{name: float(reached[chosen].mean()) for name, reached in levels.items()},
            }
        )
    return bins


def _measure_bias(sample: Sample, truth: Truth, size: int) -> dict[str, float | int | None]:
    """Return the mean of the estimate less the exact similarity, over the pairs of the truth that are not identical.

    Its standard `error` takes the pairs of one family for one draw; None with fewer than two families. The bias is None
    without a pair.
    """
    unlike = truth.pairs.jaccard < 1
    left, right = truth.pairs.left[unlike], truth.pairs.right[unlike]
    if not left.size:
        return {"pairs": 0, "bias": None, "error": None}
    low = np.ascontiguousarray(minhash.low_bytes(sample.signatures[:, :size]))
    off = filters.estimate_pairs(low, left, right) - truth.pairs.jaccard[unlike]
    _, families = np.unique(truth.families[unlike], return_inverse=True)
    sums = np.bincount(families, weights=off - off.mean())
    error = float(np.sqrt(sums @ sums)) / left.size if sums.size > 1 else None
    return {"pairs": int(left.size), "bias": float(off.mean()), "error": error}


def _find_reason(sample: Sample, tried: SettingResult, left: int, right: int, jaccard: float) -> str:
    """Return the reason why a pair is no edge."""
    found, setting = tried.found, tried.setting
    if jaccard < setting.threshold:
        return f"below the threshold of {setting.threshold}"
    ends = np.array([left]), np.array([right])
    if not found.shares_bucket(*ends)[0]:
        return "no bucket in common"
    if not found.holds(found.paired, *ends)[0]:
        return f"only in buckets over {setting.max_bucket} documents"
    low = minhash.low_bytes(sample.signatures[[left, right], : setting.size])
    return f"estimated at {filters.estimate_pairs(low, np.array([0]), np.array([1]))[0]:.3f}"


def _show_pair(sample: Sample, left: int, right: int, jaccard: float) -> dict[str, Any]:
    texts = sample.read(left), sample.read(right)
    return {
        "left_id": sample.name(left),
        "right_id": sample.name(right),
        "jaccard": jaccard,
        "shared": _cut(_find_shared(*texts)),
    }


def _find_shared(left: str, right: str) -> str:
    """Return the longest run of words that two texts have in common."""
    one, other = (re.findall(r"\w+", content.lower())[:COMPARED_WORDS] for content in (left, right))
    match = difflib.SequenceMatcher(None, one, other, autojunk=False).find_longest_match()
    return " ".join(one[match.a : match.a + match.size])


def _cut(content: str) -> str:
    """Return the beginning of a text, on one line."""
    words = " ".join(content[: 4 * EXCERPT_LENGTH].split())
    return words if len(words) <= EXCERPT_LENGTH else f"{words[: EXCERPT_LENGTH - 3]}..."
