"""The door to the JVM, which is asked once for each name.

Py4J asks the JVM whatever `jvm.org.apache.spark` and `jvm.PythonUtils` are each time they are met, and PySpark meets
them for every column: 1,200 names in a run by tasks. The JVM looks for a class of that name in each of Spark's nearly
300 jars, half a second of a small run.
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import SparkSession


def remember_names(spark: SparkSession) -> None:
    """Let the JVM of a session be asked once for each package and each class.

    What is no class when it is first met stays a package, so jars that are added later give classes by names below it
    alone.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only door to the JVM
    if type(jvm) is JVMView:
        jvm.__class__ = _View


class _View(JVMView):  # type: ignore[misc] # Py4J has no types
    """All that the JVM knows."""

    def __getattr__(self, name: str) -> object:
        return _keep(self, name, super().__getattr__(name))


class _Package(JavaPackage):  # type: ignore[misc] # Py4J has no types
    """A package of classes, or of packages."""

    def __getattr__(self, name: str) -> object:
        return _keep(self, name, super().__getattr__(name))


def _keep(holder: object, name: str, found: object) -> object:
    """Return what was found, as an attribute that is there from now on."""
    if isinstance(found, JavaPackage):
        found.__class__ = _Package
    if isinstance(found, JavaPackage | JavaClass):
        setattr(holder, name, found)
    return found
