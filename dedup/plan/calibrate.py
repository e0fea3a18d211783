"""Speed of this machine's kernels relative to the machine of the default rates."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dedup.kernels.sets import lsh, minhash, shingles
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.plan.rates import Rates

DOCUMENTS, TOKENS, WORDS = 10_000, 200, 50_000
"""Size of the generated text for the calibration: 14 MB."""
ROUNDS = 3
REFERENCE = {"tokens": 0.0376, "shingles": 0.0148, "signatures": 0.0105, "keys": 0.0122}
"""Seconds of the kernels on the machine of the default rates, as `time_kernels` measures them."""


def calibrate() -> Rates:
    """Measure the kernels on one core of this machine, and scale every rate by their time.

    The effect of disks and network on the rest of the work is not measured.
    """
    measured = time_kernels()
    ratio = sum(measured.values()) / sum(REFERENCE.values())
    detail = ", ".join(f"{name} {seconds * 1e6 / DOCUMENTS:.2f}" for name, seconds in measured.items())
    slower = {name: value * ratio for name, value in asdict(Rates()).items() if name not in {"source", "fixed"}}
    source = (
        f"calibrated: a core takes {ratio:.2f} times as long as the default's (us a document of "
        f"{TOKENS} tokens: {detail})"
    )
    return replace(Rates(), source=source, **slower)


def time_kernels() -> dict[str, float]:
    """Return the seconds of each kernel for DOCUMENTS generated documents with the default settings."""
    texts = _generate()
    # Compiled code is made, or read from its cache, by the first call.
    _run_kernels(texts.slice(0, 10))
    rounds = [_run_kernels(texts) for _ in range(ROUNDS)]
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def _run_kernels(texts: pa.Array) -> dict[str, float]:
    # Seconds of the processor: what else the machine does is no matter.
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - what a kernel returns
        begin = time.process_time()
        result = work()
        seconds[name] = time.process_time() - begin
        return result

    tokenizer = UnicodeWords()
    tokens, bounds = timed("tokens", partial(tokenizer.hash, texts))
    values, offsets = timed("shingles", partial(shingles.shingle, tokens, bounds, 5, tokenizer))
    signatures = timed("signatures", partial(minhash.sign, values, offsets, 126, 1))
    doc_ids = np.repeat(np.arange(len(texts)), 21)
    timed("keys", lambda: lsh.group(lsh.band_keys(signatures, 21, 6).reshape(-1), doc_ids))
    return seconds


def _generate() -> pa.Array:
    """Return documents of TOKENS words whose frequencies follow Zipf's law; the same ones every time."""
    chance = np.random.default_rng(1)
    weights = np.cumsum(1 / (np.arange(WORDS) + 20.0))
    letters = chance.choice(list("etaoinshrdlucmfwypvbgk"), size=(WORDS, 12))
    lengths = np.clip(chance.normal(6.5, 2.2, WORDS), 2, 12).astype(int)
    words = np.array(["".join(row[:length]) for row, length in zip(letters.tolist(), lengths.tolist(), strict=True)])
    drawn = words[np.searchsorted(weights, chance.random((DOCUMENTS, TOKENS)) * weights[-1])]
    return pa.array([" ".join(row) for row in drawn.tolist()])
