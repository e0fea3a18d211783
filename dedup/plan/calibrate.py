"""Speed of this machine's kernels relative to the machine of the default rates."""

import time
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from dedup.kernels import features
from dedup.kernels.sets import lsh
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.plan.rates import Rates

DOCUMENTS, TOKENS, WORDS = 10_000, 200, 50_000
"""Size of the generated text for the calibration: 14 MB."""
ROUNDS = 40
"""Seconds go by in which another machine of the same host is at work: the least of many is taken."""
REFERENCE = 0.0501
"""Seconds of the kernels on the machine of the default rates, as `time_kernels` measures them."""


def calibrate() -> Rates:
    """Measure the kernels on one core of this machine, and scale every rate by their time.

    The effect of disks and network on the rest of the work is not measured.
    """
    seconds = time_kernels()
    ratio = seconds / REFERENCE
    slower = {name: value * ratio for name, value in asdict(Rates()).items() if name not in {"source", "fixed"}}
    source = (
        f"calibrated: a core takes {ratio:.2f} times as long as the default's ({seconds * 1e6 / DOCUMENTS:.2f} us a "
        f"document of {TOKENS} tokens for its features and buckets)"
    )
    return replace(Rates(), source=source, **slower)


def time_kernels() -> float:
    """Return the seconds of the kernels for DOCUMENTS generated documents with the default settings."""
    texts = _generate()
    # Compiled code is made, or read from its cache, by the first call.
    _run_kernels(texts.slice(0, 10))
    return min(_run_kernels(texts) for _ in range(ROUNDS))


def _run_kernels(texts: pa.Array) -> float:
    # Seconds of the processor: what else the machine does is no matter.
    begin = time.process_time()
    found = features.compute(texts, UnicodeWords(), shingle_size=5, bands=21, rows=6, seed=1)
    lsh.group(found.keys.reshape(-1), np.repeat(np.arange(len(texts)), 21))
    return time.process_time() - begin


def _generate() -> pa.Array:
    """Return documents of TOKENS words whose frequencies follow Zipf's law; the same ones every time."""
    chance = np.random.default_rng(1)
    weights = np.cumsum(1 / (np.arange(WORDS) + 20.0))
    letters = chance.choice(list("etaoinshrdlucmfwypvbgk"), size=(WORDS, 12))
    lengths = np.clip(chance.normal(6.5, 2.2, WORDS), 2, 12).astype(int)
    words = np.array(["".join(row[:length]) for row, length in zip(letters.tolist(), lengths.tolist(), strict=True)])
    drawn = words[np.searchsorted(weights, chance.random((DOCUMENTS, TOKENS)) * weights[-1])]
    return pa.array([" ".join(row) for row in drawn.tolist()])
