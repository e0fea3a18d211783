"""Evaluation of settings against labels, an exact search or planted copies.

Everything is measured on a sample (see `sample`), at settings that share its signatures (see `kernels.sample_search`).
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import NO_DOCUMENT, ConfigError, DataError, StorageError
from dedup.evaluate.corpus import SampledCorpus
from dedup.evaluate.judgement import SettingResult, judge, list_sides
from dedup.evaluate.pairs import find_alike
from dedup.evaluate.sample import NEIGHBOURS, Sample, assemble, bring_along, complete_components, plant
from dedup.evaluate.show import to_table
from dedup.evaluate.truth import find_truth
from dedup.files.storage import OutputStorage
from dedup.kernels import Integers, sample_search
from dedup.kernels.representatives import elect
from dedup.report.answers import show_evaluation
from dedup.run.apart import check_apart, check_outside
from dedup.run.pairs import ENDS, read_pairs
from dedup.settings.banding import SIGMAS
from dedup.settings.files import flatten, to_dict
from dedup.settings.options import Config
from dedup.settings.profiles import refuse_profiles
from dedup.settings.scope import list_left_out, refuse_without_near
from dedup.version import __version__

FLOOR = 0.5
"""Least similarity in the exact search, unless a threshold is lower."""
FREE = ("threshold", "lsh.bands", "lsh.rows", "lsh.recall", "buckets.max_bucket")
"""Settings that may differ between two that share signatures."""
IDLE = ("components.", "output.", "evaluation.", "alerts.")
"""Settings without effect on an evaluation."""
NAMES = ("first", "second")
"""Names of the settings in the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationQuestion:
    """Request for an evaluation; the truth is labelled pairs, or planted copies, or without both an exact search."""

    inputs: Sequence[str]
    config: Config
    other: Config | None = None
    """A second setting to compare with."""
    pairs: str = ""
    """File of labelled pairs."""
    planted: int = 0
    """Copies to plant."""
    sample: int = 10_000
    """Documents to draw where no labels select them."""
    output: str = ""
    """Folder for evaluation.json; empty for none."""
    overwrite: bool = False


def check_comparable(config: Config, other: Config | None) -> None:
    """Refuse a second setting that needs other signatures than the first.

    Raises
    ------
    ConfigError
        Names the setting that does not allow it.
    """
    refuse_profiles(config.profile, "to be evaluated")
    refuse_without_near(config, "to be evaluated")
    if config.mode != "lsh":
        raise ConfigError('--set: mode must be "lsh" to be evaluated (got "exact", the truth it is compared with)')
    if config.input.part_of:
        raise ConfigError(
            f"input.part_of: must be empty to be evaluated, as a sample is of rows (got {config.input.part_of!r})"
        )
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


def check_target(storage: OutputStorage, question: EvaluationQuestion) -> str:
    """Return the path of evaluation.json, empty for none.

    Raises
    ------
    StorageError
        When it exists and is not to be replaced, or lies in the input or a store.
    """
    if not question.output:
        return ""
    target = f"{question.output.rstrip('/')}/evaluation.json"
    check_apart([*question.inputs, *filter(None, [question.pairs])], target, suffixes=("",))
    check_outside(storage, target)
    if storage.exists(target) and not question.overwrite:
        raise StorageError(f"--output {target}: must not exist yet (it does); pass --overwrite to replace it")
    return target


def answer(corpus: SampledCorpus, storage: OutputStorage, question: EvaluationQuestion, target: str) -> dict[str, Any]:
    """Answer a question about a corpus, and write the answer to the target unless that is empty."""
    found = _answer(corpus, question)
    if target:
        storage.write_text(target.removesuffix("json") + "html", show_evaluation(found, to_table(found)))
        storage.write_text(target, json.dumps(found, indent=1) + "\n")
    return found


