"""What a JVM that died leaves to say; what it says while it lives is in test_bad_input."""

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from dedup.errors import DedupError, StorageError
from dedup.run import faults
from dedup.run.session import End


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (End(52, ""), "Spark ran out of memory; raise spark.driver.memory"),
        (End(1, "15:39 ERROR Executor\njava.lang.OutOfMemoryError: Java heap space\n"), "Spark ran out of memory"),
        (End(-9, ""), "Spark was killed, as the kernel does where the machine's or the container's memory runs out"),
    ],
)
@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111)])
def test_a_jvm_that_died_of_its_memory_is_one_line(monkeypatch, end, words, error):
    monkeypatch.setattr(faults, "read_end", lambda: end)
    known = faults.recognise(error)

    assert isinstance(known, DedupError)
    assert str(known).startswith(words)
    assert str(known).endswith("repeat the command, which goes on")


@pytest.mark.parametrize("end", [None, End(1, "a fault"), End(143, "")])
def test_a_jvm_that_lives_or_died_of_something_else_is_not_explained(monkeypatch, end):
    monkeypatch.setattr(faults, "read_end", lambda: end)

    assert faults.recognise(Py4JNetworkError("Answer from Java side is empty")) is None
    assert faults.recognise(ValueError("no fault of Spark's")) is None


def test_a_python_worker_that_died_is_one_line():
    said = "Task 2 failed 1 times: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."

    known = faults.recognise(PySparkException(said))

    assert str(known).startswith(
        "a Python worker of Spark ended before its work was done, most likely for lack of memory"
    )


def test_a_file_that_s3_does_not_give_to_spark_is_no_damaged_one():
    """Of a damaged one a run drops the stages that it has finished."""
    known = faults.recognise(
        PySparkException(
            "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Error while reading file s3a://b/in/p3.jsonl. "
            "SQLSTATE: KD001\n\tat a.b(C.scala:1)\nCaused by: software.amazon.awssdk.services.s3.model.S3Exception: "
            "SlowDown (Service: S3, Status Code: 503, Request ID: null)\n\tat a.b"
        )
    )

    assert isinstance(known, StorageError)
    assert str(known) == (
        "s3a://b/in/p3.jsonl: must be given to Spark by its store (SlowDown (Service: S3, Status Code: 503, Request "
        "ID: null)); then repeat the command, which goes on"
    )
