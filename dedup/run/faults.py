"""Faults of Spark and Hadoop, a hundred lines long, as one line that a user can act on."""

import re
import signal
from collections.abc import Callable

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from dedup import errors
from dedup.errors import DataError, DedupError, SchemaError, StorageError
from dedup.files.systems import redact_text
from dedup.run.session import KILLED, read_end

SHOWN_LENGTH = 300
"""Most characters shown of a system's message."""
PATH = re.compile(r"(?:\b[a-z][a-z0-9]*:/|(?<![\w/])/)[^\s'\",;]+")
REASON = re.compile(r"is not a Parquet file[^\n]*|File does not exist|No such file|[^\n]*hecksum[^\n]*")
TOO_LONG = r"input\.max_text_bytes: a text must be of at most [\d,]+ bytes \(got \d[^\n]*"
"""Pattern of a message that a row was answered with; plans, which Spark's errors show, have its beginning too."""
NO_MEMORY = r"OutOfMemoryError|OutOfDirectMemoryError"
OUT_OF_MEMORY = 52
"""Exit status of Spark's JVM after a task has run out of memory."""
OWN = re.compile(r"^dedup\.errors\.(\w+): (.*)$", re.MULTILINE)
"""Pattern of an error of this package at the end of a worker's traceback."""
TEMPORARY = (
    r"(?:Exception|Failed to create)[^\n]*/blockmgr-[0-9a-f]{8}-[^\n]*|\[Errno \d+\] [^\n]*/pyspark-[0-9a-f]{8}-.*"
)
"""Pattern of what Java and Python say of a file in spark.local.dir that is gone or cannot be made."""
REFUSED = r"\(Service: S3, Status Code: (?:403|429|5\d\d)"
"""Pattern of S3's answer to Spark where it does not give an object, or not now."""
AGAIN = "repeat the command, which goes on"
EXHAUSTED = f"Spark ran out of memory; raise spark.driver.memory, on a cluster spark.executor.memory, and {AGAIN}"


def recognise(error: BaseException) -> DedupError | None:
    """Return the error with advice on a fault of Spark or the systems below it; None if it is unknown."""
    if not isinstance(error, Py4JJavaError | PySparkException | OSError):
        return _explain_end() if isinstance(error, Py4JError) else None
    said = str(error)
    own = OWN.search(said)
    if own and (kind := getattr(errors, own[1], None)) is not None:
        found: DedupError = kind(own[2].strip())
        return found
    known = next((make(said) for sign, make in KNOWN.items() if re.search(sign, said)), None)
    return known or (_explain_end() if isinstance(error, OSError) else None)


def find_cause(error: PySparkException | Py4JJavaError) -> str:
    """Return the first line of an error of Spark's, without secrets."""
    said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    return " ".join(redact_text(str(said)).strip().partition("\n")[0].split())


def _explain_end() -> DedupError | None:
    """Return the error of a JVM that ran out of memory, which Python sees as a lost connection only."""
    end = read_end()
    if end is None:
        return None
    if end.status == -signal.SIGKILL:
        return DedupError(f"{KILLED}, and {AGAIN}")
    is_full = end.status == OUT_OF_MEMORY or re.search(NO_MEMORY, end.said)
    return DedupError(EXHAUSTED) if is_full else None


def _unreadable(said: str) -> DedupError:
    reason = REASON.search(said)
    why = _shorten(reason[0] if reason else said)
    paths = [path.rstrip(".):]") for path in PATH.findall(said)]
    damaged = next((path for path in paths if ".partial/stages/" in path), None)
    if damaged:
        return StorageError(f"{damaged}: cannot be read ({why}); repeat the command, which makes damaged tables again")
    return DataError(f"--input: {paths[0] if paths else 'a file'} cannot be read ({why}); mend it or take it away")


def _refused(said: str) -> DedupError:
    path = PATH.search(said)
    where = path[0].rstrip(".):]") if path else "a file"
    why = _shorten(said.rpartition("S3Exception: ")[2].partition("\n")[0])
    return StorageError(f"{where}: must be given to Spark by its store ({why}); then {AGAIN}")


def _lacking(said: str) -> DedupError:
    found = re.search(TEMPORARY, said)
    return StorageError(
        f"spark.local.dir: must keep Spark's files as long as it works ({_shorten(found[0] if found else said)}); let "
        f"nobody clean it up meanwhile, or name another folder, and {AGAIN}"
    )


def _shorten(text: str) -> str:
    first = " ".join(text.partition("\n\tat ")[0].split())
    return first if len(first) <= SHOWN_LENGTH else f"{first[:SHOWN_LENGTH]}..."


KNOWN: dict[str, Callable[[str], DedupError]] = {
    TOO_LONG: lambda said: DataError(re.findall(TOO_LONG, said)[0]),
    r"No space left on device|Disk quota exceeded|DiskOutOfSpaceException|not enough space": lambda _: StorageError(
        f"no space is left on the disk of the output or of spark.local.dir; make some and {AGAIN}"
    ),
    NO_MEMORY: lambda _: DedupError(EXHAUSTED),
    TEMPORARY: _lacking,
    "Python worker exited unexpectedly": lambda _: DedupError(
        "a Python worker of Spark ended before its work was done, most likely for lack of memory; free some, on a "
        f"cluster raise spark.executor.memoryOverheadFactor, and {AGAIN}"
    ),
    r"CANNOT_MERGE_SCHEMA|Failed to merge|CSV header does not conform|PARQUET_COLUMN_DATA_TYPE_MISMATCH": lambda said: (
        SchemaError(f"--input: columns of one name must be alike in all files ({_shorten(said)})")
    ),
    r"MALFORMED_RECORD|MALFORMED_CSV_RECORD|Malformed records are detected": lambda said: DataError(
        f"--table: every record must be whole ({_shorten(said)}); mend it, or read the files by --input, where "
        "input.on_bad_record=quarantine sets such records aside"
    ),
    r"UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE|EMPTY_SCHEMA_NOT_SUPPORTED_FOR_DATASOURCE": lambda said: SchemaError(
        f"output.format: must be one in which Spark writes every column ({_shorten(said)}); leave that column out, or "
        "choose another format"
    ),
    r"SQLSTATE: 22": lambda said: DataError(
        f"--table: Spark must find a value in every row, also for sql: in keep.order ({_shorten(said)}); mend the "
        "expression, or the rows"
    ),
    REFUSED: _refused,
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|ould not read footer|is not a Parquet file|ChecksumException"
    r"|CRC checksum verification failed|FileNotFoundException": _unreadable,
}
"""Errors by pattern of Java's message; the first match decides."""
