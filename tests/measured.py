"""Render the tables of README and docs from docs/measured.json, after repeating measurements if asked to.

scripts/measured [--repeat NAME ...] [--data FOLDER] [--bench FILE]
"""

import argparse
import json
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench_cost import PRICE, to_cost_table, to_peers_table, weigh_paid
from tests.bench_growing import to_growing_table
from tests.bench_peers import PEERS
from tests.experiments import adverts, estimates, probes, simhash, skew, widths
from tests.machine import describe_machine, describe_run

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "docs" / "measured.json"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- measured: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)
NAMES = {"tldr_pages": "tldr-pages", "license_rules": "licence rules", "powershell_docs": "PowerShell-Docs"}
"""Corpora by their files."""
CONTENDERS = {
    "spark": "",
    "tasks": ", searched by tasks",
    "graphframes": ", searched by tasks and GraphFrames",
    "mllib": ", Spark MLlib instead",
}
EXPERIMENTS: Mapping[str, Callable[[], Any]] = {
    "estimates": estimates.measure,
    "skew": skew.measure,
    "probes": probes.measure,
    "adverts": adverts.measure,
}
ON_DATA: Mapping[str, Callable[[str], Any]] = {"widths": widths.measure, "simhash": simhash.measure}
"""Experiments that also read the corpora of a folder."""
PRICED = {
    "memory": "dedup, in memory",
    "spark": "dedup, on Spark, whose driver searches",
    "tasks": "dedup, on Spark, whose tasks search",
}
"""Contenders in the table of costs."""


