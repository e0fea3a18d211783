"""Judge the job against the exact answer on real corpora: python -m tests.accuracy [FOLDER] [--all].

The corpora are tests/data, which every engine searches, and those of FOLDER/data, laid out as tests/truth.py says.
With default settings every pair at the threshold must be found but one in a thousand, and nothing be removed without
reason; exact mode must keep exactly as many documents as there are components. The layer of passages must find exactly
the windows that a suffix array of the corpus finds. The engines must agree to the row. The memory engine searches all
corpora of FOLDER, but Spark's tasks and the layer of passages take longest: they have the first alone, and exact mode
by tasks and drivers, who search as the memory engine does, none. With --all they have all.
"""

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dedup.kernels.ids import to_doc_ids
from dedup.kernels.text.passages import repeat_windows
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers import repeats
from dedup.layers.passages import Passages, PassagesLayer
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.run.session import open_session
from dedup.settings.files import load_config
from tests.classes import share_classes
from tests.layers.tiny import TinyEngine
from tests.suffixes import find_repeated
from tests.truth import DATA, judge, read_truth

TABLES = ("kept", "removed", "duplicates", "edges", "near_misses")
ENGINES = {"memory": ("auto", "process"), "driver": (1_000_000_000, "process"), "tasks": (0, "tasks")}
"""The bytes that a driver may search in, and who searched by the report."""
LENGTH = 50
"""Tokens of a window."""


def search(spark: SparkSession, source: Path, mode: str, engine: str, output: Path) -> None:
    search_bytes, searched = ENGINES[engine]
    settings = ["input.id_column=doc_id", f"mode={mode}", f"driver.search_bytes={search_bytes}"]
    job = Job(inputs=[str(source)], output=str(output), config=load_config(None, None, settings))
    if engine == "memory":
        run_in_memory(job)
    else:
        run(spark, job)
    assert json.loads((output / "report.json").read_text("utf-8"))["search"] == searched


def finds_passages(source: Path) -> str:
    """Return the number of windows that occur twice, and how many the layer has not found, or besides."""
    texts = pq.read_table(source, columns=["doc_id", "text"]).to_pylist()
    texts.sort(key=lambda row: row["doc_id"].encode())
    expected = find_repeated([row["text"] for row in texts], LENGTH)
    engine = TinyEngine([(row["doc_id"], row["text"]) for row in texts], pa.string(), size=4000)
    settings = Passages(tokens=LENGTH, action="mark")
    PassagesLayer(settings=settings, tokenizer=UnicodeWords(), rules=()).find(engine)
    numbers = {each: number for number, each in enumerate(to_doc_ids(pa.array([r["doc_id"] for r in texts])).tolist())}
    found = {}
    recurring = repeats.list_recurring(engine.counted["windows"].to_batches())
    rows = pa.concat_tables([engine.counted["occurrences"], pa.Table.from_batches(recurring, repeats.REPEATED)])
    rows = rows.sort_by([("doc_id", "ascending"), ("begin", "ascending")])
    windows = repeat_windows(*(rows[name].to_numpy() for name in repeats.REPEATED.names))
    for doc_id, begin, other_id, other_begin, times in zip(*windows, strict=True):
        own, other = (numbers[doc_id], begin), (numbers[other_id], other_begin)
        found[own] = own if times else other
    return f"windows {len(expected)} | differ {len(expected.items() ^ found.items())}"


def main(folder: Path | None, *, everything: bool) -> int:
    others = sorted((folder / "data").glob("*.parquet")) if folder else []
    sources = [*sorted(DATA.glob("*.parquet")), *others]
    left = [] if everything else others[1:]
    results = []

    def say(good: bool, checked: str) -> None:
        results.append(good)
        print(f"{'passed' if good else 'FAILED'}  {checked}", flush=True)

    # Suffix arrays take one core, and most of Spark's runs wait for one.
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(1, get_context("spawn")) as beside:
        repeated = {source: beside.submit(finds_passages, source) for source in sources if source not in left}
        os.environ["JDK_JAVA_OPTIONS"] = share_classes()
        spark = open_session()
        for source, mode in product(sources, ("lsh", "exact")):
            engines = list(ENGINES)
            if source in others and not everything:
                engines = ["memory", "tasks"] if mode == "lsh" and source not in left else ["memory"]
            outputs = [Path(scratch, source.stem, mode, engine) for engine in engines]
            for engine, output in zip(engines, outputs, strict=True):
                search(spark, source, mode, engine, output)
            doc_ids, kept = (pq.read_table(file)["doc_id"].to_pylist() for file in (source, outputs[0] / "kept"))
            verdict = judge(doc_ids, kept, *read_truth(source))
            agreed = all(tell(output) == tell(outputs[0]) for output in outputs[1:])
            found = " | ".join(f"{name} {value:.6g}" for name, value in verdict._asdict().items())
            said = f"{source.stem}, mode {mode}, {', '.join(engines)}{'' if agreed else ' differ'}: {found}"
            say(agreed and verdict.holds(exact=mode == "exact"), said)
        spark.stop()
        for source, found in repeated.items():
            say(found.result().endswith("| differ 0"), f"{source.stem}, passages: {found.result()}")
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return int(not all(results))


def tell(output: Path) -> list[list[tuple[object, ...]]]:
    """Return all that a run found, in an order of its own: the engines must agree to the row."""
    found = [pq.read_table(output / name) for name in TABLES]
    return [sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr) for table in found]


if __name__ == "__main__":
    cli = argparse.ArgumentParser(prog="accuracy", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    cli.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    cli.add_argument("--all", action="store_true")
    options = cli.parse_args()
    sys.exit(main(options.folder, everything=options.all))
