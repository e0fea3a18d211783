"""Judge the job against an exact oracle on real corpora: python -m tests.accuracy FOLDER [--all].

FOLDER holds oracle/judge.py, data/NAME.parquet, and data/truth/NAME_pairs.parquet and NAME_groups.parquet.
With default settings every pair at the threshold must be found but one in a thousand, and nothing be removed without
reason; exact mode must keep exactly as many documents as there are components. The layer of passages must find exactly
the windows that a suffix array of the corpus finds. Both engines must agree to the row; exact mode by Spark's tasks
takes longest, and is compared on one corpus, with --all on each.
"""

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dedup.kernels.ids import to_doc_ids
from dedup.kernels.text.tokenizer import Contract
from dedup.layers.passages import PassagesLayer
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.run.session import open_session
from dedup.settings.files import load_config
from dedup.settings.layers import Passages
from tests.layers.tiny import TinyEngine
from tests.suffixes import find_repeated

TABLES = ("kept", "removed", "duplicates", "edges", "near_misses")
CORPORA = ("powershell_docs", "tldr_pages", "license_rules")
BY_TASKS = {*product(CORPORA, ["lsh"]), ("tldr_pages", "exact")}
LENGTH = 50
"""Tokens of a window."""
VERDICT = re.compile(
    r"kept (\d+) \(exact answer (\d+)\) of (\d+) \| missed (\d+) of .*"
    r"recall ([\d.]+) of \d+ \| false (\d+) \| bereft (\d+) \| strangers (\d+)"
)


def judge(folder: Path, corpus: str, kept: Path) -> str:
    truth = folder / "data" / "truth"
    command = [folder / "oracle" / "judge.py", folder / "data" / f"{corpus}.parquet", kept]
    command += [truth / f"{corpus}_pairs.parquet", truth / f"{corpus}_groups.parquet"]
    judged = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=True)
    return judged.stdout.strip()


def holds(verdict: str, mode: str) -> bool:
    found = VERDICT.match(verdict)
    if found is None:
        return False
    kept, exact, _, missed, *rest = found.groups()
    recall, *faults = rest
    if int(missed) or any(map(int, faults)):
        return False
    if mode == "exact":
        return kept == exact and float(recall) == 1
    return abs(int(kept) - int(exact)) <= 0.001 * int(exact) and float(recall) >= 0.999


def finds_passages(source: str) -> str:
    """Return the number of windows that occur twice, and how many the layer has not found, or besides."""
    rows = sorted(pq.read_table(source, columns=["doc_id", "text"]).to_pylist(), key=lambda row: row["doc_id"].encode())
    expected = find_repeated([row["text"] for row in rows], LENGTH)
    engine = TinyEngine([(row["doc_id"], row["text"]) for row in rows], pa.string(), size=4000)
    settings = Passages(tokens=LENGTH, action="mark")
    PassagesLayer(settings=settings, contract=Contract(), rules=()).find(engine)
    numbers = {each: number for number, each in enumerate(to_doc_ids(pa.array([r["doc_id"] for r in rows])).tolist())}
    found = {}
    windows = engine.counted["occurrences"].to_pydict()
    for doc_id, begin, other_id, other_begin, times in zip(*windows.values(), strict=True):
        own, other = (numbers[doc_id], begin), (numbers[other_id], other_begin)
        found[own] = own if times else other
    return f"windows {len(expected)} | differ {len(expected.items() ^ found.items())}"


def main(folder: Path, *, all_by_tasks: bool) -> int:
    passed = failed = 0
    # Suffix arrays take one core, and most of Spark's runs wait for one.
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(1, get_context("spawn")) as beside:
        repeated = [beside.submit(finds_passages, str(folder / "data" / f"{corpus}.parquet")) for corpus in CORPORA]
        spark = open_session()
        for corpus, mode in product(CORPORA, ("lsh", "exact")):
            # By tasks, since a driver searches as the memory engine does.
            config = load_config(None, None, ["input.id_column=doc_id", f"mode={mode}", "driver.search_bytes=0"])
            source = str(folder / "data" / f"{corpus}.parquet")
            outputs = [Path(scratch) / f"{corpus}-{mode}-{engine}" for engine in ("memory", "spark")]
            run_in_memory(Job(inputs=[source], output=str(outputs[0]), config=config))
            verdict = judge(folder, corpus, outputs[0] / "kept")
            good, engines = holds(verdict, mode), "in memory"
            if all_by_tasks or (corpus, mode) in BY_TASKS:
                run(spark, Job(inputs=[source], output=str(outputs[1]), config=config))
                good, engines = good and tell(outputs[0]) == tell(outputs[1]), "both engines"
            passed, failed = passed + good, failed + (not good)
            print(f"{'passed' if good else 'FAILED'}  {corpus}, mode {mode}, {engines}: {verdict}", flush=True)
        spark.stop()
        for corpus, found in zip(CORPORA, repeated, strict=True):
            verdict = found.result()
            good = verdict.endswith("| differ 0")
            passed, failed = passed + good, failed + (not good)
            print(f"{'passed' if good else 'FAILED'}  {corpus}, passages: {verdict}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def tell(output: Path) -> list[list[tuple[object, ...]]]:
    """Return all that a run found, in an order of its own: the engines must agree to the row."""
    found = [pq.read_table(output / name) for name in TABLES]
    return [sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr) for table in found]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), all_by_tasks="--all" in sys.argv[2:]))