def main() -> None:
    """Repeat what is asked for, then render every page."""
    cli = argparse.ArgumentParser(prog="measured", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = ["bench", "example", *EXPERIMENTS, *ON_DATA]
    cli.add_argument("--repeat", nargs="*", default=[], choices=names, help="measure these again")
    cli.add_argument("--data", default="", help="folder of parquet files to read as well")
    cli.add_argument("--bench", type=Path, help="what scripts/bench has written, to be recorded")
    options = cli.parse_args()
    measured = json.loads(MEASURED.read_text("utf-8"))
    if "example" in options.repeat:
        repeat_example(measured["example"])
    tried = {name: (work, "") for name, work in EXPERIMENTS.items()}
    tried |= {name: (partial(work, options.data), " --data DATA") for name, work in ON_DATA.items()}
    for name in filter(options.repeat.__contains__, tried):
        work, more = tried[name]
        measured[name] = {
            **describe_run(),
            "machine": describe_machine(),
            "command": f"scripts/measured --repeat {name}{more}",
        }
        measured[name]["found"] = work()
    if "estimates" in options.repeat:
        estimates.draw_figure(measured["estimates"]["found"], ROOT / "docs" / "internals" / "estimates.png")
    if "bench" in options.repeat:
        options.bench = repeat_bench(measured["bench"]["command"], options.data)
    if options.bench:
        run = json.loads(options.bench.read_text("utf-8"))
        growing = run.pop("growing", [])
        if run["corpora"]:
            record(measured["bench"]["runs"], run)
        if growing:
            record_growing(measured.setdefault("growing", []), {**run, "corpora": growing})
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
    for page in PAGES:
        page.write_text(render(page.read_text("utf-8"), measured), "utf-8")


def repeat_example(example: dict[str, Any]) -> None:
    """Run the first command of the README, a second time for what is loaded only once, and note what it prints."""
    command = shlex.split(example["command"])
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(2):
            target = Path(scratch) / str(number) / command[-1]
            target.parent.mkdir()
            done = subprocess.run([*command[:-1], str(target)], cwd=ROOT, capture_output=True, text=True, check=True)
    printed = done.stdout.replace(f"{target.parent}/", "").rstrip("\n").split("\n")
    example.update(describe_run() | {"machine": describe_machine(), "printed": printed})


def repeat_bench(command: str, data: str) -> Path:
    """Run the bench and return the file that it writes."""
    output = ROOT / "bench.json"
    if not data:
        command = command.replace(" --data DATA", "")
    arguments = shlex.split(command.replace("DATA", shlex.quote(data)).replace("BENCH", str(output)))
    subprocess.run(arguments, cwd=ROOT, check=True)
    return output


def record(runs: list[dict[str, Any]], run: dict[str, Any]) -> None:
    """Add a run of the bench; what it measured is taken out of earlier ones."""
    again = {_key(entry): set(entry) for entry in run["corpora"]}
    for earlier in runs:
        for entry in earlier["corpora"]:
            kept = {"corpus", "documents", "text_bytes", "rounds", "copy"}
            # Libraries of others stand beside the job of their own run.
            kept |= {"memory"} if entry.keys() & PEERS.keys() else set()
            for contender in again.get(_key(entry), set()) - kept:
                entry.pop(contender, None)
        kept = {*CONTENDERS, *PEERS, "memory", "planned"}
        earlier["corpora"] = [each for each in earlier["corpora"] if each.keys() & kept]
    runs[:] = [*(each for each in runs if each["corpora"]), run]


def record_growing(runs: list[dict[str, Any]], run: dict[str, Any]) -> None:
    """Add a run of the bench over growing corpora, in place of an earlier one of the same command."""
    runs[:] = [*(each for each in runs if each["command"] != run["command"]), run]


def _key(entry: Mapping[str, Any]) -> tuple[str, int]:
    return entry["corpus"], entry["documents"]


def render(page: str, measured: Mapping[str, Any]) -> str:
    """Return a page with its blocks as they follow from what was measured."""
    return BLOCK.sub(lambda block: f"{block[1]}{RENDERERS[block[2]](measured)}\n{block[3]}", page)


def render_bench(measured: Mapping[str, Any]) -> str:
    """Write a row for each corpus and contender, and the runs that they are from."""
    runs = measured["bench"]["runs"]
    lines = [
        (
            "| corpus | documents | copy | in memory | on Spark (min to max) | processor | times the copy "
            "| shuffled B/document | JVM, worker | recall | commit |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    rows = [
        (_place(entry), run["commit"], entry, name) for run in runs for entry in run["corpora"] for name in CONTENDERS
    ]
    order = [*CONTENDERS]
    rows.sort(key=lambda row: (row[0], order.index(row[3])))
    shown = [row for row in rows if "seconds" in row[2].get(row[3], {})]
    lines += [_bench_row(commit, entry, name) for _, commit, entry, name in shown]
    commits = {commit for _, commit, *_ in shown}
    lines += ["", *[_tell_run(run) for run in runs if run["commit"] in commits]]
    return "\n".join(lines)


def _place(entry: Mapping[str, Any]) -> tuple[int, str, int]:
    order = ["plain", "long", "skewed"]
    corpus = entry["corpus"]
    return (order.index(corpus) if corpus in order else len(order)), corpus, entry["documents"]


def _bench_row(commit: str, entry: Mapping[str, Any], name: str) -> str:
    one, memory = entry[name], entry.get("memory")
    seconds = one["seconds"]
    spread = f" ({seconds['min']:.1f} to {seconds['max']:.1f})" if seconds["min"] < seconds["max"] else ""
    took = f"{seconds['median']:.1f} s{spread}" if one.get("finished", True) else f"over {seconds['median']:.0f} s"
    recall = f"{one['recall']:.4f}" if "recall" in one else ""
    if "recall_hot" in one:
        recall += f", {one['recall_hot']:.4f} in the ten templates"
    cells = [
        NAMES.get(entry["corpus"], entry["corpus"]) + CONTENDERS[name],
        f"{entry['documents']:,}",
        f"{entry['copy']['seconds']['median']:.1f} s" if "copy" in entry else "",
        f"{memory['seconds']['median']:.1f} s" if memory and name == _first(entry) else "",
        took,
        # Before texts were weighed, seconds of processes that had ended were not all counted.
        f"{one['cpu_seconds']['median']:.1f} s" if "text_bytes" in entry else "",
        f"{one['ratio_to_copy']['median']:.1f}" if "ratio_to_copy" in one else "",
        f"{one['shuffle_bytes_per_document']:,}" if "shuffle_bytes_per_document" in one else "",
        f"{one['jvm_bytes'] / 1e9:.1f} GB, {one['worker_bytes'] / 1e9:.1f} GB" if "jvm_bytes" in one else "",
        recall,
        commit,
    ]
    return f"| {' | '.join(cells)} |"


def _first(entry: Mapping[str, Any]) -> str:
    """Return the contender in whose row the memory engine is told of."""
    return next(name for name in CONTENDERS if name in entry)


def _tell_run(run: Mapping[str, Any]) -> str:
    machine = run["machine"]
    releases = ", ".join(f"{name} {machine[name]}" for name in machine if name not in {"cores", "memory_bytes"})
    size = f"{machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, {releases}"
    return f"- {run['commit']}, {run['date']}, {size}: `{run['command']}`"


def render_headline(measured: Mapping[str, Any]) -> str:
    """Write what a newcomer wants to know of the bench in a sentence or two."""
    [run, entry] = _latest(measured, "plain", 1_000_000, "spark", "seconds")
    seconds, copy = entry["spark"]["seconds"]["median"], entry["copy"]["seconds"]["median"]
    told = (
        f"A million generated documents of 1.5 kB take {seconds:.0f} s on Spark with {run['machine']['cores']} cores "
        f"and a driver that has the memory to search, where copying the files takes {copy:.0f} s; recall is "
        f"{entry['spark']['recall']:.4f}"
    )
    if "memory" in entry:
        told += f". In memory they take {entry['memory']['seconds']['median']:.0f} s"
    return f"{told} ({run['date']}, commit {run['commit']})."


def render_stages(measured: Mapping[str, Any]) -> str:
    """Write where the seconds of a million documents go, and what a document costs by the size of its corpus."""
    run, entry = _latest(measured, "plain", 1_000_000, "spark", "stages")
    stages = sorted(entry["spark"]["stages"].items(), key=lambda stage: -stage[1])
    told = ", ".join(f"{name} {seconds:.0f}" for name, seconds in stages if seconds >= 1)
    costs = []
    for documents in (1_000_000, 4_000_000):
        for of, found in _find(measured, "plain", documents, "tasks", "session_seconds"):
            if of == run:
                costs.append(f"{found['tasks']['session_seconds']['median'] / documents * 1e6:.0f} at {documents:,}")
    return (
        f"Of {entry['spark']['seconds']['median']:.0f} s for a million plain documents, by stage: {told}. Searched by "
        "tasks a document costs less the more there are; in microseconds of a session: "
        f"{', '.join(costs)}."
    )


def render_speed(measured: Mapping[str, Any]) -> str:
    """Write documents a second and core, and what that makes of a billion."""
    run, entry = _latest(measured, "plain", 1_000_000, "tasks", "seconds")
    speed = 1_000_000 / entry["tasks"]["seconds"]["median"] / run["machine"]["cores"]
    return (
        f"A core does some {round(speed, -2):,.0f} documents a second on a million of them; a billion documents on 400 "
        f"cores is {1e9 / 400 / speed / 60:.0f} minutes by that rate."
    )


def render_cost(measured: Mapping[str, Any]) -> str:
    """Write what a TB of text costs, here and as others have published."""
    run, entry = _latest(measured, "plain", 1_000_000, "pyarrow", "seconds")
    cores, published = run["machine"]["cores"], measured["published"]
    lines = [
        f"| | text | removals verified | cores | core-hours a TB | dollars a TB at {PRICE:.2f} a core-hour |",
        "|---|---|---|---|---|---|",
    ]
    text = f"generated, {entry['documents']:,} documents of {entry['text_bytes'] / entry['documents'] / 1e3:.1f} kB"
    rows = [
        (named, text, "each, exactly", cores, weigh_paid(entry, name, cores))
        for name, named in PRICED.items()
        if name in entry
    ]
    for each in published["runs"]:
        hours = sum(count * took for count, took in each["machines"]) / each["terabytes"]
        named = f"[{each['run']}]({each['source']})"
        rows.append((named, each["text"], each["verified"], max(count for count, _ in each["machines"]), hours))
    for name, corpus, verified, count, hours in rows:
        lines.append(f"| {name} | {corpus} | {verified} | {count:,} | {hours:,.0f} | {hours * PRICE:,.2f} |")
    return "\n".join([*lines, "", f"{published['note']} {_tell_run(run).removeprefix('- ')}"])


def render_margin(measured: Mapping[str, Any]) -> str:
    """Write what a document more costs, from two sizes of a corpus in one run."""
    run, _ = _latest(measured, "plain", 1_000_000, "pyarrow", "seconds")
    small, *_, large = (entry for entry in run["corpora"] if entry["corpus"] == "plain")
    return f"{to_cost_table(small, large)}\n\n{_tell_run(run)}"


def render_peers(measured: Mapping[str, Any]) -> str:
    """Write what libraries of others took and found, what could not be installed, and the run."""
    run = next(run for run in reversed(measured["bench"]["runs"]) if any("gaoya" in one for one in run["corpora"]))
    failed = [f"{PEERS[name]} could not be installed: {error}" for name, error in run.get("failed", {}).items()]
    return "\n\n".join([to_peers_table(run["corpora"]), *failed, _tell_run(run)])


def render_growing(measured: Mapping[str, Any]) -> str:
    """Write what corpora and their batches took, and the runs that this is from."""
    runs = measured["growing"]
    tables = [to_growing_table(entry) for run in runs for entry in run["corpora"]]
    return "\n\n".join([*tables, "\n".join(_tell_run(run) for run in runs)])


def _find(
    measured: Mapping[str, Any], corpus: str, documents: int, contender: str, key: str
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for run in measured["bench"]["runs"]:
        for entry in run["corpora"]:
            if _key(entry) == (corpus, documents) and key in entry.get(contender, {}):
                yield run, entry


def _latest(
    measured: Mapping[str, Any], corpus: str, documents: int, contender: str, key: str
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return list(_find(measured, corpus, documents, contender, key))[-1]


def render_planned(measured: Mapping[str, Any]) -> str:
    """Write what dedup plan says of a corpus beside what the bench measured."""
    lines = [
        (
            "| corpus | documents | shuffled B, planned | measured | removed, planned | measured | core-hours, planned "
            "| measured |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    keys = {(_place(entry), _key(entry)) for run in measured["bench"]["runs"] for entry in run["corpora"]}
    for _, (corpus, documents) in sorted(keys):
        found = [*_find(measured, corpus, documents, "planned", "removed")]
        # What a driver searches is not shuffled.
        if found and any(_find(measured, corpus, documents, "tasks", "removed")):
            planned = found[-1][1]["planned"]
            shuffled, removed = (
                _latest(measured, corpus, documents, "tasks", name)[1]["tasks"][name]
                for name in ("shuffle_bytes_per_document", "removed")
            )
            cells = planned["shuffle_bytes_per_document"], shuffled, planned["removed"], removed
            hours = find_core_hours(measured, corpus, documents)
            told = " | ".join([*(f"{each:,}" for each in (documents, *cells)), *(f"{each:.3f}" for each in hours)])
            told += " | | " * (not hours)
            lines.append(f"| {NAMES.get(corpus, corpus)} | {told} |")
    return "\n".join(lines)


def find_core_hours(measured: Mapping[str, Any], corpus: str, documents: int) -> list[float]:
    """Return the core-hours of a job by tasks, as planned and as measured in the same run; none before these were."""
    found = [entry for _, entry in _find(measured, corpus, documents, "planned", "cpu_seconds") if "tasks" in entry]
    seconds = [(each["planned"]["cpu_seconds"], each["tasks"]["cpu_seconds"]["median"]) for each in found]
    return [each / 3600 for each in seconds[-1]] if seconds else []


def render_experiment(name: str, to_table: Callable[[Any], str], measured: Mapping[str, Any]) -> str:
    """Write a table of an experiment, and the run that it is from."""
    return f"{to_table(measured[name]['found'])}\n\n{_tell_run(measured[name])}"


def render_example(measured: Mapping[str, Any]) -> str:
    """Write a command and what it printed."""
    example = measured["example"]
    return "\n".join(["```console", f"$ {example['command']}", *example["printed"], "```"])


def render_others(measured: Mapping[str, Any]) -> str:
    """Write what other tools find in the same corpora."""
    others = measured["others"]
    lines = [f"| tool | {' | '.join(others['corpora'])} |", f"|{'---|' * (1 + len(others['corpora']))}"]
    for each in others["tools"]:
        cells = ["stopped after 300 s" if one is None else _tell_verdict(*one) for one in each["found"]]
        lines.append(f"| {each['tool']} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{others['date']}, commit {others['commit']}: {others['command']}."])


def _tell_verdict(recall: float, alone: int, bereft: int) -> str:
    return f"{recall:.3f} / {alone:,} / {bereft:,}"


RENDERERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "adverts": partial(render_experiment, "adverts", adverts.to_table),
    "bench": render_bench,
    "cost": render_cost,
    "estimates": partial(render_experiment, "estimates", estimates.to_table),
    "example": render_example,
    "growing": render_growing,
    "headline": render_headline,
    "kinds": partial(render_experiment, "estimates", estimates.to_kinds_table),
    "margin": render_margin,
    "others": render_others,
    "peers": render_peers,
    "planned": render_planned,
    "probes": partial(render_experiment, "probes", probes.to_table),
    "simhash": partial(render_experiment, "simhash", simhash.to_table),
    "skew": partial(render_experiment, "skew", skew.to_table),
    "speed": render_speed,
    "stages": render_stages,
    "whole": partial(render_experiment, "estimates", estimates.to_whole_table),
    "widths": partial(render_experiment, "widths", widths.to_table),
}


if __name__ == "__main__":
    main()
