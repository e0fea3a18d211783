"""What a user asks of a plan, and the answer as plain data, ready for JSON."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dedup.errors import ConfigError
from dedup.plan.capacity import Cluster, Plan, Stage, plan
from dedup.plan.choice import SHOWN, Choice, Search, Target, Wishes, check, crossings, datasketch, solve
from dedup.plan.corpus import Corpus, assume_corpus
from dedup.plan.rates import Rates
from dedup.settings.banding import Banding
from dedup.settings.options import Config, Lsh

DECADES = (10**6, 10**7, 10**8, 10**9, 10**10)
"""Documents of the table of capacities."""
RULES: tuple[tuple[tuple[str, ...], str, Callable[[float], bool]], ...] = (
    (("threshold", "efficiency"), "above 0 and at most 1", lambda value: 0 < value <= 1),
    (("duplication",), "at least 0 and below 1", lambda value: 0 <= value < 1),
    (("sample_documents",), "at least 2", lambda value: value >= 2),
    (
        (
            *("documents", "sample_of", "mean_tokens", "mean_bytes", "id_bytes", "executors", "cores"),
            *("max_signature_bytes", "max_candidates_per_doc", "price_per_core_hour"),
        ),
        "a finite number above 0",
        lambda value: 0 < value < float("inf"),
    ),
)
"""Of the numbers of a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a user asks."""

    config: Config
    recall: Sequence[str] = ()
    candidates: Sequence[str] = ()
    threshold: float | None = None
    max_signature_bytes: int | None = None
    max_candidates_per_doc: float | None = None
    check: str | None = None
    sample: str | None = None
    sample_documents: int = 4000
    sample_of: int | None = None
    documents: int | None = None
    mean_tokens: float = 200.0
    mean_bytes: float | None = None
    id_bytes: float = 8.0
    duplication: float = 0.1
    executors: int = 10
    cores: int = 4
    efficiency: float = 0.4
    price_per_core_hour: float | None = None
    calibrate: bool = False


def answer(question: Question) -> dict[str, Any]:
    """Return the choices, the verdict on the one to check, and the capacity if documents are given.

    Raises
    ------
    DedupError
        When an option is malformed, targets exclude each other, or the sample cannot be read.
    """
    _check_numbers(question)
    targets = [_parse_target("--recall", text) for text in question.recall]
    targets += [_parse_target("--candidates", text) for text in question.candidates]
    wishes = Wishes(
        targets=targets, signature_bytes=question.max_signature_bytes, candidates=question.max_candidates_per_doc
    )
    limited = question.max_signature_bytes is not None or question.max_candidates_per_doc is not None
    if not question.recall and (question.candidates or limited):
        raise ConfigError("--recall must be given with other targets, as finding nothing would meet those")
    config = _settle_threshold(question, targets)
    search = Search(threshold=config.threshold, sigmas=config.candidates.estimate_sigmas)
    corpus = _know_corpus(question, config)
    rates = _know_rates(question)

    asked = _parse_choice(question.check) if question.check else None
    shown = sorted({*SHOWN, *(target.similarity for target in targets), search.threshold})
    verdict = None if asked is None else check(asked, wishes, search, corpus, rates)
    if targets:
        choices = solve(wishes, search, corpus, rates)
        best = min(choices, key=lambda choice: choice.core_seconds)
        config = dataclasses.replace(config, lsh=_with_choice(config.lsh, best))
    else:
        if asked is not None:
            config = dataclasses.replace(config, lsh=_with_choice(config.lsh, asked))
        choices = [check(config.banding, wishes, search, corpus, rates).choice]
        best = choices[0]
    other = datasketch(best.signature_size, search, corpus, rates, shown)
    judged = check(Banding(other.bands, other.rows), wishes, search, corpus, rates)
    return {
        "settings": {
            "threshold": config.threshold,
            "estimate_sigmas": search.sigmas,
            "shingle_size": config.shingles.shingle_size,
        },
        "targets": [str(target) for target in targets],
        "corpus": _describe(corpus),
        "rates": asdict(rates),
        "check": None if verdict is None else {**asdict(verdict.choice), "targets": verdict.targets},
        "crossings": [
            {"recall": str(recall), "candidates": str(share), **asdict(crossing)}
            for recall, share, crossing in crossings(wishes)
        ],
        "choices": [asdict(choice) for choice in choices],
        "best": {"bands": best.bands, "rows": best.rows},
        "datasketch": {**asdict(other), "targets": judged.targets},
        "capacity": None if question.documents is None else _plan_all(question, config, corpus, rates),
    }


def _check_numbers(question: Question) -> None:
    """Refuse numbers that no plan can be made of."""
    for names, rule, holds in RULES:
        for name in names:
            value = getattr(question, name)
            if value is not None and not holds(value):
                raise ConfigError(f"--{name.replace('_', '-')} must be {rule} (got {value:g})")


def _parse_target(option: str, text: str) -> Target:
    share, at, similarity = text.partition("@")
    try:
        found = Target(option=option, share=float(share), similarity=float(similarity))
    except ValueError:
        at = ""
    if not at or not (0 < found.share < 1 and 0 < found.similarity <= 1):
        raise ConfigError(
            f"{option} must be SHARE@SIMILARITY, such as 0.99@0.8, with a share above 0 and below 1 and a similarity "
            f"above 0 and at most 1 (got {text!r})"
        )
    return found


def _parse_choice(text: str) -> Banding:
    numbers = re.fullmatch(r"(\d+)\s*x\s*(\d+)", text)
    if numbers is None:
        raise ConfigError(f"--check must be BANDSxROWS, such as 21x6 (got {text!r})")
    try:
        Lsh(bands=int(numbers[1]), rows=int(numbers[2]))
    except ConfigError as error:
        raise ConfigError(str(error).replace("Lsh", f"--check {text}", 1)) from error
    return Banding(int(numbers[1]), int(numbers[2]))


def _with_choice(lsh: Lsh, choice: Choice | Banding) -> Lsh:
    return dataclasses.replace(lsh, bands=choice.bands, rows=choice.rows)


def _settle_threshold(question: Question, targets: Sequence[Target]) -> Config:
    """Return the settings with the threshold asked for, else the least similarity at which pairs are to be found."""
    recalled = [target.similarity for target in targets if target.option == "--recall"]
    threshold = question.threshold or min(recalled, default=question.config.threshold)
    return dataclasses.replace(question.config, threshold=threshold)


def _know_corpus(question: Question, config: Config) -> Corpus:
    if question.sample is not None:
        # The kernels take a third of a second to import, which a plan without a sample need not wait for.
        from dedup.plan.sample import measure_corpus  # noqa: PLC0415
        from dedup.settings.contract import load_contract  # noqa: PLC0415

        corpus = measure_corpus(
            question.sample,
            text_column=config.input.text_column,
            drawn=question.sample_documents,
            shingle_size=config.shingles.shingle_size,
            contract=load_contract(config),
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


def _know_rates(question: Question) -> Rates:
    if question.calibrate:
        # As the sample.
        from dedup.plan.calibrate import calibrate  # noqa: PLC0415

        return calibrate()
    return Rates()


def _describe(corpus: Corpus) -> dict[str, Any]:
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


def _plan_all(question: Question, config: Config, corpus: Corpus, rates: Rates) -> dict[str, Any]:
    cluster = Cluster(
        executors=question.executors,
        cores=question.cores,
        efficiency=question.efficiency,
        price=question.price_per_core_hour,
    )
    sizes = sorted({*DECADES, corpus.documents})
    plans = {size: plan(config, corpus.resize(size), cluster, rates) for size in sizes}
    chosen = plans[corpus.documents]
    return {
        "bands": config.banding.bands,
        "rows": config.banding.rows,
        "executors": cluster.executors,
        "cores": cluster.cores,
        "efficiency": cluster.efficiency,
        **_total(chosen),
        "stages": [_list_stage(stage) for stage in chosen.stages],
        "sizes": [_total(plans[size]) for size in sizes],
    }


def _total(found: Plan) -> dict[str, Any]:
    return {
        "documents": found.rows.documents,
        "text_bytes": found.text_bytes,
        "removed": found.rows.removed,
        "table_bytes": found.table_bytes,
        "shuffle_bytes": found.shuffle_bytes,
        "core_hours": found.core_seconds / 3600,
        "hours": found.hours,
        "price": found.price,
        "engine": found.rows.engine,
        "worker_bytes_per_executor": found.worker_bytes,
        "driver_bytes": found.driver_bytes,
    }


def _list_stage(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "table_bytes": stage.table_bytes,
        "shuffle_bytes": stage.shuffle_bytes,
        "partitions": stage.partitions,
        "core_hours": stage.core_seconds / 3600,
        "tables": [asdict(item) for item in stage.tables],
        "shuffle": [asdict(item) for item in stage.shuffle],
    }
