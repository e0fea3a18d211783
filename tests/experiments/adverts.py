"""A dense tail: short advertisements, of which millions of pairs lie about the threshold, every one to be found.

An advertisement has the words of the thing for sale, which others sell too, a phrase of its seller's and words of its
own: two of one thing have any similarity from a third up.
"""

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.kernels.sets.pairs import encode, find_known
from tests.bench_processes import spend
from tests.corpora import CHUNK, Corpus
from tests.experiments.corpora import Sets, count_lost, search, shingle

SIZES = {40_000: ("memory", "exact", "tasks"), 400_000: ("memory", "exact")}
"""Advertisements, and the ways in which they are searched."""
THRESHOLD, BANDS, ROWS = 0.5, 42, 3
THING, PHRASE, OWN = 10, 6, 12
"""Words of a thing, of a phrase, and the most of an advertisement's own."""
OF_EACH, PHRASES = 10, 1000
"""Advertisements of a thing on average, and phrases."""
LARGEST = 2100
"""Documents for each of the things, about, that are sold as often as the first; later ones are sold less."""
WAYS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "memory": ("in memory", ("engine=memory",)),
        "tasks": ("on Spark, whose tasks search", ("engine=spark", "driver.search_bytes=0")),
        "exact": ('`mode = "exact"` in memory', ("engine=memory", "mode=exact")),
    }
)


def write_adverts(folder: Path, documents: int) -> None:
    """Write so many advertisements, `doc_id` and `text`."""
    corpus = Corpus()
    things = corpus.draw(documents // OF_EACH * THING).reshape(-1, THING)
    phrases = corpus.draw(PHRASES * PHRASE).reshape(-1, PHRASE)
    sold = corpus.chance.choice(len(things), documents, p=_fall(len(things), documents / LARGEST))
    said = corpus.chance.choice(PHRASES, len(things), p=_fall(PHRASES, 10))[sold]
    folder.mkdir(parents=True)
    for begin in range(0, documents, CHUNK):
        some = slice(begin, begin + CHUNK)
        counts = corpus.chance.integers(1, OWN + 1, sold[some].size)
        own = np.split(corpus.draw(counts.sum()), np.cumsum(counts)[:-1])
        pieces = [np.concatenate(each) for each in zip(things[sold[some]], phrases[said[some]], own, strict=True)]
        texts = corpus.spell(pieces)
        table = pa.table({"doc_id": np.arange(begin, begin + len(pieces)), "text": texts})
        pq.write_table(table, folder / f"{begin:010}.parquet", compression="zstd")


def _fall(count: int, slowness: float) -> np.ndarray:
    """Return probabilities that fall as one over the place, slowly at first."""
    weights = 1 / (np.arange(count) + slowness)
    return weights / weights.sum()


def measure() -> list[dict[str, Any]]:
    """Return the figures of each size and way."""
    found = []
    for documents, ways in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "documents")
            write_adverts(source, documents)
            sets = shingle(pq.read_table(source)["text"].combine_chunks())
            true = Sets(*sets, *search(*sets, THRESHOLD))
            for way in ways:
                figures = _run(source, Path(folder, way), WAYS[way][1], true)
                found.append({"documents": documents, "pairs": true.left.size, "way": way, **figures})
    return found


def _run(source: Path, target: Path, settings: tuple[str, ...], true: Sets) -> dict[str, Any]:
    command = [sys.executable, "jobs/deduplicate.py", "--input", str(source), "--output", str(target)]
    command += ["--id-column", "doc_id", f"--set=threshold={THRESHOLD}", f"--set=lsh.bands={BANDS}"]
    spent = spend([*command, f"--set=lsh.rows={ROWS}", *(f"--set={each}" for each in settings)], {})
    assert not spent["returncode"], command
    report = json.loads((target / "report.json").read_text("utf-8"))
    edges = pq.read_table(target / "edges", columns=["left_id", "right_id"])
    ends = [edges[name].to_numpy() for name in edges.column_names]
    listed = find_known(encode(true.left, true.right), encode(*ends))
    return {
        "seconds": spent["seconds"],
        "cpu_seconds": spent["cpu_seconds"],
        "bytes": spent["total_bytes"],
        "candidates": report["pairs"]["distinct"],
        "compared": report["pairs"]["candidates"],
        "edges": int(np.count_nonzero(listed)),
        "joined": true.left.size - count_lost(true, *ends),
        "removed": report["removed"],
    }


def to_table(found: list[Mapping[str, Any]]) -> str:
    """Write what each way takes and finds."""
    lines = [
        (
            "| documents | pairs at .5 or more | search | candidates | compared exactly | pairs listed | pairs joined "
            "| removed | seconds | CPU seconds | memory |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        counts = (each[name] for name in ("candidates", "compared", "edges", "joined", "removed"))
        cells = [
            f"{each['documents']:,}",
            f"{each['pairs']:,}",
            WAYS[each["way"]][0],
            *(f"{count:,}" for count in counts),
            f"{each['seconds']:.1f}",
            f"{each['cpu_seconds']:.1f}",
            f"{each['bytes'] / 1e9:.1f} GB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
