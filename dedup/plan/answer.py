"""Answer of a plan as plain data, ready for JSON."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from dedup.errors import ConfigError
from dedup.layers import NEAR
from dedup.plan.calibrate import calibrate
from dedup.plan.choice import BandingChoice, check, cost, list_shown, solve, weigh_widths
from dedup.plan.curve import integral_optimum
from dedup.plan.model import Plan, StageCost, measure, plan
from dedup.plan.profile import TEXT_BYTES, UNIT_BYTES, CorpusProfile, Trial, assume_corpus
from dedup.plan.question import PlanQuestion, check_numbers, parse_choice, parse_target
from dedup.plan.rates import Rates
from dedup.plan.sample import CHANCE, CHARACTER_CHANCE, measure_corpus
from dedup.plan.trial import search_drawn
from dedup.plan.wishes import Target, Wishes, crossings
from dedup.settings.banding import SIGMAS, Banding
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config
from dedup.settings.profiles import refuse_profiles
from dedup.settings.scope import list_left_out, refuse_without_near

DECADES = (10**6, 10**7, 10**8, 10**9, 10**10)
"""Corpus sizes in the table of capacities; documents."""
DRAWN, DUPLICATION, EFFICIENCY = 40_000, 0.1, 0.4
"""Defaults of a question: documents drawn of a sample, share of documents removed, share of core time that works."""
LOW, HIGH = 0.1, 0.9
"""Quantiles that bound a range."""
TRIED = 2
"""Multiple of the cheapest choice's core seconds up to which a choice is tried in a sample: of 35,000
documents one of 15,192 values takes 38 seconds and 8 GB."""
WORKER_BYTES = 1 << 30
"""Memory of one Python worker: at most 0.85 GB in the runs of `scripts/bench`, whatever their size."""
RANGED = ("removed", "pairs", "table_bytes", "shuffle_bytes", "core_hours", "hours")


def answer(question: PlanQuestion) -> dict[str, Any]:
    """Return the choices, the check of given bands and rows, and the capacity if documents are given.

    Raises
    ------
    DedupError
        When an option is malformed, targets exclude each other, or the sample cannot be read.
    """
    check_numbers(question)
    asked = parse_choice(question.check) if question.check else None
    refuse_profiles(question.config.profile, "to be planned")
    if question.config.mode != "lsh":
        # What it costs depends on the frequency of each shingle.
        raise ConfigError(f'mode must be "lsh" to be planned (got "{question.config.mode}")')
    refuse_without_near(question.config, "to be planned")
    targets = [parse_target("--recall", text) for text in question.recall]
    targets += [parse_target("--candidates", text) for text in question.candidates]
    wishes = Wishes(
        targets=targets, signature_bytes=question.max_signature_bytes, candidates=question.max_candidates_per_doc
    )
    limited = question.max_signature_bytes is not None or question.max_candidates_per_doc is not None
    if not question.recall and (question.candidates or limited):
        raise ConfigError("--recall must be given with other targets, as finding nothing would meet those")
    config = _settle_threshold(question, targets)
    corpus = _know_corpus(question, config)
    rates = calibrate() if question.calibrate else Rates()

    shown = list_shown(wishes, config.threshold)
    if targets:
        choices = solve(wishes, config.threshold, corpus, rates)
    else:
        choices = [cost(asked or config.banding, config.threshold, corpus, rates, shown)]
    best = min(choices, key=lambda choice: choice.core_seconds)
    config = _with_banding(config, Banding(best.bands, best.rows))

    @cache
    def shuffled(banding: Banding) -> float:
        """Return the bytes that a whole run shuffles for a document."""
        tried = _with_banding(config, banding)
        trial = _try(tried, corpus, ranges=False)
        found = plan(tried, corpus, question.executors * question.cores, rates, trial=trial)
        return measure(found.stages)["shuffle_bytes"] / corpus.documents

    def list_choice(choice: BandingChoice, *, tried: bool = True) -> dict[str, Any]:
        return {**asdict(choice), "shuffle_bytes": shuffled(Banding(choice.bands, choice.rows)) if tried else None}

    def is_near_best(choice: BandingChoice) -> bool:
        return corpus.drawn is None or choice.core_seconds <= TRIED * best.core_seconds

    def judge(banding: Banding) -> dict[str, Any]:
        choice = cost(banding, config.threshold, corpus, rates, shown)
        return {**list_choice(choice), "targets": check(banding, wishes, config.threshold, corpus)}

    return {
        "settings": {
            "threshold": config.threshold,
            "estimate_sigmas": SIGMAS,
            "shingle_size": config.shingles.shingle_size,
            "unit": config.shingles.unit,
        },
        "targets": [str(target) for target in targets],
        "corpus": _list_corpus(corpus),
        "rates": asdict(rates),
        "check": None if asked is None else judge(asked),
        "crossings": [
            {"recall": str(recall), "candidates": str(share), **asdict(crossing)}
            for recall, share, crossing in crossings(wishes, config.threshold)
        ],
        "choices": [list_choice(choice, tried=is_near_best(choice)) for choice in choices],
        "best": {"bands": best.bands, "rows": best.rows},
        "widths": weigh_widths(Banding(best.bands, best.rows), config.threshold, corpus),
        "datasketch": judge(Banding(*integral_optimum(config.threshold, best.signature_size))),
        "capacity": None if question.documents is None else _plan_all(question, config, corpus, rates),
    }


def _try(config: Config, corpus: CorpusProfile, *, ranges: bool) -> Trial | None:
    """Return a trial search of the sample with these settings; None without a sample."""
    return None if corpus.drawn is None else search_drawn(corpus.drawn, config, corpus.documents, ranges=ranges)


def _with_banding(config: Config, banding: Banding) -> Config:
    return dataclasses.replace(config, lsh=dataclasses.replace(config.lsh, bands=banding.bands, rows=banding.rows))


def _settle_threshold(question: PlanQuestion, targets: Sequence[Target]) -> Config:
    """Return the settings with the threshold asked for, else with the least similarity that a target asks for."""
    recalled = [target.similarity for target in targets if target.option == "--recall"]
    threshold = question.threshold or min(recalled, default=question.config.threshold)
    return dataclasses.replace(question.config, threshold=threshold)


def _know_corpus(question: PlanQuestion, config: Config) -> CorpusProfile:
    if question.sample is not None:
        if config.input.part_of:
            given = config.input.part_of
            raise ConfigError(f"input.part_of: must be empty with --sample, which is of rows (got {given!r})")
        corpus = measure_corpus(
            question.sample,
            text_columns=config.text_columns,
            has_sets=config.shingles.has_sets,
            drawn=question.sample_documents or DRAWN,
            shingle_size=config.shingles.shingle_size,
            tokenizer=load_tokenizer(config),
            id_bytes=question.id_bytes,
            sample_of=question.sample_of,
            chance=CHARACTER_CHANCE if config.shingles.unit == "char" else CHANCE,
        )
        return corpus.resize(question.documents or corpus.documents)
    return assume_corpus(
        documents=question.documents or DECADES[0],
        tokens=question.mean_tokens or TEXT_BYTES / UNIT_BYTES[config.shingles.unit],
        text_bytes=question.mean_bytes,
        id_bytes=question.id_bytes,
        duplication=DUPLICATION if question.duplication is None else question.duplication,
        threshold=config.threshold,
        shingle_size=config.shingles.shingle_size,
        unit=config.shingles.unit,
    )


def _list_corpus(corpus: CorpusProfile) -> dict[str, Any]:
    found = {name: getattr(corpus, name) for name in ("source", "documents", "text_bytes", "tokens", "shingles")}
    partners = corpus.similarities.partners(corpus.documents)
    return {
        **found,
        "identical": corpus.identical,
        "mean_jaccard": float(corpus.similarities.jaccard @ partners) / max(corpus.documents - 1, 1),
        "partners": [
            {"jaccard": jaccard, "partners": count}
            for jaccard, count in zip(corpus.similarities.jaccard.tolist(), partners.tolist(), strict=True)
        ],
    }


def _plan_all(question: PlanQuestion, config: Config, corpus: CorpusProfile, rates: Rates) -> dict[str, Any]:
    trial, cores = _try(config, corpus, ranges=True), question.executors * question.cores
    efficiency = question.efficiency or EFFICIENCY

    def total(found: Plan) -> dict[str, Any]:
        documents = found.rows["documents"]
        # A stage of fewer tasks than cores leaves the others idle: the driver connects edges alone.
        seconds = sum(stage.core_seconds / min(cores, stage.partitions) for stage in found.stages)
        hours = (rates.fixed + seconds / efficiency) / 3600
        price, measured, start = question.price_per_core_hour, measure(found.stages), rates.start / 3600
        core_hours, text_bytes = measured["core_hours"] + start, documents * corpus.text_bytes
        return {
            "documents": documents,
            "text_bytes": text_bytes,
            "removed": found.rows["removed"],
            "pairs": found.rows["pairs"],
            **measured,
            "core_hours": core_hours,
            "start_core_hours": start,
            "core_hours_per_terabyte": core_hours / text_bytes * 1e12,
            "hours": hours,
            # What all cores cost for so long, idle ones as well, and what those cost that work.
            "price": None if price is None else hours * cores * price,
            "price_of_work": None if price is None else core_hours * price,
            "engine": found.engine,
            "worker_bytes_per_executor": question.cores * WORKER_BYTES,
            "driver_bytes": found.driver_bytes,
        }

    sizes = sorted({*DECADES, corpus.documents})
    plans = {size: plan(config, corpus.resize(size), cores, rates, trial=trial) for size in sizes}
    chosen, others = plans[corpus.documents], [] if trial is None else trial.others
    tried = [plan(config, corpus, cores, rates, trial=trial, counts=counts) for counts in others]
    totals, names = total(chosen), {stage.name for stage in chosen.stages}
    return {
        "bands": config.banding.bands,
        "rows": config.banding.rows,
        "executors": question.executors,
        "cores": question.cores,
        "efficiency": efficiency,
        **totals,
        "quantiles": [LOW, HIGH] if tried else None,
        "families": bool(tried) and corpus.drawn is not None and corpus.drawn.documents != corpus.documents,
        "ranges": _spread({name: totals[name] for name in RANGED}, [total(each) for each in tried]),
        "left_out": list_left_out(config),
        "uncounted": [name for name in config.layers if name != NEAR and name not in names],
        "stages": [_list_stage(stage, tried) for stage in chosen.stages],
        "sizes": [total(plans[size]) for size in sizes],
    }


def _list_stage(stage: StageCost, tried: Sequence[Plan]) -> dict[str, Any]:
    """Return a stage with its ranges; other plans may lack it."""
    measured = measure([stage])
    others = [measure(each for each in other.stages if each.name == stage.name) for other in tried]
    items = {
        kind: [{"what": item.what, "count": item.number, "each": item.each} for item in listed]
        for kind, listed in (("tables", stage.tables), ("shuffle", stage.shuffle))
    }
    ranges = _spread(measured, others)
    return {"name": stage.name, **measured, "ranges": ranges, "partitions": stage.partitions, **items}


def _spread(planned: Mapping[str, float], tried: Sequence[Mapping[str, float]]) -> dict[str, list[float]] | None:
    """Return the range of each number that one more trial would fall into, widened to hold the planned one."""
    found = {}
    for name, value in planned.items() if tried else ():
        low, high = np.quantile([each[name] for each in tried], [LOW, HIGH], method="weibull").tolist()
        found[name] = [min(low, value), max(high, value)]
    return found or None
