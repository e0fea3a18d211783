"""Make dist/dedup.zip, the package, and dist/environment.tar.gz, a Python with it and all that it needs on executors.

The environment holds the run-time dependencies of .venv except pyspark, which a cluster has. Its interpreter is a link:
machines need the same Python (major.minor) at the same path as this one. Modules and the innermost loops are in it as
compiled here: executors would compile them anew for every run, for 15 seconds each. Those with another processor do.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CLUSTERS_OWN = {"pyspark", "py4j"}
ELSEWHERE = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""What keeps compiled modules from lying beside their sources."""


def main() -> None:
    """Build both, the environment only if .venv or the package is newer; others that build meanwhile wait for it."""
    DIST.mkdir(exist_ok=True)
    with (DIST / "package.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with replacing(DIST / "dedup.zip") as part:
            pack_package(part)
        packed = DIST / "environment.tar.gz"
        sources = [ROOT / ".venv" / "requirements-spark.lock", ROOT / "scripts" / "compile.py", *list_package()]
        if packed.exists() and packed.stat().st_mtime > max(each.stat().st_mtime for each in sources):
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


def list_package() -> list[Path]:
    """Return the files of the package."""
    found = sorted((ROOT / "dedup").rglob("*"))
    return [file for file in found if file.is_file() and "__pycache__" not in file.parts]


def pack_package(target: Path) -> None:
    """Write the package as a zip, for --py-files."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in list_package():
            archive.write(file, file.relative_to(ROOT))


def pack_environment(target: Path) -> None:
    """Write a virtual environment with the package and the distributions that it needs, for --archives."""
    with tarfile.open(target, "w:gz", compresslevel=1) as archive, tempfile.TemporaryDirectory() as empty:
        venv.create(empty, symlinks=True)
        packages = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        distributions = sorted(needed(), key=lambda one: one.name)
        install_package(Path(empty) / packages, compiles="numba" in {each.name for each in distributions})
        archive.add(empty, ".", filter=for_all)
        for found in distributions:
            for file in found.files or ():
                # What lies outside site-packages are commands and headers; nobody runs the tests of others.
                if ".." in file.parts or {"__pycache__", "tests"} & {*file.parts}:
                    continue
                archive.add(str(file.locate()), str(packages / file), filter=for_all)
                compiled = Path(cache_from_source(str(file.locate())))
                if file.suffix == ".py" and compiled.exists():
                    # Beside its source there, wherever it lies here.
                    archive.add(compiled, str(packages / file.parent / "__pycache__" / compiled.name), filter=for_all)


def install_package(folder: Path, *, compiles: bool) -> None:
    """Copy the package into a folder of packages, and compile it and what it imports."""
    for file in list_package():
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        # Archives keep whole seconds, and what was compiled is known by the time of its source.
        os.utime(copy, (int(file.stat().st_mtime),) * 2)
    if compiles:
        # In the folder, from where it is imported first.
        beside = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
        beside["PYTHONPATH"] = str(folder)
        subprocess.run([sys.executable, ROOT / "scripts" / "compile.py"], check=True, env=beside)  # noqa: S603 - this Python


def for_all(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Let every user read a member, whoever made .venv: executors run as users of their own."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode |= 0o555 if member.mode & 0o100 else 0o444
    return member


def needed() -> set[Distribution]:
    """Return the distributions that the package needs at run time, its extra `spark` included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    open_names = [*project["dependencies"], *extras["spark"]]
    found: dict[str, Distribution] = {}
    while open_names:
        requirement = Requirement(open_names.pop())
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name.lower() not in CLUSTERS_OWN | found.keys():
            found[requirement.name.lower()] = distribution(requirement.name)
            open_names += found[requirement.name.lower()].requires or []
    return set(found.values())


main()
