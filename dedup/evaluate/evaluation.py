"""How well settings find the duplicates of a corpus: held against labels, an exact search, or planted copies.

Everything is measured on a sample (see `sample`), at settings that share its signatures (see `kernels.trial`).
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dedup import __version__
from dedup.display import printable
from dedup.errors import ConfigError, DataError, StorageError
from dedup.evaluate.corpus import Corpus, FileCorpus, Labelled
from dedup.evaluate.judgement import Trial, compare, find_alike, find_truth, judge
from dedup.evaluate.sample import NEIGHBOURS, Sample, assemble, bring_along, plant
from dedup.files.storage import Storage
from dedup.kernels import trial
from dedup.kernels.representatives import elect
from dedup.run.job import Job
from dedup.run.lock import TextStorage
from dedup.run.reach import find_obstacle
from dedup.settings.files import flatten, to_dict
from dedup.settings.options import Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLOOR = 0.5
"""Least similarity that the exact search looks for, unless a threshold is lower."""
FREE = ("threshold", "lsh.bands", "lsh.rows", "lsh.recall", "buckets.max_bucket", "candidates.estimate_sigmas")
"""Settings in which two that share signatures may differ."""
IDLE = ("components.", "output.", "evaluation.", "alerts.")
"""Settings that decide nothing here."""
NAMES = ("first", "second")
"""What the answer calls the settings."""
SHOWN = 10
"""Missed pairs and examples in the printed table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be evaluated; labelled pairs are the truth, or planted copies, or without both an exact search."""

    inputs: Sequence[str]
    config: Config
    other: Config | None = None
    """A second setting to compare with."""
    pairs: str = ""
    """File of labelled pairs."""
    planted: int = 0
    """Copies to plant."""
    sample: int = 10_000
    """Documents to draw where no labels say which."""
    output: str = ""
    """Folder for evaluation.json; empty for none."""
    overwrite: bool = False


def evaluate(spark: "SparkSession | None", question: Question) -> dict[str, Any]:
    """Answer a question about settings and a corpus, with Spark if there is a session.

    Returns
    -------
    dict
        What evaluation.json holds.

    Raises
    ------
    DedupError
        When the settings cannot be compared, or the input, the labels or the output do not allow it.
    """
    check_comparable(question.config, question.other)
    if spark is not None:
        from dedup.evaluate.onspark import evaluate_on_spark  # noqa: PLC0415 - what needs no Spark starts without it

        return evaluate_on_spark(spark, question)
    storage = Storage()
    target = check_target(storage, question)
    return answer(FileCorpus.open(question.inputs, question.config), storage, question, target)


def needs_spark(question: Question) -> bool:
    """Tell whether Spark is to read the corpus: under spark-submit, where it is asked for, and where only it can."""
    config = question.config
    if "PYSPARK_GATEWAY_PORT" in os.environ or config.engine == "spark" or config.input.is_table:
        return True
    inputs = [*question.inputs, *filter(None, [question.pairs])]
    job = Job(inputs=inputs, output=question.output or ".", config=config)
    return config.engine == "auto" and bool(find_obstacle(job))


def check_comparable(config: Config, other: Config | None) -> None:
    """Make sure that one set of signatures serves both settings.

    Raises
    ------
    ConfigError
        Names the setting that does not allow it.
    """
    if config.mode != "lsh":
        raise ConfigError('--set: mode must be "lsh" to be evaluated (got "exact", which is what it is held against)')
    if other is None:
        return
    one, two = flatten(to_dict(config.settle())), flatten(to_dict(other.settle()))
    differing = [name for name in one if one[name] != two[name]]
    for name in differing:
        if not name.startswith((*FREE, *IDLE)):
            raise ConfigError(
                f"--against: {name} must be that of the first setting, whose signatures the second shares "
                f"(got {one[name]!r} and {two[name]!r}); evaluate each by itself"
            )
    if not any(name.startswith(FREE) for name in differing):
        raise ConfigError(f"--against: one of {', '.join(FREE)} must differ between the settings (none does)")


def check_target(storage: TextStorage, question: Question) -> str:
    """Return the path of evaluation.json, empty for none.

    Raises
    ------
    StorageError
        When it exists and is not to be replaced.
    """
    if not question.output:
        return ""
    target = f"{question.output.rstrip('/')}/evaluation.json"
    if storage.exists(target) and not question.overwrite:
        raise StorageError(f"--output {target}: must not exist yet (it does); pass --overwrite to replace it")
    return target


def answer(corpus: Corpus, storage: TextStorage, question: Question, target: str) -> dict[str, Any]:
    """Answer a question about a corpus, and write the answer to the target unless that is empty."""
    found = _answer(corpus, question)
    if target:
        storage.write_text(target, json.dumps(found, indent=1) + "\n")
    return found


def _answer(corpus: Corpus, question: Question) -> dict[str, Any]:
    begin = time.monotonic()
    config = question.config
    configs = [config] if question.other is None else [config, question.other]
    settings = [_choose(each) for each in configs]
    size = max(setting.size for setting in settings)
    floor = min(FLOOR, *(setting.threshold for setting in settings))
    labels, given = _read_labels(corpus, question.pairs) if question.pairs else (None, 0)
    if labels is None:
        drawn = corpus.draw(question.sample)
    else:
        drawn = corpus.fetch(np.concatenate([labels[side].to_numpy() for side in ("left_id", "right_id")]))
    if not drawn.num_rows:
        raise DataError("--input: must hold at least one document (it has none)")
    seeds = assemble(drawn, config, size)
    sample, counts = bring_along(corpus, seeds, settings=settings, floor=floor)
    alike_count = sample.doc_ids.size - seeds.doc_ids.size
    if question.planted:
        sample = plant(sample, question.planted)
    alike = find_alike(sample, floor)
    truth = find_truth(sample, alike, labels)
    tried = [_try(sample, *each) for each in zip(configs, settings, strict=True)]
    jaccard = truth.pairs.jaccard
    return {
        "truth": "labelled pairs" if question.pairs else "planted copies" if question.planted else "exact search",
        "documents": counts["documents"],
        "drawn": int(seeds.doc_ids.size),
        "alike": int(alike_count),
        "planted": question.planted,
        "pairs": int(jaccard.size),
        "pairs_identical": int(np.count_nonzero(jaccard == 1)),
        "families": int(np.unique(truth.families).size),
        "pairs_unknown": given - jaccard.size if question.pairs else 0,
        "floor": floor,
        "neighbours": NEIGHBOURS,
        "signature_values": size,
        "trials": {
            name: {
                "settings": {
                    key: value for key, value in flatten(to_dict(each.config.settle())).items() if key.startswith(FREE)
                },
                "as_in_a_run": each.setting.size == size,
                **judge(sample, truth, alike, each),
                "cost": _weigh(each, counts, number, None if question.pairs else int(seeds.doc_ids.size)),
            }
            for number, (name, each) in enumerate(zip(NAMES, tried, strict=False))
        },
        "sides": compare(sample, *tried) if question.other else None,
        "seconds": round(time.monotonic() - begin, 3),
        "version": __version__,
    }


def _choose(config: Config) -> trial.Setting:
    return trial.Setting(
        threshold=config.threshold,
        bands=config.banding.bands,
        rows=config.banding.rows,
        max_bucket=config.buckets.max_bucket,
        estimate_sigmas=config.candidates.estimate_sigmas,
    )


def _read_labels(corpus: Corpus, path: str) -> Labelled:
    """Return the labelled pairs of which the corpus has both documents."""
    labels = corpus.read_labels(path)
    if not labels.pairs.num_rows:
        raise DataError(
            f"--pairs {path}: must hold pairs of the input (got {labels.given:,}, of none both documents are in it)"
        )
    return labels


def _try(sample: Sample, config: Config, setting: trial.Setting) -> Trial:
    """Search at one setting, twice, since the first search also pays for what is loaded when it is first called."""
    prepared = trial.Documents(sample.doc_ids, *sample.sets, sample.heads, sample.signatures)
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        found = trial.search(prepared, setting)
        seconds.append(time.perf_counter() - begin)
    representatives = elect(found.components, sample.rank())
    return Trial(config=config, setting=setting, found=found, seconds=min(seconds), representatives=representatives)


def _weigh(tried: Trial, counts: Mapping[str, int], number: int, drawn: int | None) -> dict[str, Any]:
    """Return what a setting costs.

    Of the pairs in the corpus each has two documents, so documents drawn meet twice as many as there are for each.

    Parameters
    ----------
    drawn
        Documents drawn; None where they do not stand for the corpus.
    """
    paired, compared = (
        counts.get(f"{name} {number}", 0) / 2 / drawn if drawn else None for name in ("paired", "compared")
    )
    return {
        "pairs_per_document": paired,
        "candidates_per_document": compared,
        "sample_pairs_in_buckets": tried.found.pairs_in_buckets,
        "sample_pairs_distinct": int(tried.found.paired.size),
        "sample_candidates": int(tried.found.compared.size),
        "sample_edges": int(tried.found.edges.size),
        "sample_seconds": round(tried.seconds, 3),
        "stored_bytes_per_document": 8 * tried.setting.bands + tried.setting.size,
        "shuffled_bytes_per_document": 16 * tried.setting.bands,
    }


def to_table(answer: Mapping[str, Any]) -> str:
    """Write an answer as plain text; control characters of the corpus are escaped."""
    trials = answer["trials"]
    planted = f", {answer['planted']:,} copies planted" if answer["planted"] else ""
    drawn = (
        f"{answer['drawn']:,} of {answer['documents']:,} drawn, {answer['alike']:,} that resemble them brought along"
    )
    lines = [
        f"truth        {answer['truth']}",
        f"documents    {drawn}{planted}",
        f"pairs        {answer['pairs']:,} in {answer['families']:,} families, {answer['pairs_identical']:,} identical",
    ]
    if answer["pairs_unknown"]:
        lines.append(f"left out     {answer['pairs_unknown']:,} labelled pairs of documents that the input lacks")
    lines += [
        f"signatures   {answer['signature_values']} values, {_name(each)} takes {_size(each)}; its run has others"
        for each in trials.values()
        if not each["as_in_a_run"]
    ]
    if answer["drawn"] < answer["documents"]:
        lines.append("caution      buckets of a sample are smaller: what their cap costs is in the report of a run")
    lines += ["", _columns("", "", *(_name(each) for each in trials.values()))]
    found = (_number(each["recall"]["edges"]["of"]) for each in trials.values())
    lines.append(_columns("duplicates", "among the pairs", *found))
    for measure in ("recall", "precision"):
        for level, words in (("candidates", "compared"), ("edges", "an edge"), ("removals", "in one component")):
            shares = (_bounds(each[measure][level]) for each in trials.values())
            lines.append(_columns(measure if level == "candidates" else "", words, *shares))
        if measure == "recall":
            lines.append(
                _columns("", "by the S-curve", *(_number(each["recall_by_curve"]) for each in trials.values()))
            )
    lines.append(_columns("removed", "", *(_bounds(each["removed"]) for each in trials.values())))
    lines.append(_columns("", "exact answer", *(_number(each["removed_exactly"]["share"]) for each in trials.values())))
    for key in next(iter(trials.values()))["cost"]:
        values = (each["cost"][key] for each in trials.values())
        lines.append(
            _columns(
                "cost" if key == "pairs_per_document" else "", key.replace("_", " "), *(_number(v) for v in values)
            )
        )
    for name, each in trials.items():
        lines += ["", *_bins(each, f", {name}" if len(trials) > 1 else "")]
    for name, each in trials.items():
        lines += _missed(each, f", {name}" if len(trials) > 1 else "")
    lines += _sides(answer["sides"]) if answer["sides"] else []
    return "\n".join(map(printable, lines))


def _name(tried: Mapping[str, Any]) -> str:
    chosen = tried["settings"]
    return f"{chosen['lsh.bands']} x {chosen['lsh.rows']}, threshold {chosen['threshold']}"


def _size(tried: Mapping[str, Any]) -> int:
    return int(tried["settings"]["lsh.bands"] * tried["settings"]["lsh.rows"])


def _columns(group: str, name: str, *cells: str) -> str:
    return f"{group:<13}{name:<30}" + "".join(f"{cell:<30}" for cell in cells).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _bounds(share: Mapping[str, Any]) -> str:
    return "-" if share["share"] is None else f"{share['share']:.4f} ({share['low']:.4f} to {share['high']:.4f})"


def _bins(tried: Mapping[str, Any], name: str) -> list[str]:
    chosen = tried["settings"]
    head = f"1-(1-J^{chosen['lsh.rows']})^{chosen['lsh.bands']}"
    lines = [
        f"by similarity{name}",
        f"{'Jaccard':<15}{'pairs':>8}{'share a bucket':>26}{head:>16}{'compared':>10}{'edge':>8}{'component':>11}",
    ]
    for each in tried["bins"]:
        span = f"{each['from']:.2f} to {each['to']:.2f}" if each["from"] < 1 else "1 (identical)"
        lines.append(
            f"{span:<15}{each['pairs']:>8,}{_bounds(each['in_bucket']):>26}{each['by_curve']:>16.4f}"
            f"{each['candidates']:>10.4f}{each['edges']:>8.4f}{each['removals']:>11.4f}"
        )
    return lines


def _missed(tried: Mapping[str, Any], name: str) -> list[str]:
    lines = []
    for kind, title in (
        ("missed", "duplicates that are no edge"),
        ("wrong", "labelled false and yet in one component"),
    ):
        if tried[f"{kind}_count"]:
            lines += ["", f"{title}{name}: {tried[f'{kind}_count']:,}"]
        for each in tried[kind][:SHOWN]:
            reason = f"; {each['reason']}" if "reason" in each else ""
            joined = ", but joined by others" if each.get("joined_by_others") else ""
            lines.append(f"{each['left_id']} - {each['right_id']}: {each['jaccard']:.4f}{reason}{joined}")
            lines.append(f"    share: {each['shared']}")
    return lines


def _sides(sides: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, side in sides.items():
        lines += ["", f"{name.replace('_', ' ')}: {side['documents']:,}, {side['drawn']:,} of them drawn"]
        for each in side["examples"][:SHOWN]:
            lines.append(f"{each['id']}, kept instead {each['representative_id']}, {each['jaccard']:.4f} similar")
            lines.append(f"    {each['text']}")
    return lines
