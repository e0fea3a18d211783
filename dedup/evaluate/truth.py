"""Truth about a sample: the pairs that should be found."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dedup.evaluate.pairs import Pairs
from dedup.evaluate.sample import Sample
from dedup.kernels import Flags, Integers
from dedup.kernels.components import connect
from dedup.kernels.sets import exact


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truth:
    """Pairs that should be found, and pairs that should not."""

    pairs: Pairs
    labels: Flags | None
    """Flags of the duplicates; None if these are the pairs at or above the threshold."""
    families: Integers
    """Family of each pair: the component of the pairs that holds it; number."""

    def duplicates(self, threshold: float) -> Flags:
        """Tell which pairs should be found."""
        return self.pairs.jaccard >= threshold if self.labels is None else self.labels


def find_truth(sample: Sample, alike: Pairs, labels: pa.Table | None) -> Truth:
    """Return the labelled pairs, else those of planted copies, else similar pairs with a drawn document.

    Of similar pairs each in the corpus is as likely to be there as any other, whatever the size of its family, until
    a family has more members than one document brings along; pairs of two that only came along would favour families.
    """
    flags = None
    if labels is not None:
        # Spark reads them in any order, and the last bit of a mean depends on it.
        labels = labels.sort_by([(name, "ascending") for name in ("left_id", "right_id", "duplicate")])
        ends = [np.searchsorted(sample.doc_ids, labels[side].to_numpy()) for side in ("left_id", "right_id")]
        flags = labels["duplicate"].to_numpy()
    elif (sample.sources >= 0).any():
        copies = np.flatnonzero(sample.sources >= 0)
        ends = [copies, sample.sources[copies]]
    else:
        chosen = sample.drawn[alike.left] | sample.drawn[alike.right]
        ends = [alike.left[chosen], alike.right[chosen]]
    left, right = np.minimum(*ends), np.maximum(*ends)
    ids, least = connect(left, right)
    families = np.unique(least, return_inverse=True)[1][np.searchsorted(ids, left)]
    pairs = Pairs(left=left, right=right, jaccard=exact.compare(sample.sets, sample.sets, left, right))
    return Truth(pairs=pairs, labels=flags, families=families)
