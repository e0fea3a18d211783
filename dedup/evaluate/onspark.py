"""An evaluation of what only Spark reads."""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dedup.evaluate.evaluation import Question, answer, check_target
from dedup.evaluate.rows import RowCorpus
from dedup.run.faults import recognise
from dedup.run.storage import Storage


def evaluate_on_spark(spark: SparkSession, question: Question) -> dict[str, Any]:
    """As `evaluation.evaluate`, in a session."""
    storage = Storage(spark)
    target = check_target(storage, question)
    try:
        return answer(RowCorpus.open(spark, storage, question.inputs, question.config), storage, question, target)
    except (PySparkException, Py4JError) as error:
        known = recognise(error)
        if known is None or spark.sparkContext._jsc is None:  # noqa: SLF001 - stopped: what fails then has no cause
            raise
        raise known from error
