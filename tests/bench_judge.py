"""What a contender of the benchmark has found, held against what was planted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_array

from dedup.kernels.sets import shingles
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.bench_peers import PEERS, THRESHOLD

ALONE = "passages"
"""The layer by itself, in memory, as `suffixes` finds the same: all of every window that occurs twice."""
SUFFIXES = "suffixes"
COUNTED = {ALONE: ("repeated_tokens", "repeated_tokens"), "semantic": ("near_pairs", "near")}
"""Count noted of a layer, and its name among the layer's details."""
JUDGED = 100_000
"""The largest corpora of which all removals are judged."""
FOUND = ("recall", "recall_hot", "removed", "bereft", "alone", "repeated_tokens", "near_pairs", "stages", "finished")
"""Names of what is noted of a run besides its cost."""


def judge(contender: str, folder: Path, target: Path) -> dict[str, Any]:
    """Return the stages of a run of the job, and the share of planted pairs that a contender has found."""
    measured: dict[str, Any] = {}
    if (target / "report.json").exists():
        report = json.loads((target / "report.json").read_text("utf-8"))
        measured["stages"] = {name: round(stage["seconds"], 2) for name, stage in report["stages"].items()}
        measured["removed"] = report["removed"]
        last = report["layers"][-1]
        if last["layer"] in COUNTED:
            name, detail = COUNTED[last["layer"]]
            measured[name] = last["details"][detail]
        if contender == ALONE:
            return measured
        places = place(target)
        for key, file in (("recall", "truth"), ("recall_hot", "hot")):
            if (folder / f"{file}.parquet").exists():
                measured[key] = recall(places, pq.read_table(folder / f"{file}.parquet"))
        if contender == "memory" and (folder / "truth.parquet").exists() and not (folder / "hot.parquet").exists():
            measured |= judge_removals(folder / "documents", target / "kept")
    elif contender == SUFFIXES:
        measured |= json.loads((target / "counts.json").read_text("utf-8"))
    elif contender in PEERS and (folder / "truth.parquet").exists():
        kept = pq.read_table(target, columns=["doc_id"])["doc_id"].to_numpy()
        measured["recall"] = float(
            1 - np.isin(_similar(pq.read_table(folder / "truth.parquet")), kept).all(axis=1).mean()
        )
        measured |= judge_removals(folder / "documents", target)
    elif contender == "mllib" and (folder / "truth.parquet").exists():
        found = pq.read_table(target)
        known = set(zip(found["left"].to_pylist(), found["right"].to_pylist(), strict=True))
        pairs = _similar(pq.read_table(folder / "truth.parquet"))
        measured["recall"] = float(np.mean([tuple(sorted(pair)) in known for pair in pairs.tolist()]))
    return measured


def judge_removals(source: Path, kept: Path) -> dict[str, int]:
    """Return how many documents are removed, and how many of these wrongly.

    Returns
    -------
    dict
        `removed`; `bereft`, those to which no document kept has an exact Jaccard of the threshold or more; `alone`,
        those to which no document at all has. Only `removed` of corpora of more than JUDGED documents.
    """
    documents = pq.read_table(source, columns=["doc_id", "text"])
    stays = np.isin(documents["doc_id"].to_numpy(), pq.read_table(kept, columns=["doc_id"])["doc_id"].to_numpy())
    judged = {"removed": int(np.count_nonzero(~stays))}
    if documents.num_rows > JUDGED:
        return judged
    words = UnicodeWords()
    values, bounds = shingles.shingle(*words.hash(documents["text"].combine_chunks()), 5, words)
    _, columns = np.unique(values, return_inverse=True)
    matrix = csr_array((np.ones(len(columns), np.int32), columns, bounds))
    gone = np.flatnonzero(~stays)
    shared = (matrix[gone] @ matrix.T).tocoo()
    sizes = np.diff(bounds)
    left, right = gone[shared.row], shared.col
    similar = (shared.data >= THRESHOLD * (sizes[left] + sizes[right] - shared.data) - 1e-9) & (left != right)
    met, met_kept = (np.unique(left[chosen]).size for chosen in (similar, similar & stays[right]))
    # Documents without a shingle are equal to one another, and none is removed here.
    return {**judged, "bereft": gone.size - met_kept, "alone": gone.size - met}


def place(target: Path) -> Mapping[int, int]:
    """Return the component of every document that has one."""
    table = pq.read_table(target / "duplicates", columns=["id", "representative_id", "component_id"])
    ids, kept, component_ids = (table[name].to_pylist() for name in table.column_names)
    return dict(zip(ids, component_ids, strict=True)) | dict(zip(kept, component_ids, strict=True))


def recall(places: Mapping[int, int], truth: pa.Table) -> float:
    """Return the share of planted pairs at or above the threshold whose documents are in one component."""
    pairs = _similar(truth).tolist()
    return float(np.mean([left in places and places.get(left) == places.get(right) for left, right in pairs]))


def _similar(truth: pa.Table) -> np.ndarray:
    pairs = np.stack([truth["left"].to_numpy(), truth["right"].to_numpy()], axis=1)
    return pairs[truth["jaccard"].to_numpy() >= THRESHOLD]
