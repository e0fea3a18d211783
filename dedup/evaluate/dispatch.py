"""Evaluation of a corpus given by its paths, on this machine or with Spark."""

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from dedup.evaluate.corpus import FileCorpus, SampledCorpus
from dedup.evaluate.evaluation import EvaluationQuestion, answer, check_comparable, check_target
from dedup.files.storage import Storage
from dedup.run.job import Job
from dedup.run.reach import check_reach, check_schemes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def evaluate(spark: "SparkSession | None", question: EvaluationQuestion) -> dict[str, Any]:
    """Answer a question about settings and a corpus, with Spark if there is a session.

    Returns
    -------
    dict
        Contents of evaluation.json.

    Raises
    ------
    DedupError
        When the settings cannot be compared, or the input, the labels or the output do not allow it.
    """
    check_comparable(question.config, question.other)
    if spark is not None:
        return _evaluate_on_spark(spark, question)
    storage = Storage()
    target = check_target(storage, question)
    return answer(FileCorpus.open(_ask(question)), storage, question, target)


def _evaluate_on_spark(spark: "SparkSession", question: EvaluationQuestion) -> dict[str, Any]:
    from py4j.protocol import Py4JError  # noqa: PLC0415 - what needs no Spark starts without it
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    from dedup.engine.sessions import is_stopped, suited  # noqa: PLC0415 - as above
    from dedup.engine.tasks import Tasks  # noqa: PLC0415 - as above
    from dedup.evaluate.rows import RowCorpus  # noqa: PLC0415 - as above
    from dedup.run.faults import recognise  # noqa: PLC0415 - as above
    from dedup.run.storage import open_storage  # noqa: PLC0415 - as above

    storage, job = open_storage(spark), _ask(question)
    target = check_target(storage, question)
    try:
        with suited(spark):
            corpus: SampledCorpus = (
                RowCorpus.open(spark, job.config) if job.has_table else FileCorpus.open(job, partial(Tasks, spark))
            )
            return answer(corpus, storage, question, target)
    except (PySparkException, Py4JError, OSError) as error:
        known = recognise(error)
        if known is None or is_stopped(spark):
            raise
        raise known from error


def needs_spark(question: EvaluationQuestion) -> bool:
    """Tell whether Spark's tasks read the corpus: under spark-submit, if asked for, or if it is a table.

    Raises
    ------
    StorageError
        When the files are out of reach.
    """
    job, engine = _ask(question), question.config.engine
    check_schemes(job, *filter(None, [question.pairs]))
    if "PYSPARK_GATEWAY_PORT" in os.environ or job.has_table:
        return True
    if engine != "memory":
        check_reach(job)
    return engine == "spark"


def _ask(question: EvaluationQuestion) -> Job:
    """Return the request for a run that reads the same input."""
    return Job(
        inputs=question.inputs, output=question.output or next(iter(question.inputs), "."), config=question.config
    )
