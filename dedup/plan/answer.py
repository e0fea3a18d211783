"""Answer of a plan as plain data, ready for JSON."""

import dataclasses
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dedup.errors import ConfigError
from dedup.layers import NEAR
from dedup.plan.capacity import Plan, SparkCluster, plan
from dedup.plan.choice import BandingChoice, check, cost, list_shown, solve
from dedup.plan.curve import integral_optimum
from dedup.plan.profile import CorpusProfile, Trial, assume_corpus
from dedup.plan.question import PlanQuestion, check_numbers, parse_choice, parse_target
from dedup.plan.rates import Rates
from dedup.plan.shuffles import StageCost
from dedup.plan.wishes import Target, Wishes, crossings
from dedup.settings.banding import SIGMAS, Banding
from dedup.settings.options import Config
from dedup.settings.profiles import refuse_profiles

DECADES = (10**6, 10**7, 10**8, 10**9, 10**10)
"""Corpus sizes in the table of capacities; documents."""
LOW, HIGH = 0.1, 0.9
"""Quantiles that bound a range."""
RANGED = ("removed", "pairs", "table_bytes", "shuffle_bytes", "core_hours", "hours")


def answer(question: PlanQuestion) -> dict[str, Any]:
    """Return the choices, the check of given bands and rows, and the capacity if documents are given.

    Raises
    ------
    DedupError
        When an option is malformed, targets exclude each other, or the sample cannot be read.
    """
    check_numbers(question)
    refuse_profiles(question.config.profile, "to be planned")
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
    rates = _know_rates(question)

    asked = parse_choice(question.check) if question.check else None
    shown = list_shown(wishes, config.threshold)
    if targets:
        choices = solve(wishes, config.threshold, corpus, rates)
    else:
        choices = [cost(asked or config.banding, config.threshold, corpus, rates, shown)]
    best = min(choices, key=lambda choice: choice.core_seconds)
    config = _with_banding(config, Banding(best.bands, best.rows))

    def list_choice(choice: BandingChoice) -> dict[str, Any]:
        # With the bytes that a whole run shuffles for a document.
        tried = dataclasses.replace(_with_banding(config, Banding(choice.bands, choice.rows)), mode="lsh")
        trial = _try(tried, corpus, ranges=False)
        shuffled = plan(tried, corpus, _know_cluster(question), rates, trial=trial).shuffle_bytes
        return {**asdict(choice), "shuffle_bytes": shuffled / corpus.documents}

    def judge(banding: Banding) -> dict[str, Any]:
        choice = cost(banding, config.threshold, corpus, rates, shown)
        return {**list_choice(choice), "targets": check(banding, wishes, config.threshold, corpus)}

    return {
        "settings": {
            "threshold": config.threshold,
            "estimate_sigmas": SIGMAS,
            "shingle_size": config.shingles.shingle_size,
        },
        "targets": [str(target) for target in targets],
        "corpus": _list_corpus(corpus),
        "rates": asdict(rates),
        "check": None if asked is None else judge(asked),
        "crossings": [
            {"recall": str(recall), "candidates": str(share), **asdict(crossing)}
            for recall, share, crossing in crossings(wishes, config.threshold)
        ],
        "choices": [list_choice(choice) for choice in choices],
        "best": {"bands": best.bands, "rows": best.rows},
        "datasketch": judge(Banding(*integral_optimum(config.threshold, best.signature_size))),
        "capacity": None if question.documents is None else _plan_all(question, config, corpus, rates),
    }


def _try(config: Config, corpus: CorpusProfile, *, ranges: bool) -> Trial | None:
    """Return a trial search of the sample with these settings; None without a sample."""
    if corpus.drawn is None:
        return None
    # As the sample.
    from dedup.plan.trial import search_drawn  # noqa: PLC0415

    return search_drawn(corpus.drawn, config, corpus.documents, ranges=ranges)


def _know_cluster(question: PlanQuestion) -> SparkCluster:
    return SparkCluster(
        executors=question.executors,
        cores=question.cores,
        efficiency=question.efficiency,
        price=question.price_per_core_hour,
    )


def _with_banding(config: Config, banding: Banding) -> Config:
    return dataclasses.replace(config, lsh=dataclasses.replace(config.lsh, bands=banding.bands, rows=banding.rows))


def _settle_threshold(question: PlanQuestion, targets: Sequence[Target]) -> Config:
    """Return the settings with the threshold asked for, else with the least similarity that a target asks for."""
    recalled = [target.similarity for target in targets if target.option == "--recall"]
    threshold = question.threshold or min(recalled, default=question.config.threshold)
    return dataclasses.replace(question.config, threshold=threshold)


