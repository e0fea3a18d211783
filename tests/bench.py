"""The benchmark: the job on both engines, Spark's plain copy, MLlib and other libraries, each a process, in turn.

scripts/bench [--large] [--rounds 3] [--sizes 10000,100000] [--contenders copy,memory,rensa] [--output bench.json]

`scripts/measured --bench bench.json` puts what it wrote into docs/measured.json and the pages.
"""

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.plan.answer import answer
from dedup.plan.question import PlanQuestion
from dedup.settings.files import load_config
from tests.bench_cost import to_cost_table, to_peers_table
from tests.bench_growing import measure_growing, to_growing_table
from tests.bench_judge import ALONE, FOUND, SUFFIXES, judge
from tests.bench_peers import PEERS, PEERS_FOLDER, SPARK_PEERS, find_peer
from tests.bench_processes import read_log, spend
from tests.corpora import OWN, TEMPLATE, write_corpus
from tests.machine import describe_machine, describe_run

ROOT = Path(__file__).resolve().parent.parent
SIZES = (10_000, 100_000, 1_000_000)
LARGE = 5_000_000
SLOW_DOCUMENTS = {"mllib": 100_000, "datasketch": 100_000, "gaoya": 100_000, "spark-lshbloom": 10_000}
"""The largest corpora that these are asked to do, once and for SLOW_SECONDS at most."""
SLOW_SECONDS = 600
COPIES = 5
"""Of each document in the corpus of copies."""
LAYERED = ("+passages", "+semantic")
"""End the name of an engine that runs this layer on what `near` leaves."""
BRUTE = "brute+semantic"
"""The same in memory, by comparing all vectors with all."""
MARKED = ("layers=['passages']", "passages.action=mark", "passages.keep_first=false")
SUFFIXES_MISSING = """bench: the contender suffixes needs a checkout in dist/peers/suffixes (it is not there):
git clone https://github.com/google-research/deduplicate-text-datasets dist/peers/suffixes
cd dist/peers/suffixes && cargo build"""
EXACT = "-exact"
"""Ends the name of an engine that runs the layer `exact` alone."""
CONTENDERS = (
    "also tasks, of which Spark's driver searches nothing; rensa, datasketch, incrededup; memory-exact, spark-exact; "
    "memory+passages, spark+passages, tasks+passages, passages, suffixes; "
    "memory+semantic, spark+semantic, tasks+semantic, brute+semantic"
)
PROFILES = (
    "which generated corpora; also copies, footer, template, words (as many as in template), and growing: by batches"
)
PLANNED, PLANNED_REAL = 100_000, 40_000
"""Documents of a corpus that a plan looks at."""


def main() -> None:
    """Run all, print the table, write the JSON."""
    cli = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    cli.add_argument("--large", action="store_true", help=f"also {LARGE:,} documents: 7 GB of text, an hour")
    cli.add_argument("--rounds", type=int, default=3)
    cli.add_argument("--sizes", default=",".join(map(str, SIZES)), help="documents of the generated corpora")
    cli.add_argument("--profiles", default="plain,long,skewed,lines", help=PROFILES)
    cli.add_argument("--contenders", default="copy,memory,spark,tasks,graphframes,mllib", help=CONTENDERS)
    cli.add_argument("--data", type=Path, help="folder of parquet files with columns doc_id and text, each a corpus")
    cli.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "dedup-bench", help="kept corpora")
    cli.add_argument("--output", type=Path, default=Path("bench.json"))
    options = cli.parse_args()
    sizes = [int(size) for size in options.sizes.split(",") if size] + [LARGE] * options.large
    contenders = options.contenders.split(",")
    if "copy" not in contenders and {*options.profiles.split(",")} != {"growing"}:
        cli.error("--contenders: must have copy, by which the others are divided")
    failed = install(contenders)
    contenders = [name for name in contenders if name not in failed]
    results: list[dict[str, Any]] = []
    written = {
        **describe_run(),
        "machine": describe_machine(),
        "command": tell_command(sys.argv[1:]),
        **({"failed": failed} if failed else {}),
        "corpora": results,
    }
    if "growing" in options.profiles.split(","):
        written["growing"] = []
        for size in sizes:
            written["growing"].append(measure_growing(options.work, size, contenders))
            print(to_growing_table(written["growing"][-1]), flush=True)
            options.output.write_text(json.dumps(written, indent=1) + "\n")
    for name, folder, documents in corpora(options, sizes):
        results.append(measure(name, folder, documents, contenders, options.rounds))
        print(to_table(results[-1]), flush=True)
        if small := [entry for entry in results[:-1] if entry["corpus"] == name]:
            print(f"\n{to_cost_table(small[-1], results[-1])}", flush=True)
        options.output.write_text(json.dumps(written, indent=1) + "\n")


