"""Comparison of two texts with the settings of a run."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from dedup.explain.differ import WordRun, align
from dedup.kernels.curve import least_estimate, probability
from dedup.kernels.sets import lsh, minhash, shingles
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.settings.banding import SIGMAS
from dedup.settings.options import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class TextComparison:
    """The comparison of two texts and of their shingle sets, computed anew with the settings of the run."""

    jaccard: float
    shared: int
    """Shingles that both have."""
    left_only: int
    right_only: int
    bands: tuple[int, ...] | None
    """Bands whose keys agree, from 1; None in exact mode, which has no bands."""
    rows: tuple[str, ...] | None
    """Rows of each band, 1 for one in which the signatures agree and 0 for another; None in exact mode."""
    estimate: float | None
    """Jaccard as their signatures estimate it."""
    pieces: tuple[WordRun, ...] = ()
    """Runs of words; none where sets alone were compared."""


def compare(config: Config, tokenizer: Tokenizer, left: str, right: str) -> TextComparison:
    """Compare two texts with the settings of a run."""
    pieces = tuple(align(left, right, config.shingles.unit))
    return replace(compare_sets(config, tokenizer, left, right), pieces=pieces)


def compare_sets(config: Config, tokenizer: Tokenizer, left: str, right: str) -> TextComparison:
    """Compare the shingle sets of two texts with the settings of a run."""
    texts = pa.array([left, right])
    _, _, values, offsets = shingles.shingle_texts(texts, config.shingles.shingle_size, tokenizer)
    one, other = values[: offsets[1]], values[offsets[1] :]
    shared = np.intersect1d(one, other, assume_unique=True).size
    bands = rows = estimate = None
    if config.mode == "lsh":
        signatures = minhash.sign(values, offsets, config.signature_size, config.seed)
        keys, low = lsh.band_keys(signatures, *config.banding), minhash.low_bytes(signatures)
        # Documents without a token have equal signatures, and are in no bucket.
        has_both = bool(one.size and other.size)
        bands = tuple((np.flatnonzero(keys[0] == keys[1]) + 1).tolist()) if has_both else ()
        agree = (signatures[0] == signatures[1]).reshape(config.banding).astype(np.uint8).tolist()
        rows = tuple("".join(map(str, band)) for band in agree) if has_both else ()
        estimate = float(minhash.estimate(low[:1], low[1:])[0])
    return TextComparison(
        jaccard=shared / max(one.size + other.size - shared, 1),
        shared=shared,
        left_only=one.size - shared,
        right_only=other.size - shared,
        bands=bands,
        rows=rows,
        estimate=estimate,
    )


def has_tokens(tokenizer: Tokenizer, text: str) -> bool:
    """Tell whether a text has tokens, without which it resembles no other."""
    return bool(tokenizer.hash(pa.array([text]))[0].size)


def tell_verdict(config: Config, jaccard: float | None, comparison: TextComparison | None, *, is_edge: bool) -> str:
    """Say why the run joined two documents or did not.

    Parameters
    ----------
    jaccard
        Similarity recorded by the run, or computed from the texts; None if unknown.
    is_edge
        Whether the run compared the two and found them similar enough.
    """
    if jaccard is None:
        return "not recorded by the run, and the texts are not there to tell"
    verdict = f"Jaccard {jaccard:.4f} {'>=' if jaccard >= config.threshold else '<'} {config.threshold}"
    reason = "" if is_edge or comparison is None else _find_reason(config, jaccard, comparison)
    return f"{verdict}; {reason}" if reason else verdict


def _find_reason(config: Config, jaccard: float, comparison: TextComparison) -> str:
    """Return the reason why two documents were not joined, other than a similarity below the threshold."""
    if not comparison.shared + min(comparison.left_only, comparison.right_only):
        return "a document without a token is never a duplicate"
    if comparison.bands == ():
        share = 1 - probability(jaccard, *config.banding)
        return f"they share no band, as {share:.2%} of pairs so similar do not"
    if jaccard < config.threshold or comparison.estimate is None:
        return ""
    if jaccard == 1:
        return "of one shingle set, so both are joined to the first document of it"
    floor = least_estimate(config.threshold, config.signature_size, SIGMAS)
    if comparison.estimate < floor:
        return f"dropped, as their signatures estimate it as {comparison.estimate:.2f}, below {floor:.2f}"
    return f"not compared, as all buckets that they share have more than {config.buckets.max_bucket} documents"
