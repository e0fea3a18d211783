"""File systems of paths and URLs, with the machine's own credentials."""

import base64
import datetime as dt
import errno
import functools
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from dedup.display import SIGNATURE
from dedup.errors import StorageError

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
OBJECT_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs"}
"""Schemes of stores whose URLs are a bucket and a key, by the name of the store."""
SCHEMES = {"file", *OBJECT_STORES, "abfs", "abfss", "hdfs", "viewfs"}
"""Schemes that pyarrow reads and writes."""
NO_RENAME = {*OBJECT_STORES, "oss", "cos", "cosn", "obs", "swift", "wasb", "wasbs", "r2", "oci"}
"""Schemes of stores in which a rename copies every object; Azure's abfs renames in one step."""
FULL = (errno.ENOSPC, errno.EDQUOT)
NAME_BYTES = 255
"""Longest name of a file or folder that common file systems take."""
STORE_SAYS = re.compile(r"AWS Error|google::cloud::|Azure Error")
"""Words of pyarrow's clients before what a store has answered, or that it has not."""
MOUNTS = "/proc/self/mountinfo"
"""Linux's list of mount points, which escapes spaces in names."""
SHOWN_BYTES = 300
"""Most bytes shown of a name or value that is not UTF-8."""
CONNECT_SECONDS = 5.0
SILENT_SECONDS = 15.0
"""Seconds without data after which a store's answer has failed."""
TRIES = 3
"""Seconds for each request."""


def split_url(path: str) -> tuple[str, str]:
    """Return the scheme, empty for a path of this machine, and the rest.

    Raises
    ------
    StorageError
        When the path is empty, is not UTF-8, or holds a NUL or a name that is too long.
    """
    shown = redact(path)
    if not path:
        raise StorageError("'': must be a path or glob (it is empty)")
    if "\0" in path:
        raise StorageError(f"{shown!r}: must be a path or glob (it holds a NUL character)")
    try:
        longest = max(map(len, path.encode().split(b"/")))
    except UnicodeEncodeError:
        raise StorageError(f"{shown!r}: must be a path or glob in UTF-8; rename it") from None
    if longest > NAME_BYTES:
        limit = f"names of at most {NAME_BYTES} bytes (got one of {longest:,})"
        raise StorageError(f"{shown[:60]!r}...: must consist of {limit}")
    match = SCHEME.match(path)
    if match is None:
        return "", path
    scheme, rest = match[1].lower(), path[match.end() :]
    if scheme == "file":
        return "", "/" + rest.removeprefix("//").removeprefix("localhost/").lstrip("/")
    return scheme, rest.removeprefix("//")


