"""Speed of a core."""

from dataclasses import dataclass

from dedup.settings.banding import BAND_SECONDS, PAIR_SECONDS, ROW_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Seconds of one core.

    The defaults are the whole job's, Spark's reading, moving and writing included: from the seconds of each stage of
    `scripts/bench --sizes 1000000,5000000 --profiles plain` on 2 cores (x86-64 with AVX-512) with Numba, the difference
    between the two sizes, so that what is paid once is not in them.
    """

    source: str = "measured on another machine (dedup/plan/rates.py); --calibrate measures this one"
    text_byte: float = 16.2e-9
    """Seconds per byte read, tokenised and shingled."""
    row: float = ROW_SECONDS
    """Seconds per MinHash value of a document."""
    identical: float = 2.5e-6
    """Seconds per document brought to those with its digest."""
    band: float = BAND_SECONDS
    """Seconds per band key of a document, made, moved and grouped."""
    signature: float = 4.7e-6
    """Seconds per document whose signature is brought to its pairs."""
    pair: float = PAIR_SECONDS
    """Seconds per pair of a bucket sent, made distinct and estimated."""
    scanned_byte: float = 6.1e-9
    """Seconds per byte of text read again to find the documents of candidates."""
    comparison: float = 2.0e-6
    """Seconds per exact comparison."""
    edge: float = 13e-6
    """Seconds per connected edge."""
    member: float = 12e-6
    """Seconds per member of a component assigned its representative."""
    written_byte: float = 10.3e-9
    """Seconds per byte of text read and written to the result."""
    shuffled_byte: float = 9.7e-9
    """Seconds per byte of text sorted by id, if too many ids are looked for: docs/internals/tried.md, "result join"."""
    token: float = 0.5e-6
    """Seconds per token that the layer of passages reads: docs/passages.md, 18.6 million with few repeated ones."""
    window: float = 2.0e-6
    """Seconds per window that occurs twice, compared and united: the same page, a corpus of mostly repeated text."""
    fixed: float = 20.0
    """Seconds of a run whatever its size and cores: the JVM and some 40 small jobs."""
