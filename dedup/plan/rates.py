"""Speed of a core."""

from dataclasses import dataclass

from dedup.settings.banding import BAND_SECONDS, PAIR_SECONDS, ROW_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Seconds of one core.

    The defaults are the whole job's, Spark's reading, moving and writing included: from `scripts/bench --rounds 2
    --sizes 1000000,4000000 --profiles plain` by tasks on 2 cores (x86-64 without AVX-512) with Numba, the difference
    between the two sizes, whose processor seconds are shared out by the seconds of stages (`python -m tests.rates`).
    They are times of a core whose kernels take REFERENCE of `calibrate`, .54 of what those of that run took. Those of
    bands, rows and pairs are older: they choose the signature, which shall not change as the job becomes faster.
    So is `fixed`; `start` is what is left of runs of 3,000 to 40,000 documents (docs/internals/plan.md).
    """

    source: str = "measured on another machine (dedup/plan/rates.py); --calibrate measures this one"
    text_byte: float = 3.9e-9
    """Seconds per byte read, tokenised and shingled."""
    row: float = ROW_SECONDS
    """Seconds per MinHash value of a document."""
    identical: float = 0.27e-6
    """Seconds per document brought to those with its digest."""
    band: float = BAND_SECONDS
    """Seconds per band key of a document, made, moved and grouped, as it chooses the signature."""
    bucketed: float = 0.16e-6
    """Seconds per band key, or shingle of a bucket over the cap, moved and grouped."""
    signature: float = 0.27e-6
    """Seconds per document whose signature is brought to its pairs."""
    pair: float = PAIR_SECONDS
    """Seconds per pair of a bucket sent, made distinct and estimated."""
    scanned_byte: float = 2.5e-9
    """Seconds per byte of text read again to find the documents of candidates."""
    comparison: float = 0.84e-6
    """Seconds per exact comparison."""
    edge: float = 1.3e-6
    """Seconds per connected edge."""
    member: float = 6.7e-6
    """Seconds per member of a component assigned its representative."""
    written_byte: float = 5.7e-9
    """Seconds per byte of text read and written to the result."""
    shuffled_byte: float = 9.7e-9
    """Seconds per byte of text sorted by id, if too many ids are looked for: docs/internals/tried.md, "result join"."""
    token: float = 0.5e-6
    """Seconds per token that the layer of passages reads: docs/passages.md, 18.6 million with few repeated ones."""
    window: float = 2.0e-6
    """Seconds per window that occurs twice, compared and united: the same page, a corpus of mostly repeated text."""
    fixed: float = 20.0
    """Seconds of a run whatever its size and cores: the JVM and some 40 small jobs."""
    start: float = 17.0
    """Seconds of all cores that are spent meanwhile."""