def resolve(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URL, and the path as that file system takes it.

    Paths without a scheme and `file:` are on this machine; `s3:`, `s3a:`, `gs:`, `abfs:`, `abfss:` and `hdfs:` take
    credentials from where their own tools do: environment, files of the user, the machine's role. `AWS_ENDPOINT_URL`
    names another server of S3, `AZURE_STORAGE_KEY` or `AZURE_STORAGE_SAS_TOKEN` opens an account of Azure.

    Raises
    ------
    StorageError
        When the path cannot be one, its scheme is unknown, or it holds a user or a password.
    """
    scheme, rest = split_url(path)
    if not scheme:
        return _connect("", ""), os.path.abspath(rest)  # noqa: PTH100 - keeps what a Path would tidy away
    authority, _, key = rest.partition("/")
    if scheme in OBJECT_STORES:
        if not authority or re.search(r"[:@]", authority):
            rule = "must name a bucket, without user or password; credentials come from the environment"
            raise StorageError(f"{redact(path)!r}: {rule}")
        return _connect(OBJECT_STORES[scheme], ""), f"{authority}/{key}".rstrip("/")
    with readable(path):
        if scheme in {"abfs", "abfss"}:
            container, _, account = authority.partition("@")
            return _connect("abfs", account.partition(".")[0]), f"{container}/{key}".rstrip("/")
        if scheme in {"hdfs", "viewfs"}:
            return _connect(scheme, authority), f"/{key}"
    raise refuse_scheme(path)


def refuse_scheme(path: str) -> StorageError:
    """Return the error of an unsupported scheme."""
    scheme = split_url(path)[0]
    return StorageError(f"{redact(path)!r}: must be on a local disk, s3, gs, abfs or hdfs (got scheme {scheme!r})")


def _connect(scheme: str, host: str) -> fs.FileSystem:
    # A client is of the process that made it. A fork of that process keeps it unused: to end one of HDFS there waits
    # for ever for threads of a JVM that the fork does not have.
    return _connect_of(os.getpid(), scheme, host)


@functools.lru_cache(maxsize=64)
def _connect_of(_process: int, scheme: str, host: str) -> fs.FileSystem:
    if not scheme:
        return fs.LocalFileSystem()
    if scheme == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return fs.S3FileSystem(
            endpoint_override=endpoint,
            region=region or ("us-east-1" if endpoint else None),
            connect_timeout=CONNECT_SECONDS,
            request_timeout=SILENT_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
        )
    if scheme == "gs":
        return fs.GcsFileSystem(retry_time_limit=dt.timedelta(seconds=TRIES * SILENT_SECONDS))
    if scheme == "abfs":
        # As the tools of Azure have them; without either pyarrow asks for the identity of the user or the machine.
        key, token = read_azure_key(), os.environ.get("AZURE_STORAGE_SAS_TOKEN")
        return fs.AzureFileSystem(account_name=host, account_key=key, sas_token=None if key else token)
    if not os.environ.get("CLASSPATH"):
        # Without, libhdfs ends the process.
        raise OSError('CLASSPATH must name the jars of Hadoop: export CLASSPATH="$(hadoop classpath --glob)"')
    # Otherwise the JVM of libhdfs takes Ctrl-C and SIGTERM for itself, and ends the process amid its work.
    os.environ["LIBHDFS_OPTS"] = f"{os.environ.get('LIBHDFS_OPTS', '')} -Xrs".strip()
    client = fs.FileSystem.from_uri(f"{scheme}://{host}/")[0]
    # Otherwise all that is asked of a name node that does not answer seems not to exist.
    if client.get_file_info("/").type is fs.FileType.NotFound:
        raise OSError("the name node does not answer")
    return client


def read_azure_key() -> str | None:
    """Return the key of an Azure account; None if the environment has none.

    Raises
    ------
    OSError
        When it is malformed: Azure's client would crash the process.
    """
    key = os.environ.get("AZURE_STORAGE_KEY")
    try:
        base64.b64decode(key or "", validate=True)
    except ValueError:
        raise OSError("AZURE_STORAGE_KEY must be the account's key, in base64 (it is no base64)") from None
    return key


def redact(path: str) -> str:
    """Return a path or URL fit to be shown, with users and passwords struck out."""
    match = SCHEME.match(path)
    if match is None or "@" not in path:
        return path
    return f"{match[0]}//***@{path.rpartition('@')[2]}"


def is_local(path: str) -> bool:
    """Tell whether a path is on this machine's own file system."""
    return not split_url(path)[0]


def can_fork(paths: Iterable[str]) -> bool:
    """Tell whether forked processes can use these paths too; the JVM used for HDFS survives no fork."""
    return not {split_url(path)[0] for path in paths} & {"hdfs", "viewfs"}


def absolute(path: str) -> str:
    """Return a path that is valid in another folder; URLs are unchanged."""
    scheme, rest = split_url(path)
    return path if scheme else os.path.join(os.getcwd(), rest)  # noqa: PTH109, PTH118 - keeps what a Path tidies away


def follow(path: str) -> str:
    """Return the target of a link on this machine, or of a path that ends in a dot; any other path as it is."""
    scheme, rest = split_url(path)
    place = rest.rstrip("/")
    if scheme or not (os.path.islink(place) or os.path.basename(place) in {"", ".", ".."}):  # noqa: PTH114, PTH119
        return path
    return os.path.realpath(rest)


def is_mount(path: str) -> bool:
    """Tell whether a path of this machine is a mount point, or a folder of another place."""
    place = os.path.realpath(split_url(path)[1])
    if os.path.ismount(place):
        return True
    try:
        lines = Path(MOUNTS).read_bytes().splitlines()
    except OSError:  # not Linux
        return False
    # A folder mounted on another of its own file system has nothing else to tell it.
    shown = re.sub(rb"[\\ \t\n]", lambda found: b"\\%03o" % found[0][0], os.fsencode(place))
    return any(line.split(b" ")[4] == shown for line in lines)


def can_rename(path: str) -> bool:
    """Tell whether the file system of a path renames a folder in one step."""
    return split_url(path)[0] not in NO_RENAME


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn a file system's error into a StorageError that names the path."""
    try:
        yield
    except MemoryError:
        # One of Arrow's exceptions too, which says nothing of the path.
        raise
    except (OSError, NotImplementedError, ValueError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise StorageError(
                f"no space is left on the disk of {redact(path)}; make some and repeat the command"
            ) from None
        raise StorageError(
            f"{redact(path)}: must be a path that can be read and written ({find_reason(error)})"
        ) from None


@contextmanager
def whole(path: str) -> Iterator[None]:
    """Turn the error of a reader of what a run has written into a StorageError that names the path."""
    try:
        yield
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        rule = f"must be as the run has left it ({find_reason(error)})"
        raise StorageError(f"{redact(path)}: {rule}; bring it back, or make the output again") from error


def is_of_system(error: Exception) -> bool:
    """Tell whether a file system refused to read, rather than gave bytes that a reader of the format refused."""
    return isinstance(error, OSError) and (error.errno is not None or STORE_SAYS.search(str(error)) is not None)


def find_reason(error: Exception) -> str:
    """Return an error's message in one line without secrets."""
    if isinstance(error, UnicodeDecodeError):
        return f"it holds {error.object[:SHOWN_BYTES]!r}, which is not UTF-8"
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(redact_text(said).split()) or type(error).__name__


def redact_text(text: str) -> str:
    """Return a message with users in URLs and signatures of Azure struck out."""
    return SIGNATURE.sub("***", re.sub(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)\S*@", r"\1***@", text))
