"""The speed of a core."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Seconds of one core.

    The defaults are the whole job's, Spark's reading, moving and writing included: from the seconds of each stage of
    `scripts/bench --sizes 1000000,5000000 --profiles plain` on 2 cores (x86-64 with AVX-512) with Numba, the difference
    between the two sizes, so that what is paid once is not in them.
    """

    source: str = "measured on another machine (dedup/plan/rates.py); --calibrate measures this one"
    text_byte: float = 16.2e-9
    """A byte read, tokenised and shingled."""
    row: float = 25e-9
    """A MinHash value of a document."""
    identical: float = 2.5e-6
    """A document brought to those with its digest."""
    band: float = 0.52e-6
    """A band's key made, moved and grouped, for a document."""
    signature: float = 4.7e-6
    """A document's signature brought to its pairs."""
    pair: float = 2.0e-6
    """A pair of a bucket sent, made distinct and estimated."""
    scanned_byte: float = 6.1e-9
    """A byte of text read again to find the documents of candidates."""
    comparison: float = 2.0e-6
    """An exact comparison."""
    edge: float = 13e-6
    """An edge connected."""
    member: float = 12e-6
    """A member of a component assigned its representative."""
    written_byte: float = 10.3e-9
    """A byte of text read and written to the result."""
    shuffled_byte: float = 9.7e-9
    """A byte of text sorted by id, where too many ids are looked for: docs/performance.md, "result join"."""
    token: float = 0.5e-6
    """A token that the layer of passages looks at: docs/passages.md, 18.6 million of which few are repeated."""
    window: float = 2.0e-6
    """A window that occurs twice, compared and united: the same page, a corpus of which most is repeated."""
    fixed: float = 20.0
    """Seconds of a run whatever its size and cores: the JVM and some 40 small jobs."""
