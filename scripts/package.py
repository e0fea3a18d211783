"""Make dist/dedup.zip, the package, and dist/environment.tar.gz, what it needs on executors.

The environment holds the run-time dependencies of .venv except pyspark, which a cluster has. Its interpreter is a link:
machines need the same Python (major.minor) at the same path as this one.
"""

import contextlib
import fcntl
import os
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CLUSTERS_OWN = {"pyspark", "py4j"}


def main() -> None:
    """Build both, the environment only if .venv is newer; others that build at the same time wait for it."""
    DIST.mkdir(exist_ok=True)
    with (DIST / "package.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with replacing(DIST / "dedup.zip") as part:
            pack_package(part)
        packed = DIST / "environment.tar.gz"
        if packed.exists() and packed.stat().st_mtime > (ROOT / ".venv" / "requirements-spark.lock").stat().st_mtime:
            return
        with replacing(packed) as part:
            pack_environment(part)
    sys.stderr.write(f"scripts/package: dist/{packed.name}, {packed.stat().st_size:,} bytes\n")


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a name of this process's own, whose file takes the place of the target once it is whole."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def pack_package(target: Path) -> None:
    """Write the package as a zip, for --py-files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((ROOT / "dedup").rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT))


def pack_environment(target: Path) -> None:
    """Write a virtual environment with the distributions needed, for --archives."""
    with tarfile.open(target, "w:gz", compresslevel=1) as archive, tempfile.TemporaryDirectory() as empty:
        venv.create(empty, symlinks=True)
        archive.add(empty, ".", filter=for_all)
        packages = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        for found in sorted(needed(), key=lambda one: one.name):
            for file in found.files or ():
                # What lies outside site-packages are commands and headers.
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    archive.add(str(file.locate()), str(packages / file), filter=for_all)


def for_all(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Let every user read a member, whoever made .venv: executors run as users of their own."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode |= 0o555 if member.mode & 0o100 else 0o444
    return member


def needed() -> set[Distribution]:
    """Return the distributions that the package needs at run time, its extras `fast` and `spark` included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    open_names = [*project["dependencies"], *extras["fast"], *extras["spark"]]
    found: dict[str, Distribution] = {}
    while open_names:
        requirement = Requirement(open_names.pop())
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name.lower() not in CLUSTERS_OWN | found.keys():
            found[requirement.name.lower()] = distribution(requirement.name)
            open_names += found[requirement.name.lower()].requires or []
    return set(found.values())


main()
