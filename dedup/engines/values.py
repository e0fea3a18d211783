"""What the memory engine takes and what it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup.kernels import Floats, Hashes, Integers
from dedup.kernels.election import ElectionPolicy
from dedup.kernels.sets.templates import choose_cap
from dedup.tables.counts import Bucketed, Collapsed, Connected, Elected, Lost, Paired, Verified


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """Result of a pass over the text of n rows, in any order. Equal rows, without an id column, share a doc_id."""

    doc_ids: Integers
    """int64 [n]; anything where the id is null, which `check_ids` refuses."""
    ids: pa.Array
    """The user's own, int64 or string."""
    shingle_counts: npt.NDArray[np.int32]
    """Distinct shingles; 0: no token."""
    digest_high: Integers
    digest_low: Integers
    """Halves of the digest of the shingle set."""
    band_keys: Hashes | None = None
    """uint64 [n, bands], C-contiguous; None in exact mode."""
    signature: npt.NDArray[np.uint8] | None = None
    """uint8 [n, bands x rows], the low byte of every row; None in exact mode."""
    sources: pa.Array | None = None
    """Strings, null where a row has none; None where no column names it."""
    text_bytes: Integers | None = None
    """int64 [n]; None where no rule asks for it."""
    order_keys: Floats | None = None
    """float64 [n, columns] of the rules that ask for columns, less is better and NaN last; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Parameters of a search, after the settings of the same names."""

    threshold: float
    mode: Literal["lsh", "exact"] = "lsh"
    bands: int
    rows: int
    max_bucket: int
    """The cap `buckets.max_bucket`."""
    estimate_sigmas: float
    per_source: int = 0
    """0: no limit."""
    rules: Sequence[tuple[str, str]] = (("smallest_id", ""),)
    """Of `keep.order`, before and after the colon."""
    by_representative: bool = False
    max_component: int = 0
    """0: no limit."""
    copies: int = 1
    copies_per_source: int = 0

    @property
    def policy(self) -> ElectionPolicy:
        """What stays."""
        return ElectionPolicy(
            self.threshold, self.by_representative, self.max_component, self.copies, self.copies_per_source
        )

    @property
    def cap(self) -> int:
        """Members of the largest bucket of which all pairs are compared."""
        return choose_cap(self.max_bucket, self.mode)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Tables as `dedup.tables.schemas` has them, in ascending order of their ids, and what was counted."""

    identical: pa.Table
    repeated: pa.Table
    candidates: pa.Table
    edges: pa.Table
    near_misses: pa.Table
    """EDGES below the threshold, the closest of either document."""
    components: pa.Table
    members: pa.Table
    """After distant pairs were measured and the limit per source has spared documents."""
    spared: pa.Table
    recall: Sequence[Mapping[str, Any]] | None
    """As `labels.measure_recall` gives it, empty without labels; None where it could not be measured."""
    collapsed: Collapsed
    bucketed: Bucketed
    paired: Paired
    verified: Verified
    connected: Connected
    lost: Lost | None
    """None where the sample could not be counted."""
    elected: Elected