def tell_command(arguments: Sequence[str]) -> str:
    """Return the command that repeats a run, without the paths of this machine."""
    shown, rest = ["scripts/bench"], iter(arguments)
    for each in rest:
        if each == "--data":
            shown += [each, "DATA"]
        elif each not in {"--work", "--output"}:
            shown.append(each)
            continue
        next(rest)
    return shlex.join(shown)


def corpora(options: argparse.Namespace, sizes: list[int]) -> Iterator[tuple[str, Path, int]]:
    """Yield name, folder and documents of every corpus; generated ones are kept for the next time."""
    profiles: dict[str, dict[str, Any]] = {"plain": {}, "long": {"mean_tokens": 400}, "skewed": {"skewed": True}}
    profiles |= {"lines": {}, "copies": {}, "footer": {"footer": True}}
    profiles |= {"template": {"template": True}, "words": {"mean_tokens": TEMPLATE + OWN}}
    for size in sizes:
        for profile in options.profiles.split(","):
            if profile == "growing":
                continue
            # The long profile is there to show the cost of a byte, for which one size is enough.
            if profile == "long" and size != sizes[min(1, len(sizes) - 1)]:
                continue
            folder = options.work / f"{profile}-{size}"
            if not (folder / "truth.parquet").exists():
                shutil.rmtree(folder, ignore_errors=True)
                write_corpus(folder, size // COPIES if profile == "copies" else size, **profiles[profile])
                if profile == "lines":
                    to_lines(folder)
                if profile == "copies":
                    to_copies(folder)
            yield profile, folder, size
    for file in sorted(options.data.glob("*.parquet")) if options.data else []:
        folder = options.work / file.stem
        (folder / "documents").mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / "documents")
        yield file.stem, folder, pq.read_metadata(file).num_rows


def to_lines(folder: Path) -> None:
    """Write the documents of a corpus as JSONL.zst, and put those of parquet, for who cannot read it, aside."""
    (folder / "documents").rename(folder / "parquet")
    (folder / "documents").mkdir()
    for file in (folder / "parquet").iterdir():
        lines = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in pq.read_table(file).to_pylist())
        with pa.CompressedOutputStream(str(folder / "documents" / f"{file.stem}.jsonl.zst"), "zstd") as stream:
            stream.write(lines)


def to_copies(folder: Path) -> None:
    """Write every document COPIES times, in random order, with ids of their own, into files as large as before."""
    chance, begin, truth = np.random.default_rng(1), 0, []
    (folder / "documents").rename(folder / "originals")
    (folder / "documents").mkdir()
    for file in sorted((folder / "originals").iterdir()):
        table = pq.read_table(file)
        originals = chance.permutation(np.repeat(np.arange(table.num_rows), COPIES))
        ids = np.arange(begin, begin + originals.size)
        for places in np.array_split(np.arange(originals.size), COPIES):
            copied = pa.table({"doc_id": ids[places], "text": table["text"].take(pa.array(originals[places]))})
            pq.write_table(copied, folder / "documents" / f"{ids[places[0]]:010}.parquet", compression="zstd")
        truth.append(ids[np.argsort(originals, kind="stable")].reshape(-1, COPIES)[:, :2])
        begin += originals.size
    left, right = np.concatenate(truth).T
    pq.write_table(pa.table({"left": left, "right": right, "jaccard": np.ones(left.size)}), folder / "truth.parquet")


def install(contenders: list[str]) -> dict[str, str]:
    """Fetch the libraries of others that are asked for, beside the product; return the errors of those that fail."""
    failed = {}
    for name, package in PEERS.items():
        folder = find_peer(name)
        if name in contenders and not folder.exists():
            options = ["--quiet", "--no-deps", "--target", str(folder), package]
            command = [sys.executable, "-m", "pip", "install", *options]
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                shutil.rmtree(folder, ignore_errors=True)
                failed[name] = done.stderr.strip().splitlines()[-1]
    if SUFFIXES in contenders and not (PEERS_FOLDER / SUFFIXES / "target" / "debug").exists():
        raise SystemExit(SUFFIXES_MISSING)
    return failed