def fetch_labelled(corpus: SampledCorpus, path: str) -> tuple[pa.Table, int, pa.Table]:
    """Return the labelled pairs whose two documents are both in the corpus, the number given, and the documents."""
    labels = read_pairs(path, id_type=corpus.id_type, where="--pairs")
    documents = corpus.fetch(_list_ends(labels))
    held = [pc.is_in(labels[side], value_set=documents["doc_id"]) for side in ENDS]
    pairs = labels.filter(pc.and_(*held))
    if not pairs.num_rows:
        given = labels.num_rows
        raise DataError(f"--pairs {path}: must hold pairs of the input (got {given:,}, none with both documents in it)")
    of_pairs = pc.is_in(documents["doc_id"], value_set=pa.array(_list_ends(pairs)))
    return pairs, labels.num_rows, documents.filter(of_pairs)


def _list_ends(pairs: pa.Table) -> Integers:
    ends: Integers = pa.chunked_array([chunk for side in ENDS for chunk in pairs[side].chunks]).drop_null().to_numpy()
    return ends


def _answer(corpus: SampledCorpus, question: EvaluationQuestion) -> dict[str, Any]:
    begin = time.monotonic()
    config = question.config
    configs = [config] if question.other is None else [config, question.other]
    settings = [_choose(each) for each in configs]
    size = max(setting.size for setting in settings)
    floor = min(FLOOR, *(setting.threshold for setting in settings))
    if question.pairs:
        labels, given, drawn = fetch_labelled(corpus, question.pairs)
    else:
        labels, given, drawn = None, 0, corpus.draw(question.sample)
    if not drawn.num_rows:
        raise DataError(NO_DOCUMENT)
    seeds = assemble(drawn, config, size)
    sample, counts = bring_along(corpus, seeds, settings=settings, floor=floor)
    threshold = min(setting.threshold for setting in settings)
    sample, left_open = complete_components(corpus, sample, threshold)
    alike_count = sample.doc_ids.size - seeds.doc_ids.size
    if question.planted:
        sample = plant(sample, question.planted)
    alike = find_alike(sample.sets, sample.drawn, floor=floor, threshold=threshold)
    truth = find_truth(sample, alike, labels)
    tried = [_try(sample, *each) for each in zip(configs, settings, strict=True)]
    jaccard = truth.pairs.jaccard
    return {
        "truth": "labelled pairs" if question.pairs else "planted copies" if question.planted else "exact search",
        "documents": counts["documents"],
        "drawn": int(seeds.doc_ids.size),
        "alike": int(alike_count),
        "left_open": left_open,
        "left_out": list_left_out(config, "keep.order", "layers"),
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
        "sides": list_sides(sample, *tried) if question.other else None,
        "seconds": round(time.monotonic() - begin, 3),
        "version": __version__,
    }


def _choose(config: Config) -> sample_search.Setting:
    return sample_search.Setting(
        threshold=config.threshold,
        bands=config.banding.bands,
        rows=config.banding.rows,
        max_bucket=config.buckets.max_bucket,
        estimate_sigmas=SIGMAS,
    )


def _try(sample: Sample, config: Config, setting: sample_search.Setting) -> SettingResult:
    """Search with one setting twice, since the first search also pays for loading code."""
    prepared = sample_search.SampleDocuments(sample.doc_ids, *sample.sets, sample.heads, sample.signatures)
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        found = sample_search.search(prepared, setting)
        seconds.append(time.perf_counter() - begin)
    representatives = elect(found.components, sample.rank())
    return SettingResult(
        config=config, setting=setting, found=found, seconds=min(seconds), representatives=representatives
    )


def _weigh(tried: SettingResult, counts: Mapping[str, int], number: int, drawn: int | None) -> dict[str, Any]:
    """Return the cost of a setting.

    Each pair of the corpus has two documents, so a drawn document meets twice as many pairs as there are per document.

    Parameters
    ----------
    drawn
        Documents drawn; None if they do not represent the corpus.
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
        "band_row_bytes_per_document": 16 * tried.setting.bands,
    }
