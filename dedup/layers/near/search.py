"""Parameters of a search for near-duplicates, of one run or of all batches of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from dedup.kernels.curve import least_estimate
from dedup.kernels.election import ElectionPolicy
from dedup.kernels.sets.templates import choose_cap
from dedup.layers.near.election import Election
from dedup.settings.banding import SIGMAS
from dedup.settings.options import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Parameters of a search, after the settings of the same names; a store notes them by these."""

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
    """Entries of `keep.order`, before and after the colon."""
    by_representative: bool = False
    max_component: int = 0
    """0: no limit."""
    copies: int | str = 1
    """Setting `keep.copies`."""
    for_fixed: bool = False
    """Whether documents go in favour of those of `input.without` alone."""

    @classmethod
    def of(cls, config: Config) -> Self:
        """Return the parameters of settings without "auto"."""
        return cls(
            threshold=config.threshold,
            mode=config.mode,
            bands=config.banding.bands,
            rows=config.banding.rows,
            max_bucket=config.buckets.max_bucket,
            estimate_sigmas=SIGMAS,
            per_source=config.limits.per_source,
            rules=config.rules,
            by_representative=config.cluster.linkage == "representative",
            max_component=config.cluster.max_component,
            copies=config.keep.copies if config.output.mode != "weights" else 1,
            for_fixed=config.keep.drop == "without",
        )

    @property
    def election(self) -> Election:
        """Choice of the documents kept."""
        policy = ElectionPolicy(
            self.threshold, self.by_representative, self.max_component, self.copies, for_fixed=self.for_fixed
        )
        return Election(rules=self.rules, policy=policy, per_source=self.per_source)

    @property
    def exact(self) -> bool:
        """Whether all pairs are found that reach the threshold."""
        return self.mode == "exact"

    @property
    def cap(self) -> int:
        """Members of the largest bucket of which all pairs are compared."""
        return choose_cap(self.max_bucket, self.mode)

    @property
    def values(self) -> int:
        """Values of a signature."""
        return 0 if self.exact else self.bands * self.rows

    @property
    def least_estimate(self) -> float | None:
        """Least estimate of a candidate; the exact search makes none."""
        return None if self.exact else least_estimate(self.threshold, self.values, self.estimate_sigmas)
