"""Identity and end of a run, the same on every engine."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from dedup.files.storage import OutputStorage, find_result
from dedup.informing import PLOTS, Inform
from dedup.report.alerts import refuse
from dedup.report.baseline import parse_baseline
from dedup.report.build import Outcome, build_report, hide_passwords, to_json
from dedup.report.metrics import to_metrics
from dedup.report.page import to_html
from dedup.report.summary import Drawing, draw_rest
from dedup.run.job import Job
from dedup.run.layers import list_references
from dedup.run.workspace import Workspace
from dedup.settings.files import flatten, to_dict, to_toml
from dedup.settings.hashspec import HashSpec
from dedup.version import __version__

KEY_FILE, TOKENIZER_FILE = "hash.key_file", "shingles.tokenizer_file"
"""Setting that may change between tries, since the file's content is part of the identity."""


def read_baseline(storage: OutputStorage, path: str | None) -> dict[str, Any] | None:
    """Return the report of an earlier run from its output; None without one.

    Raises
    ------
    StorageError
        When there is none.
    """
    if path is None:
        return None
    file = f"{find_result(storage, path)}/report.json"
    try:
        content = storage.read_text(file) if storage.exists(file) else None
    except UnicodeDecodeError:
        content = None
    return parse_baseline(path, content)


def identify(job: Job, specs: Sequence[HashSpec], fingerprint: str) -> Mapping[str, Any]:
    """Return the keys by which an unfinished run is recognised and resumed."""
    # What only judges the result may change in between.
    settings = {
        f"setting {name}": value
        for name, value in flatten(to_dict(job.config)).items()
        if name not in (KEY_FILE, TOKENIZER_FILE) and not name.startswith(("alerts.", "lineage."))
    }
    spec = specs[-1]
    hashed = {"hash version": spec.version, "hash key": spec.key, "unicode": spec.unicode}
    hashed |= {"hash basis": [each.basis for each in specs]} if any(each.basis for each in specs) else {}
    others = {f"{each.setting} {each.name}": each.list_files().fingerprint for each in list_references(job.config)}
    return {"version": __version__, **hashed, **settings, **others, "input": fingerprint}


def conclude(
    job: Job,
    workspace: Workspace,
    outcome: Outcome,
    drawn: Drawing,
    *,
    inform: Inform,
    plotting: Executor,
    first: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Build the report and publish the result with it.

    Parameters
    ----------
    drawn
        Plots that need not be drawn again.
    inform
        Runs steps that only inform, here and before.
    plotting
        Executor that draws the other plots.
    first
        Called when nothing but the publication is left to do.

    Raises
    ------
    AlertError
        When a limit is passed that is to fail the job; the report is kept and nothing published.
    """
    config = job.config
    report = build_report(
        config=config,
        inputs=[config.input.table] if config.input.table else [*job.inputs] or ["DataFrame"],
        output=job.output,
        outcome=outcome,
        preset=job.preset,
        inform=inform,
    )
    fails = bool(report["alerts"]) and config.alerts.on_breach == "fail"

    drawn = inform(PLOTS, lambda: plotting.submit(draw_rest, report, drawn).result()) or drawn
    inform.left_out.update(drawn.left_out)
    metrics = inform("metrics.prom", to_metrics, report, None if fails else time.time())
    page = inform("report.html", to_html, report, drawn.plots)
    # The last of these to be made tells all that was left out.
    made = {
        "report.json": to_json(report),
        "report.html": page,
        "metrics.prom": metrics,
        "dedup.toml": to_toml(hide_passwords(config)),
    }
    files = {name: content for name, content in made.items() if content is not None}
    if fails:
        raise refuse(report["alerts"], workspace.keep_report(files))
    if first is not None:
        first()
    workspace.publish(files)
    return report
