"""Where and when a measurement was made."""

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pyspark", "numpy", "pyarrow", "numba")


def describe_machine() -> dict[str, Any]:
    """Return what the numbers depend on besides the code."""
    return {
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "java": describe_java(),
        **{name: version(name) for name in PACKAGES},
    }


def describe_java() -> str:
    """Return the version of the Java that Spark starts; "none" where there is none."""
    home = os.environ.get("JAVA_HOME")
    program = Path(home, "bin", "java") if home else "java"
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, check=True).stderr
    except OSError:
        return "none"
    found = re.search(r'version "([^"]+)"', told)
    return found[1] if found else "none"


def describe_run() -> dict[str, str]:
    """Return the day, and the commit of the sources, marked where they have changed since."""
    commit = _git("rev-parse", "--short=7", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "dedup", "jobs", "conf")
    return {"commit": f"{commit}+" if changed else commit, "date": datetime.now(UTC).date().isoformat()}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