def measure(name: str, folder: Path, documents: int, contenders: list[str], rounds: int) -> dict[str, Any]:
    """Run every contender once to warm the file cache and then in turn; return medians with least and greatest."""
    runs: dict[str, list[dict[str, Any]]] = {contender: [] for contender in contenders}
    for contender, most in SLOW_DOCUMENTS.items():
        if documents > most:
            runs.pop(contender, None)
    run("copy", folder)
    for _ in range(rounds):
        for contender, done in runs.items():
            # These take minutes: once is enough to see it.
            if contender not in SLOW_DOCUMENTS or not done:
                done.append(run(contender, folder))
    result: dict[str, Any] = {"corpus": name, "documents": documents, "rounds": rounds}
    result["text_bytes"] = weigh(folder)
    result["planned"] = plan(folder, documents)
    for contender, done in runs.items():
        spread = {key: [one[key] for one in done] for key in ("seconds", "session_seconds", "cpu_seconds")}
        spread["ratio_to_copy"] = divide(done, runs["copy"])
        engine = "memory" if contender == BRUTE else contender.partition("+")[0]
        if below := runs.get(engine) if contender.endswith(LAYERED) else None:
            spread["ratio_on_top"] = [
                one - other for one, other in zip(spread["ratio_to_copy"], divide(below, runs["copy"]), strict=True)
            ]
        measured = {
            key: dict(zip(("median", "min", "max"), (statistics.median(n), min(n), max(n)), strict=True))
            for key, n in spread.items()
        }
        largest = {key: max(one[key] for one in done) for key in ("jvm_bytes", "worker_bytes", "total_bytes")}
        seconds = measured["seconds"]["median"]
        result[contender] = {
            **{key: {part: round(value, 3) for part, value in parts.items()} for key, parts in measured.items()},
            "documents_per_second_per_core": round(documents / seconds / psutil.cpu_count()),
            "shuffle_bytes_per_document": round(done[-1]["shuffle_bytes"] / documents),
            **largest,
            **{key: done[-1][key] for key in FOUND if key in done[-1]},
        }
    return result


def weigh(folder: Path) -> int:
    """Return the bytes of all texts of a corpus."""
    files = list(find_parquet(folder).glob("*.parquet"))
    batches = chain.from_iterable(pq.ParquetFile(file).iter_batches(columns=["text"]) for file in files)
    return sum(pc.sum(pc.binary_length(batch["text"])).as_py() or 0 for batch in batches)


def find_parquet(folder: Path) -> Path:
    """Return the folder of the documents as parquet, where they are of another format too."""
    return folder / "parquet" if (folder / "parquet").exists() else folder / "documents"


