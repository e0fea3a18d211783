"""Make dist/dedup.zip, the package, and dist/environment.tar.gz, what it needs on executors.

The environment holds the run-time dependencies of .venv except pyspark, which a cluster has. Its interpreter is a link:
machines need the same Python (major.minor) at the same path as this one.
"""

import shutil
import sys
import tomllib
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import venv_pack
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CLUSTERS_OWN = {"pyspark", "py4j"}


def main() -> None:
    """Build both, each in place of the last only once it is whole, the environment only if .venv is newer."""
    DIST.mkdir(exist_ok=True)
    package = DIST / "dedup.zip.part"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted((ROOT / "dedup").rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(ROOT))
    package.replace(DIST / "dedup.zip")

    packed = DIST / "environment.tar.gz"
    if packed.exists() and packed.stat().st_mtime > (ROOT / ".venv" / "requirements.lock").stat().st_mtime:
        return
    folder = DIST / "environment"
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, symlinks=True)
    target = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for found in sorted(needed(), key=lambda one: one.name):
        for file in found.files or ():
            # What lies outside site-packages are commands and headers.
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), target / file)
    part = DIST / "part.tar.gz"
    venv_pack.pack(prefix=str(folder), output=str(part), force=True, compress_level=1)
    part.replace(packed)
    shutil.rmtree(folder)
    sys.stderr.write(f"scripts/package: dist/{packed.name}, {packed.stat().st_size:,} bytes\n")


def needed() -> set[Distribution]:
    """Return the distributions that the package needs at run time, its extra `fast` included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    open_names = [*project["dependencies"], *project["optional-dependencies"]["fast"]]
    found: dict[str, Distribution] = {}
    while open_names:
        requirement = Requirement(open_names.pop())
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name.lower() not in CLUSTERS_OWN | found.keys():
            found[requirement.name.lower()] = distribution(requirement.name)
            open_names += found[requirement.name.lower()].requires or []
    return set(found.values())


main()
