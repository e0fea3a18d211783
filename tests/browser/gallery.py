"""The pictures of the README and of docs/gallery.md, and that page: python -m tests.browser.gallery.

Each is of a corpus that lies here or that the development environment brings along, so that all can be made again.
"""

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from dedup.cli import evaluate, plan, run
from dedup.display import CLEAR, share
from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.explain.show import Style, to_text
from dedup.kernels.curve import probability
from dedup.report.answers import SHOWN
from dedup.report.explorer import explore_run
from tests.browser.chromium import Chromium

ROOT = Path(__file__).resolve().parents[2]
PAGE, PICTURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
WIDTH = 800
COLOURS = 64
MOST_BYTES = 150_000
EXPLAINED = "docs/evaluating.md@84#3"
"""A document that others can read, removed for one that differs in two places."""
FEWER = (9, 13)
"""Bands and rows that the sentence of the explorer is about."""
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #1c1f24; }}
pre {{ margin: 0; padding: 16px; color: #e6e6e6; font: 14px/1.4 "DejaVu Sans Mono", monospace; width: max-content; }}
</style><pre>{}</pre>"""
STYLES = {"1": "font-weight: bold", "31": "color: #ff8a80", "32": "color: #7ee08a"}
"""Styles of the escapes that the command writes."""


class Chart(NamedTuple):
    """A chart of a page, and what it lets one say."""

    name: str
    title: str
    page: str
    """The page that has it: report, plan or evaluation."""
    element: str
    """CSS selector of what is shown of the page."""
    say: Callable[[Mapping[str, Any]], str]
    """The sentence, from the numbers of the page."""


def figure(name: str) -> str:
    """Return the selector of the figure of a plot."""
    return f"figure:has(#{name}-title)"


def say_dial(report: Mapping[str, Any]) -> str:
    removed = {point["threshold"]: point["removed"] for point in report["dial"]}
    return f"At a threshold of .9 this corpus would lose {removed[0.9]:,} documents instead of {removed[0.8]:,}."


def say_sources(report: Mapping[str, Any]) -> str:
    lost = {name: 1 - each["kept"] / each["documents"] for name, each in report["survival_by_source"].items()}
    most, least = (choose(lost, key=lost.__getitem__) for choose in (max, min))
    return f"`{most}` loses {share(lost[most])} of its documents, `{least}` only {share(lost[least])}."


def say_curve(report: Mapping[str, Any]) -> str:
    half = next(each["probability"] for each in report["recall_expected"] if each["jaccard"] == 0.5)
    at_threshold = share(report["recall_at_threshold"])
    return f"Of pairs that are .8 similar {at_threshold} are compared, and of those that are .5 similar {share(half)}."


def say_labels(report: Mapping[str, Any]) -> str:
    """The threshold parts the pairs that a run joins from those that it leaves."""
    threshold = report["settings"]["threshold"]
    above = [each for each in report["recall_measured"] if each["jaccard"] >= threshold]
    pairs, joined = (sum(each[name] for each in above) for name in ("pairs", "joined"))
    known, found = report["labeled_pairs"]["known"], report["recall_on_labeled_set"]
    return (
        f"Of {known:,} following versions of one text {share(found)} ended in one component, and of the {pairs:,} that "
        f"are .8 similar {share(joined / pairs)}: the threshold, not the search, leaves out the others."
    )


def say_explorer(report: Mapping[str, Any]) -> str:
    explorer = explore_run(report)
    assert explorer
    pairs = sum(pairs * probability(jaccard, *FEWER) for jaccard, pairs in explorer["pairs"])
    bands, rows = FEWER
    return (
        f"{bands} bands of {rows} rows would compare {pairs:,.0f} pairs instead of {report['pairs']['candidates']:,}, "
        f"and a pair at the threshold with a chance of {share(probability(explorer['threshold'], *FEWER))}."
    )


def say_agreement(report: Mapping[str, Any]) -> str:
    doubtful = report["doubtful"][0]
    whole = sum("0" not in band for band in doubtful["rows"])
    agreeing, all_rows = "".join(doubtful["rows"]).count("1"), sum(map(len, doubtful["rows"]))
    return (
        f"The signatures of the most doubtful removal agree in {agreeing} of {all_rows} rows and in {whole} whole "
        "bands, so the two never met in a bucket and are joined through others."
    )


def say_tokens(report: Mapping[str, Any]) -> str:
    ranks = report["token_ranks"]
    return (
        f"Removal does not bend the frequencies of tokens: their slope is {ranks['input']['slope']:.2f} before and "
        f"{ranks['kept']['slope']:.2f} after."
    )


def say_costs(answer: Mapping[str, Any]) -> str:
    cheapest = sorted(each["core_seconds"] for each in answer["choices"])[:SHOWN]
    dearest = cheapest[-1] / cheapest[0]
    return f"Of the {SHOWN} cheapest choices the dearest takes {dearest:.2f} times what the first takes."


def say_hours(answer: Mapping[str, Any]) -> str:
    costs = {each["name"]: each["core_hours"] for each in answer["capacity"]["stages"]}
    most = max(costs, key=costs.__getitem__)
    return (
        f"A billion such documents take {sum(costs.values()):,.0f} hours of a core, and the stage {most} takes "
        f"{share(costs[most] / sum(costs.values()))} of them."
    )


def say_recall(answer: Mapping[str, Any]) -> str:
    found = next(iter(answer["trials"].values()))["recall"]["candidates"]
    return (
        f"Of {found['of']:,} duplicates {share(found['share'])} were compared, and below the threshold pairs are found "
        "as rarely as the curve says."
    )


CHARTS = [
    Chart(
        "steps",
        "Documents after each step",
        "report",
        "[aria-label='Documents after each step']",
        lambda report: (
            f"Of {report['documents']:,} documents {report['kept']:,} stay: {report['identical']:,} were copies, and "
            f"{report['near']:,} nearly so."
        ),
    ),
    Chart(
        "removals",
        "Removals by similarity",
        "report",
        figure("removals"),
        lambda report: (
            f"{share(1 - report['chained_share'])} of the removed documents are themselves as similar to the one "
            "kept as the threshold asks, and the others are joined to it through documents between."
        ),
    ),
    Chart("agreement", "Rows and bands of a pair", "report", "details[open]", say_agreement),
    Chart("dial", "Another threshold", "report", figure("dial"), say_dial),
    Chart("sources", "Sources", "report", "[aria-label='Removal and survival by source']", say_sources),
    Chart(
        "pairs",
        "Pairs after each step",
        "report",
        "[aria-label^='Pairs of documents after each step']",
        lambda report: (
            f"{report['pairs']['candidates']:,} of {report['pairs']['all']:,} pairs were compared exactly, and "
            f"{report['pairs']['edges']:,} of these are similar enough."
        ),
    ),
    Chart("curve", "Chance to be compared", "report", figure("curve"), say_curve),
    Chart("explorer", "Other bands, rows and thresholds", "report", ".explorer", say_explorer),
    Chart(
        "labels",
        "Labelled pairs",
        "report",
        figure("labels"),
        say_labels,
    ),
    Chart(
        "similarities",
        "Pairs compared exactly",
        "report",
        figure("similarities"),
        lambda report: f"{share(report['verify_drop_rate'])} of the exact comparisons were in vain.",
    ),
    Chart(
        "buckets",
        "Sizes of buckets",
        "report",
        figure("buckets"),
        lambda report: (
            f"99 of 100 buckets have at most {report['bucket_size_p99']:,} documents, and none reaches the cap, so "
            "nothing was left out."
        ),
    ),
    Chart(
        "components",
        "Sizes of components",
        "report",
        figure("components"),
        lambda report: (
            f"{report['component_sizes'][2]:,} of {report['components']:,} components are pairs, and the largest "
            f"has {max(report['component_sizes'])} documents."
        ),
    ),
    Chart("tokens", "Ranks of tokens", "report", figure("tokens"), say_tokens),
    Chart(
        "stages",
        "Stages",
        "report",
        "[aria-label='Stages']",
        lambda _: "The stage with the longest bar is the one that more cores or fewer bands would shorten.",
    ),
    Chart(
        "choices",
        "Bands and rows that meet the targets",
        "plan",
        figure("curve"),
        lambda answer: (
            f"{len(answer['choices'])} choices find 99% at .8, and {answer['best']['bands']} bands of "
            f"{answer['best']['rows']} rows cost least."
        ),
    ),
    Chart("costs", "Costs of these choices", "plan", figure("costs"), say_costs),
    Chart("hours", "Hours of a run", "plan", figure("stages"), say_hours),
    Chart("recall", "Recall by similarity", "evaluation", figure("recall0"), say_recall),
]
HEADS = {
    "report": ("The report of a run", "`dedup run` writes `report.html` beside its result."),
    "plan": ("A plan", "`dedup plan --recall 0.99@0.8 --documents 1e9 --output DIR` writes `plan.html`."),
    "evaluation": ("An evaluation", "`dedup evaluate --exact --output DIR` writes `evaluation.html`."),
}


def main() -> None:
    """Make all pictures and the page."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pages = make_pages(folder)
        PAGE.write_text(write_page(read_numbers(pages)), "utf-8")
        browser = Chromium(folder / "profile")
        for chart in CHARTS:
            browser.open(pages[chart.page], width=WIDTH)
            take(browser, chart.name, chart.element)
        browser.open(pages["report"], width=WIDTH)
        # From the top to the first plot.
        take(browser, "report", "h1", last=figure("removals"))
        for name, screen in (("terminal", watch(folder)), ("explanation", explain_removal(pages["report"].parent))):
            (folder / f"{name}.html").write_text(TERMINAL.format(to_html(screen)), "utf-8")
            browser.open(folder / f"{name}.html", width=WIDTH)
            take(browser, name, "pre", margin=0)
        browser.close()


def make_pages(folder: Path) -> dict[str, Path]:
    """Run the job, a plan and an evaluation on the corpus of tests/data, and return their pages by name."""
    rows = pq.read_table(ROOT / "tests" / "data" / "history.parquet")
    ids = rows["doc_id"].to_pylist()
    sources = [name.partition("@")[0].rpartition("/")[0] or "pages" for name in ids]
    corpus, labels = "history.parquet", "labels.parquet"
    pq.write_table(rows.append_column("source", pa.array(sources)), folder / corpus)
    pairs = dict(zip(("left_id", "right_id"), zip(*pair_versions(ids), strict=True), strict=True))
    pq.write_table(pa.table(pairs), folder / labels)
    settings = ("--id-column", "doc_id", "--engine", "memory")
    labelled = ("--set", f"evaluation.labeled_pairs={labels}", "--set", "input.source_column=source")
    with contextlib.chdir(folder):
        call(run.main, "--input", corpus, "--output", "history", *settings, *labelled)
        answer = call(plan.main, "--recall", "0.99@0.8", "--documents", "1000000000", "--json", "--output", "plan")
        (folder / "plan" / "plan.json").write_text(answer, "utf-8")
        call(evaluate.main, "--input", corpus, "--exact", "--output", "evaluation", *settings)
    pages = {"report": "history/report.html", "plan": "plan/plan.html", "evaluation": "evaluation/evaluation.html"}
    return {name: folder / page for name, page in pages.items()}


def call(verb: Callable[[list[str]], int], *arguments: str) -> str:
    """Call a verb of the command, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert verb([*arguments]) == 0
    return printed.getvalue()


def pair_versions(ids: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each version of a section or definition with the one before: duplicates, as people would say."""
    versions = sorted(
        (path, int(place), int(commit), name) for name in ids for path, commit, place in [re.split("[@#]", name)]
    )
    for (*left, _, one), (*right, _, other) in pairwise(versions):
        if left == right:
            yield one, other


def read_numbers(pages: Mapping[str, Path]) -> dict[str, Any]:
    """Return the numbers of each page; sizes are strings in JSON, and are numbers again."""
    numbers = {name: json.loads(page.with_suffix(".json").read_text("utf-8")) for name, page in pages.items()}
    sizes = numbers["report"]["component_sizes"]
    numbers["report"]["component_sizes"] = {int(size): count for size, count in sizes.items()}
    return numbers


def write_page(numbers: Mapping[str, Any]) -> str:
    """Return docs/gallery.md."""
    lines = [
        "# Gallery",
        "",
        "Each chart of the pages that `dedup` writes, with the sentence that it lets one say. The corpus is the past",
        "of this repository, [its sections and definitions in each version](../tests/data/README.md), half of which",
        "resemble another. `scripts/gallery` makes the pictures and this page.",
    ]
    for page, (head, written) in HEADS.items():
        lines += ["", f"## {head}", "", written]
        for chart in CHARTS:
            if chart.page == page:
                picture = f'<img src="gallery/{chart.name}.png" width="560" alt="{chart.title}">'
                lines += ["", f"### {chart.title}", "", chart.say(numbers[page]), "", picture]
    return "\n".join(lines) + "\n"


def take(browser: Chromium, name: str, element: str, *, last: str = "", margin: int = 12) -> None:
    """Write the picture of an element, down to the last one where that is given."""
    browser.screenshot(PICTURES / f"{name}.png", element=element, last=last, margin=margin)
    with Image.open(PICTURES / f"{name}.png") as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(PICTURES / f"{name}.png", optimize=True)


def watch(folder: Path) -> str:
    """Return what a terminal shows in the middle of the demo."""
    far, near = pty.openpty()
    command = [ROOT / "scripts" / "demo", folder / "demo"]
    with subprocess.Popen(command, cwd=ROOT, stdout=near, stderr=near) as demo:
        os.close(near)
        said = b"".join(read_all(far))
        assert demo.wait() == 0, said
    screens = [f"\x1b[1m$ scripts/demo\x1b[0m\n{screen}" for screen in list_screens(said.decode())]
    told = {screen: re.search(r"(\d+)%, about [^\n]* left$", screen) for screen in screens}
    return min((screen for screen in told if told[screen]), key=lambda screen: abs(int(told[screen][1]) - 50))


def read_all(far: int) -> Iterator[bytes]:
    """Yield what is written to the other end of a terminal until that is closed."""
    # On Linux the end is an error.
    with contextlib.suppress(OSError):
        while part := os.read(far, 1 << 16):
            yield part
    os.close(far)


def list_screens(said: str) -> Iterator[str]:
    """Yield what the terminal shows each time before the line of progress is cleared."""
    shown = ""
    for piece in said.replace("\r\n", "\n").split(CLEAR):
        shown = shown[: shown.rfind("\n") + 1] + piece
        yield shown


def explain_removal(output: Path) -> str:
    """Return what a terminal shows of an explanation."""
    command = f"\x1b[1m$ dedup explain {output.name} --id {EXPLAINED}\x1b[0m"
    return f"{command}\n{to_text(explain(PublishedOutput(str(output)), EXPLAINED), Style(colour=True))}"


def to_html(screen: str) -> str:
    """Return text with a terminal's escapes as HTML."""
    parts, is_open = [], False
    for number, part in enumerate(re.split(r"\x1b\[(\d+)m", screen)):
        if number % 2 == 0:
            parts.append(escape(part))
            continue
        parts.append("</span>" if is_open else "")
        is_open = part in STYLES
        parts.append(f'<span style="{STYLES[part]}">' if is_open else "")
    return "".join(parts)


if __name__ == "__main__":
    main()