def divide(runs: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the seconds of runs over those of others of the same round."""
    return [one["seconds"] / other["seconds"] for one, other in zip(runs, others, strict=False)]


def plan(folder: Path, documents: int) -> dict[str, float]:
    """Return what dedup plan says of a corpus; generated ones, whose families are small, take a larger sample."""
    sampled = PLANNED if (folder / "truth.parquet").exists() else PLANNED_REAL
    question = PlanQuestion(
        config=load_config(),
        sample=str(folder / "documents"),
        sample_documents=sampled,
        documents=documents,
        executors=1,
        cores=psutil.cpu_count(),
        efficiency=1.0,
        calibrate=True,
    )
    capacity = answer(question)["capacity"]
    return {
        "shuffle_bytes_per_document": round(capacity["shuffle_bytes"] / documents),
        "removed": round(capacity["removed"]),
        "cpu_seconds": round(capacity["core_hours"] * 3600, 1),
    }


def build(contender: str, folder: Path, target: Path) -> list[str]:
    """Return the command that runs a contender."""
    source = folder / "documents"
    if contender in PEERS and contender not in SPARK_PEERS:
        return [sys.executable, "-m", "tests.bench_peers", contender, str(source), str(target)]
    if contender == SUFFIXES:
        return [sys.executable, "-m", "tests.bench_suffixes", str(PEERS_FOLDER / SUFFIXES), str(source), str(target)]
    # Spark does not read JSONL.zst everywhere: a copy is that of the same rows.
    if contender == "pyarrow":
        return [sys.executable, "-m", "tests.bench_copy", str(find_parquet(folder)), str(target)]
    if contender in {"copy", "mllib", *SPARK_PEERS}:
        return [sys.executable, "-m", "tests.bench_jobs", contender, str(find_parquet(folder)), str(target)]
    program = ["-m", "tests.bench_brute"] if contender == BRUTE else ["jobs/deduplicate.py"]
    command = [sys.executable, *program, "--input", str(source), "--output", str(target)]
    engine = "memory" if contender.startswith("memory") or contender in {ALONE, BRUTE} else "spark"
    layer = contender.partition("+")[2]
    settings = [*[f"layers=['near', '{layer}']"] * bool(layer), *MARKED * (contender == ALONE)]
    settings += ["layers=['exact']"] * contender.endswith(EXACT)
    settings += ["driver.search_bytes=0"] * contender.startswith(("tasks", "graphframes"))
    settings += ["components.engine=graphframes"] * (contender == "graphframes")
    return [*command, "--id-column", "doc_id", "--engine", engine, *(f"--set={each}" for each in settings)]


def run(contender: str, folder: Path) -> dict[str, Any]:
    """Run one contender as a process and return what it took."""
    target = folder / f"out-{contender}"
    # A bench that was stopped has left what a run would go on with, or refuse.
    for left in (f"{target}", f"{target}.partial"):
        shutil.rmtree(left, ignore_errors=True)
    Path(f"{target}.lock").unlink(missing_ok=True)
    command = build(contender, folder, target)
    with tempfile.TemporaryDirectory() as log:
        logged = {"enabled": "true", "rolling.enabled": "false", "compress": "false", "dir": Path(log).as_uri()}
        arguments = " ".join(f"--conf spark.eventLog.{key}={value}" for key, value in logged.items())
        environment = {"PYSPARK_SUBMIT_ARGS": f"{arguments} pyspark-shell"}
        folders = [find_peer(contender)] if contender in PEERS else []
        spent = spend(command, environment, folders, SLOW_SECONDS if contender in SLOW_DOCUMENTS else 1e9)
        measured = {**spent, **read_log(Path(log))}
    if measured["finished"] and measured["returncode"]:
        raise SystemExit(f"bench: {' '.join(command)} ended with {measured['returncode']}")
    if measured["finished"]:
        measured |= judge(contender, folder, target)
    return measured


def to_table(result: Mapping[str, Any]) -> str:
    """Write one corpus as Markdown."""
    lines = [
        f"\n{result['corpus']}, {result['documents']:,} documents, {result['rounds']} rounds\n",
        (
            "| job | seconds (min to max) | in session | ratio to copy (min to max) | CPU seconds | docs/s/core "
            "| shuffle B/doc | JVM MB | worker MB | all MB | recall |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    shown = [name for name, one in result.items() if isinstance(one, dict) and "seconds" in one]
    for name in shown:
        one = result[name]
        seconds, ratio = one["seconds"], one["ratio_to_copy"]
        found = " / ".join(f"{one[key]:.4f}" for key in ("recall", "recall_hot") if key in one)
        lines.append(
            f"| {name}{'' if one.get('finished', True) else ' (stopped)'} "
            f"| {seconds['median']:.1f} ({seconds['min']:.1f} to {seconds['max']:.1f}) "
            f"| {one['session_seconds']['median']:.1f} "
            f"| {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) "
            f"| {one['cpu_seconds']['median']:.1f} "
            f"| {one['documents_per_second_per_core']:,} | {one['shuffle_bytes_per_document']:,} "
            f"| {one['jvm_bytes'] / 1e6:,.0f} | {one['worker_bytes'] / 1e6:,.0f} "
            f"| {one['total_bytes'] / 1e6:,.0f} | {found} |"
        )
    if any(name in result for name in PEERS):
        lines += ["", to_peers_table([result])]
    for name in shown:
        if "ratio_on_top" in result[name]:
            top = result[name]["ratio_on_top"]
            lines += ["", f"{name}: {top['median']:.2f} copies ({top['min']:.2f} to {top['max']:.2f}) on top of near"]
        if "repeated_tokens" in result[name]:
            lines += ["", f"{name}: {result[name]['repeated_tokens']:,} tokens repeated"]
        if "near_pairs" in result[name]:
            lines += ["", f"{name}: {result[name]['near_pairs']:,} pairs at or above the threshold"]
        stages = result[name].get("stages")
        if not stages:
            continue
        told = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in stages.items())
        lines += ["", f"{name}, stages in seconds: {told}"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
