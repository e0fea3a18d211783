"""The file systems of the input and the output: through Hadoop's API, or from a client of Spark Connect its own."""

import contextlib
import re
from typing import Any, Self, TypeAlias

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dedup.engine.sessions import is_connect
from dedup.errors import StorageError
from dedup.files.globs import find_paths, is_hidden
from dedup.files.storage import Entry, Storage
from dedup.files.systems import can_rename, is_local


class ClientStorage(Storage):
    """The file systems as a client of Spark Connect sees them, which must be as its server does."""

    def without_checksums(self) -> Self:
        """See `HadoopStorage.without_checksums`."""
        return self

    def is_on_disk(self, path: str) -> bool:
        """See `HadoopStorage.is_on_disk`."""
        return is_local(path)

    def first_file(self, pattern: str) -> tuple[str, str] | None:
        """See `HadoopStorage.first_file`."""
        for _, root in find_paths(self, re.sub(r"\\(.)", r"\1", pattern)):
            if not self.is_folder(root):
                return root, ""
            for entry in self.list(root, recursive=True):
                if not entry.is_folder and not any(map(is_hidden, entry.path.split("/"))):
                    return root, entry.path
        return None


class HadoopStorage:
    """The file systems as Spark sees them.

    Parameters
    ----------
    checksums
        Whether files on a disk have the checksum files that Hadoop keeps beside them. A file that is read while it is
        written again must not: the reader meets half a checksum, for which Hadoop logs a stack trace.
    """

    def __init__(self, spark: SparkSession, *, checksums: bool = True) -> None:
        self._spark = spark
        self._checksums = checksums
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - Hadoop's API has no other door from Python
        # Each step of the name asks Java for classes, some of which it looks for in all jars.
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        self._hadoop_conf = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above

    def without_checksums(self) -> Self:
        """Return the same file systems, for files that are read while they are written."""
        return type(self)(self._spark, checksums=False)

    def is_on_disk(self, path: str) -> bool:
        """Tell whether a path is one on the machines' own disks: a path without a scheme is of Spark's default."""
        default = str(self._hadoop_conf.get("fs.defaultFS", "file:///"))
        return is_local(path) and (default.startswith("file:") or path.startswith("file:"))

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder is there."""
        return bool(self._system(path).exists(self._path(path)))

    def is_folder(self, path: str) -> bool:
        """Tell whether a folder is there."""
        return self.exists(path) and bool(self._system(path).getFileStatus(self._path(path)).isDirectory())

    def delete(self, path: str) -> None:
        """Remove a file or a whole folder, if it is there."""
        self._system(path).delete(self._path(path), True)  # noqa: FBT003 - recursively, in Java

    def list(self, path: str) -> list[Entry]:
        """Return the files and folders in a folder."""
        return [
            Entry(
                path=status.getPath().getName(),
                is_folder=status.isDirectory(),
                size=status.getLen(),
                changed=status.getModificationTime() * 1_000_000,
            )
            for status in self._system(path).listStatus(self._path(path))
        ]

    def can_rename(self, path: str) -> bool:
        """Tell whether a folder is renamed in one step, as on a disk and unlike on an object store."""
        return can_rename(f"{self._system(path).getScheme()}:/")

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder to a name that is free.

        Raises
        ------
        StorageError
            When the file system refuses.
        """
        if self.exists(target) or not self._system(source).rename(self._path(source), self._path(target)):
            raise StorageError(f"{target}: must be free to take {source} (the file system refused the rename)")

    def write_text(self, path: str, content: str) -> None:
        """Write a small UTF-8 file, over an existing one."""
        with contextlib.closing(self._system(path).create(self._path(path))) as stream:
            stream.write(bytearray(content, "utf-8"))

    def create_text(self, path: str, content: str) -> bool:
        """Write a small UTF-8 file unless there is one; tell whether it was written.

        Two that try at the same moment can both succeed where the file system does not create files atomically; the
        content is then that of one of them.
        """
        try:
            stream = self._system(path).create(self._path(path), False)  # noqa: FBT003 - overwrite, in Java
        except Py4JJavaError as error:
            kind = error.java_exception.getClass().getSimpleName()
            if kind in {"FileAlreadyExistsException", "AlreadyBeingCreatedException"}:
                return False
            raise
        with contextlib.closing(stream):
            stream.write(bytearray(content, "utf-8"))
        return True

    def read_text(self, path: str) -> str:
        """Read a small UTF-8 file."""
        with contextlib.closing(self._system(path).open(self._path(path))) as stream:
            return bytes(stream.readAllBytes()).decode("utf-8")

    def first_file(self, pattern: str) -> tuple[str, str] | None:
        """Return the first data file that a file, folder or glob leads to; None if there is none.

        Returns
        -------
        root, path
            The file or folder that the pattern names, and the file's path below it, empty if it is that file.
        """
        for status in self._system(pattern).globStatus(self._path(pattern)) or ():
            root = str(status.getPath())
            if is_hidden(root.rsplit("/", 1)[-1]):
                continue
            if not status.isDirectory():
                return root, ""
            files = self._system(pattern).listFiles(status.getPath(), True)  # noqa: FBT003 - recursively, in Java
            while files.hasNext():
                below = str(files.next().getPath())[len(root) + 1 :]
                if not any(map(is_hidden, below.split("/"))):
                    return root, below
        return None

    def _system(self, path: str) -> Any:  # noqa: ANN401 - a Java object
        try:
            system = self._path(path).getFileSystem(self._hadoop_conf)
        except Py4JJavaError as error:
            reason = error.java_exception.getMessage()
            raise StorageError(f"{path!r}: must be on a file system that Spark can reach ({reason})") from error
        gateway = self._spark.sparkContext._gateway  # noqa: SLF001 - as above
        if not self._checksums and is_instance_of(gateway, system, "org.apache.hadoop.fs.ChecksumFileSystem"):
            return system.getRawFileSystem()
        return system


SparkStorage: TypeAlias = ClientStorage | HadoopStorage
"""The file systems of a run on Spark."""


def open_storage(spark: SparkSession) -> SparkStorage:
    """Return the file systems of a session."""
    return ClientStorage() if is_connect(spark) else HadoopStorage(spark)
