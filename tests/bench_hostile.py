"""Time and memory of documents that a search could stumble over: python -m tests.bench_hostile.

Each figure is of a whole run in memory, on one core and in a process of its own, over COPIES documents of so many bytes
that differ little, by that of a run over as many plain ones. The least of ROUNDS counts. Ends with 1 if one is above
the limit.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dedup import deduplicate
from tests.hostile import DOCUMENTS, PLAIN, QUESTION

LIMIT = 3.0
LAYERS: dict[str, dict[str, Any]] = {
    "near": {"layers": ["near"]},
    "annotated": {"layers": ["near"], "output.mode": "annotate"},
    "url": {"layers": ["url"], "url.column": "text"},
    "exact": {"layers": ["exact"], "exact.compare": "text"},
    "lines": {"layers": ["lines"], "lines.documents": 1},
    "paragraphs": {"layers": ["lines"], "lines.unit": "paragraph", "lines.compare": "text"},
    "containment": {"layers": ["containment"]},
    "contamination": {"layers": ["contamination"], "contamination.action": "cut"},
    "passages": {"layers": ["passages"]},
    "sentences": {"layers": ["passages"], "passages.ends": "sentence", "passages.keep_first": False},
}
"""Settings by what is measured."""


class Cost(NamedTuple):
    """What a run takes."""

    seconds: float
    """Of the processor, of all processes."""
    megabytes: float
    """Largest resident size."""


def make_settings(layer: str, folder: Path) -> dict[str, Any]:
    """Return the settings of a run, for which the folder has a set of questions."""
    (folder / "quiz.jsonl").write_text(json.dumps({"q": QUESTION}) + "\n")
    sets = [f"quiz:q:{folder}/quiz.jsonl"]
    return {"input.id_column": "id", "engine": "memory", "contamination.sets": sets, **LAYERS[layer]}


def write(texts: list[str], folder: Path) -> None:
    """Write a corpus that takes as much room as its texts, whatever these are, so that it is read in as many pieces."""
    table = pa.table({"id": range(len(texts)), "text": texts})
    pq.write_table(table, folder / "corpus.parquet", compression="none", use_dictionary=False, row_group_size=1)


def measure(settings: Mapping[str, Any], folder: Path, rounds: int) -> Cost:
    """Return the least that runs over the corpus take."""
    costs = []
    for _ in range(rounds):
        reader, writer = get_context("fork").Pipe(duplex=False)
        process = get_context("fork").Process(target=_run, args=(settings, folder, writer))
        process.start()
        writer.close()
        costs.append(reader.recv())
        process.join()
    return Cost(*map(min, zip(*costs, strict=True)))


def _run(settings: Mapping[str, Any], folder: Path, writer: Any) -> None:
    begin = sum(os.times()[:4])
    Path("/proc/self/clear_refs").write_text("5")
    deduplicate(folder / "corpus.parquet", settings=settings)
    [peak] = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    writer.send((sum(os.times()[:4]) - begin, int(peak.split()[1]) / 1024))


def main() -> int:
    """Print a line for each layer and kind of document."""
    cli = argparse.ArgumentParser(prog="bench_hostile", description=__doc__)
    cli.add_argument("--layers", default=",".join(LAYERS))
    cli.add_argument("--documents", default=",".join(DOCUMENTS))
    cli.add_argument("--bytes", type=int, default=1_000_000)
    cli.add_argument("--copies", type=int, default=16)
    cli.add_argument("--rounds", type=int, default=2)
    options = cli.parse_args()
    # Of a corpus that several processes share the memory would be that of one.
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    above = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for layer in options.layers.split(","):
            settings = make_settings(layer, folder)
            # Loads what a run loads, so that no process need.
            write([f"{QUESTION * 6} é Σ {seed % 3}" for seed in range(9)], folder)
            deduplicate(folder / "corpus.parquet", settings=settings)
            plain = None
            for kind in [PLAIN, *(each for each in options.documents.split(",") if each != PLAIN)]:
                write([DOCUMENTS[kind](seed, options.bytes) for seed in range(options.copies)], folder)
                cost = measure(settings, folder, options.rounds)
                plain = plain or cost
                ratios = [one / other for one, other in zip(cost, plain, strict=True)]
                above += max(ratios) > LIMIT
                told = f"{cost.seconds:7.2f} s {ratios[0]:5.2f} {cost.megabytes:6.0f} MB {ratios[1]:5.2f}"
                print(f"{layer:14}{kind:24}{told}{'  ABOVE' * (max(ratios) > LIMIT)}", flush=True)
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())