def _know_corpus(question: PlanQuestion, config: Config) -> CorpusProfile:
    if question.sample is not None:
        # The kernels take a third of a second to import, which a plan without a sample need not wait for.
        from dedup.plan.sample import measure_corpus  # noqa: PLC0415
        from dedup.settings.contract import load_tokenizer  # noqa: PLC0415

        corpus = measure_corpus(
            question.sample,
            text_column=config.input.text_column,
            drawn=question.sample_documents,
            shingle_size=config.shingles.shingle_size,
            tokenizer=load_tokenizer(config),
            id_bytes=question.id_bytes,
            sample_of=question.sample_of,
        )
        return corpus.resize(question.documents or corpus.documents)
    return assume_corpus(
        documents=question.documents or DECADES[0],
        tokens=question.mean_tokens,
        text_bytes=question.mean_bytes,
        id_bytes=question.id_bytes,
        duplication=question.duplication,
        threshold=config.threshold,
        shingle_size=config.shingles.shingle_size,
    )


def _know_rates(question: PlanQuestion) -> Rates:
    if question.calibrate:
        # As the sample.
        from dedup.plan.calibrate import calibrate  # noqa: PLC0415

        return calibrate()
    return Rates()


def _list_corpus(corpus: CorpusProfile) -> dict[str, Any]:
    found = {name: getattr(corpus, name) for name in ("source", "documents", "text_bytes", "tokens", "shingles")}
    partners = corpus.similarities.partners(corpus.documents)
    return {
        **found,
        "identical": corpus.identical,
        "partners": [
            {"jaccard": jaccard, "partners": count}
            for jaccard, count in zip(corpus.similarities.jaccard.tolist(), partners.tolist(), strict=True)
        ],
    }


def _plan_all(question: PlanQuestion, config: Config, corpus: CorpusProfile, rates: Rates) -> dict[str, Any]:
    cluster = _know_cluster(question)
    trial = _try(config, corpus, ranges=True)
    sizes = sorted({*DECADES, corpus.documents})
    plans = {size: plan(config, corpus.resize(size), cluster, rates, trial=trial) for size in sizes}
    chosen = plans[corpus.documents]
    others = [] if trial is None else trial.others
    tried = [plan(config, corpus, cluster, rates, trial=trial, counts=counts) for counts in others]
    return {
        "bands": config.banding.bands,
        "rows": config.banding.rows,
        "executors": cluster.executors,
        "cores": cluster.cores,
        "efficiency": cluster.efficiency,
        **_total(chosen),
        "quantiles": [LOW, HIGH] if tried else None,
        "families": bool(tried) and corpus.drawn is not None and corpus.drawn.documents != corpus.documents,
        "ranges": _spread(chosen, tried) if tried else None,
        "uncounted": [name for name in config.layers if name != NEAR and chosen.find(name) is None],
        "stages": [_list_stage(stage, [each.find(stage.name) for each in tried]) for stage in chosen.stages],
        "sizes": [_total(plans[size]) for size in sizes],
    }


def _total(found: Plan) -> dict[str, Any]:
    return {
        "documents": found.rows.documents,
        "text_bytes": found.text_bytes,
        "removed": found.rows.removed,
        "pairs": found.rows.pairs,
        **_measure(found),
        "hours": found.hours,
        "price": found.price,
        "engine": found.rows.engine,
        "worker_bytes_per_executor": found.worker_bytes,
        "driver_bytes": found.driver_bytes,
    }


def _spread(chosen: Plan, tried: Sequence[Plan]) -> dict[str, list[float]]:
    """Return the ranges of totals."""
    totals = [_total(each) for each in tried]
    return {name: _range(_total(chosen)[name], [each[name] for each in totals]) for name in RANGED}


def _range(planned: float, tried: Sequence[float]) -> list[float]:
    """Return the range that one more trial would fall into, widened to hold the planned value."""
    low, high = np.quantile(tried, [LOW, HIGH], method="weibull").tolist()
    return [min(low, planned), max(high, planned)]


def _list_stage(stage: StageCost, tried: Sequence[StageCost | None]) -> dict[str, Any]:
    """Return a stage with its ranges; plans may lack it."""
    others = [{} if each is None else _measure(each) for each in tried]
    measured = _measure(stage)
    ranges = {name: _range(measured[name], [each.get(name, 0.0) for each in others]) for name in measured if tried}
    return {
        "name": stage.name,
        **measured,
        "ranges": ranges or None,
        "partitions": stage.partitions,
        "tables": [asdict(item) for item in stage.tables],
        "shuffle": [asdict(item) for item in stage.shuffle],
    }


def _measure(cost: Plan | StageCost) -> dict[str, float]:
    return {
        "table_bytes": cost.table_bytes,
        "shuffle_bytes": cost.shuffle_bytes,
        "core_hours": cost.core_seconds / 3600,
    }
