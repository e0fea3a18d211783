"""The exact answer of a corpus, from comparing all its documents, and an output judged by it.

A folder of corpora holds NAME.parquet (doc_id, text) and of each, in truth/, two tables:

NAME_groups.parquet  doc_id, set_id, shingles   documents of the same shingle set, known by the least of their doc_ids
NAME_pairs.parquet   a, b, jaccard              two sets, a < b, and their exact similarity

`python -m tests.truth NAME.parquet` writes both.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from tests import oracles

DATA = Path(__file__).parent / "data"
THRESHOLD, CERTAIN = 0.8, 0.85
"""The similarity at which a pair must be found, but for the chance of the bands, and from which on without fail."""


class Verdict(NamedTuple):
    """Numbers of an output beside those of the exact answer."""

    documents: int
    kept: int
    components: int
    """Documents that the exact answer keeps."""
    recall: float
    """Share of the pairs at the threshold of which not both are kept."""
    missed: int
    """Pairs that are more similar still and both kept, and documents kept whose set has another that is kept."""
    lost: int
    """Removed documents of whose component none is kept, as of those that resemble no other."""
    strangers: int
    """Kept documents that are not in the input, or are kept twice."""

    def holds(self, *, exact: bool) -> bool:
        """Tell whether nothing is wrong, and in exact mode nothing missed: else a pair in a thousand may be."""
        if self.missed or self.lost or self.strangers:
            return False
        slack = 0 if exact else 0.001
        return abs(self.kept - self.components) <= slack * self.components and self.recall >= 1 - slack


def find_truth(documents: pa.Table, floor: float = THRESHOLD) -> tuple[pa.Table, pa.Table]:
    """Return the groups, and the pairs of their sets at `floor` or above.

    How many shingles two sets share is the product of the matrix of sets by shingles with its transpose, in integers:
    no pair is left out, as none is chosen.
    """
    rows = sorted(zip(documents["doc_id"].to_pylist(), documents["text"].to_pylist(), strict=True))
    sets = [oracles.shingle_set(text, 5) for _, text in rows]
    heads: dict[frozenset, str] = {}
    for (doc_id, _), members in zip(rows, sets, strict=True):
        heads.setdefault(members, doc_id)
    numbers: dict[tuple[str, ...], int] = {}
    held = [[numbers.setdefault(shingle, len(numbers)) for shingle in members] for members in heads]
    sizes = np.array([len(each) for each in held])
    columns = np.array([number for each in held for number in each])
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    matrix = csr_array((np.ones(len(columns), np.int64), columns, bounds), shape=(len(held), len(numbers)))
    shared = coo_array(matrix @ matrix.T)
    left, right, common = shared.row, shared.col, shared.data
    similarity = common / (sizes[left] + sizes[right] - common)
    # Sets are in the order of their doc_ids.
    wanted = (left < right) & (similarity >= floor)
    names = np.array(list(heads.values()))
    pairs = pa.table({"a": names[left[wanted]], "b": names[right[wanted]], "jaccard": similarity[wanted]})
    known = [(doc_id, heads[members], len(members)) for (doc_id, _), members in zip(rows, sets, strict=True) if members]
    groups = pa.table(dict(zip(("doc_id", "set_id", "shingles"), zip(*known, strict=True), strict=True)))
    return groups, pairs.sort_by([("a", "ascending"), ("b", "ascending")])


def read_truth(source: Path) -> tuple[pa.Table, pa.Table]:
    """Return the groups and the pairs that are stored of a corpus."""
    groups, pairs = (
        pq.read_table(source.parent / "truth" / f"{source.stem}_{name}.parquet") for name in ("groups", "pairs")
    )
    return groups, pairs


def judge(doc_ids: Iterable[str], kept_ids: Iterable[str], groups: pa.Table, pairs: pa.Table) -> Verdict:
    """Hold what an output keeps of these documents against the exact answer."""
    numbers = {doc_id: number for number, doc_id in enumerate(doc_ids)}
    listed = list(kept_ids)
    kept = np.zeros(len(numbers), bool)
    kept[[numbers[each] for each in listed if each in numbers]] = True

    def number(column: pa.ChunkedArray) -> np.ndarray:
        return np.array([numbers[each] for each in column.to_pylist()], dtype=np.int64)

    documents, heads = number(groups["doc_id"]), number(groups["set_id"])
    left, right = number(pairs["a"]), number(pairs["b"])
    similarity = pairs["jaccard"].to_numpy()
    staying = np.bincount(heads[kept[documents]], minlength=len(numbers))
    both = (staying[left] > 0) & (staying[right] > 0)
    similar = similarity >= THRESHOLD

    sources, targets = np.concatenate((documents, left[similar])), np.concatenate((heads, right[similar]))
    graph = coo_array((np.ones(len(sources), bool), (sources, targets)), shape=(len(numbers),) * 2)
    count, component = connected_components(graph, directed=False)
    alive = np.bincount(component[kept], minlength=count) > 0
    return Verdict(
        documents=len(numbers),
        kept=int(kept.sum()),
        components=count,
        recall=1 - (both & similar).sum() / max(similar.sum(), 1),
        missed=int((both & (similarity >= CERTAIN)).sum() + (staying - 1).clip(0).sum()),
        lost=int((~kept & ~alive[component]).sum()),
        strangers=len(listed) - int(kept.sum()),
    )


if __name__ == "__main__":
    file = Path(sys.argv[1])
    for table, name in zip(find_truth(pq.read_table(file)), ("groups", "pairs"), strict=True):
        (file.parent / "truth").mkdir(exist_ok=True)
        pq.write_table(table, file.parent / "truth" / f"{file.stem}_{name}.parquet", compression="zstd")
