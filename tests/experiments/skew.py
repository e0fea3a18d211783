"""What to do with large buckets: templates as the job has them, beside what others do.

Documents that share most of their text share buckets with all others. Each policy chooses the pairs of these that are
compared; all are compared exactly.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.kernels import Hashes, Integers
from dedup.kernels.sets import lsh, minhash
from dedup.kernels.sets.jaccard import jaccard
from dedup.kernels.sets.pairs import decode, encode, sort_distinct
from tests.bench_judge import place, recall
from tests.bench_processes import spend
from tests.corpora import write_corpus
from tests.experiments.corpora import DOCUMENTS, THRESHOLD, Sets, count_lost, make

PROFILES: Mapping[str, dict[str, Any]] = MappingProxyType({"template": {"template": True}, "skewed": {"skewed": True}})
BANDS, ROWS = 21, 6
CAP = 150
DROPPED = 1e-4
"""The share of keys whose buckets are dropped, the largest first."""
LEVELS = 64
"""Values of a second signature that split a bucket, one after another."""
MOST = 5_000_000
PAIR_BYTES = 16

Buckets = tuple[Hashes, Integers, Integers]


def drop(buckets: Buckets, _sets: Sets, keys: int) -> Buckets:
    """Leave out the buckets of the most frequent keys."""
    sizes = np.diff(buckets[2])
    chosen = np.ones(sizes.size, bool)
    chosen[np.argsort(-sizes, kind="stable")[: round(keys * DROPPED)]] = False
    return lsh.select_buckets(*buckets, chosen)


def split(buckets: Buckets, sets: Sets, _keys: int) -> Buckets:
    """Part buckets over the cap by values of a second signature until they are below it, or alike."""
    second = minhash.sign(sets.shingles, sets.offsets, LEVELS, 2)
    done: list[Buckets] = []
    for level in range(LEVELS):
        large = np.diff(buckets[2]) > CAP
        done.append(lsh.select_buckets(*buckets, ~large))
        keys, members, offsets = lsh.select_buckets(*buckets, large)
        if not keys.size:
            break
        owned = np.repeat(keys, np.diff(offsets))
        owned = (owned ^ second[members, level] * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        buckets = lsh.group(owned, members) if level + 1 < LEVELS else _empty()
    return _join(done)


def _empty() -> Buckets:
    return np.empty(0, np.uint64), np.empty(0, np.int64), np.zeros(1, np.int64)


def _join(parts: list[Buckets]) -> Buckets:
    sizes = np.concatenate([np.diff(offsets) for _, _, offsets in parts])
    keys, members = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
    return keys, members, np.concatenate(([0], np.cumsum(sizes)))


def keep(buckets: Buckets, _sets: Sets, _keys: int) -> Buckets:
    """Keep all buckets; those over the cap are sampled."""
    return buckets


POLICIES: Mapping[str, tuple[str, Callable[[Buckets, Sets, int], Buckets], int | None]] = MappingProxyType(
    {
        "drop": (f"the top {DROPPED:.2%} of keys dropped, all pairs of the rest", drop, None),
        "sample": (f"over {CAP} members each compared with {2 * lsh.FOLLOWERS} of a bucket", keep, CAP),
        "split": (f"over {CAP} members split by up to {LEVELS} further values", split, None),
    }
)


def measure() -> list[dict[str, Any]]:
    """Return the figures of each corpus and policy."""
    found = []
    for name, profile in PROFILES.items():
        sets = make(profile)
        low_and_keys = minhash.sign(sets.shingles, sets.offsets, BANDS * ROWS, 1)
        keys = lsh.band_keys(low_and_keys, BANDS, ROWS).reshape(-1)
        for policy, (_, choose, most) in POLICIES.items():
            begin = time.process_time()
            buckets = lsh.group(keys, np.repeat(np.arange(DOCUMENTS), BANDS))
            buckets = choose(buckets, sets, np.unique(keys).size)
            compared, left, right = _compare(lsh.pairs(*buckets, most, MOST), sets)
            spent = time.process_time() - begin
            lost = count_lost(sets, left, right)
            found.append({"corpus": name, "policy": policy, "compared": compared, "lost": lost, "cpu_seconds": spent})
        found.append({"corpus": name, "policy": "templates", **_run(profile), "planted": sets.left.size})
    return found


def _compare(batches: Iterable[tuple[Integers, Integers]], sets: Sets) -> tuple[int, Integers, Integers]:
    """Return how many distinct pairs there are, and those at or above the threshold."""
    distinct = sort_distinct(np.concatenate([encode(left, right) for left, right in batches]))
    left, right = decode(distinct)
    similar = jaccard(sets.shingles, sets.offsets, left, right) >= THRESHOLD
    return distinct.size, left[similar], right[similar]


def _run(profile: dict[str, Any]) -> dict[str, Any]:
    """Return what the job finds, and what it takes more than of as many words without a template."""
    plain = {"mean_tokens": 460} if "template" in profile else {}
    taken = []
    for each in (profile, plain):
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder, "corpus")
            write_corpus(corpus, DOCUMENTS, **each)
            target = Path(folder, "out")
            command = [sys.executable, "jobs/deduplicate.py", "--input", str(corpus / "documents")]
            command += ["--output", str(target), "--id-column", "doc_id", "--engine", "memory"]
            spent = spend(command, {})["cpu_seconds"]
            pairs = json.loads((target / "report.json").read_text("utf-8"))["pairs"]
            truth = pa.concat_tables([pq.read_table(file) for file in corpus.glob("*.parquet")])
            found, planted = recall(place(target), truth), np.count_nonzero(truth["jaccard"].to_numpy() >= THRESHOLD)
            taken.append((spent, pairs["distinct"], round((1 - found) * planted)))
    return {"compared": taken[0][1], "lost": taken[0][2], "cpu_seconds": taken[0][0] - taken[1][0]}


def to_table(found: list[Mapping[str, Any]]) -> str:
    """Write what each policy compares and loses."""
    lines = [
        "| corpus | large buckets | pairs compared | bytes of these pairs | planted pairs lost | processor seconds |",
        "|---|---|---|---|---|---|",
    ]
    planted = {each["corpus"]: each["planted"] for each in found if "planted" in each}
    for each in sorted(found, key=lambda one: (one["corpus"] != "template", one["policy"] != "templates")):
        told = POLICIES[each["policy"]][0] if each["policy"] in POLICIES else "templates, as the job has them"
        cells = [
            each["corpus"],
            told,
            f"{each['compared']:,}",
            f"{each['compared'] * PAIR_BYTES / 1e6:,.1f} MB",
            f"{each['lost']:,} of {planted[each['corpus']]:,}",
            f"{each['cpu_seconds']:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
