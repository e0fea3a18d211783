"""Where and when a measurement was made."""

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
    """Return what the numbers depend on besides the code; Java is "none" where there is none."""
    try:
        told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    except FileNotFoundError:
        told = ""
    java = re.search(r'version "([^"]+)"', told)
    return {
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "java": java[1] if java else "none",
        **{name: version(name) for name in PACKAGES},
    }


def describe_run() -> dict[str, str]:
    """Return the day, and the commit of the sources, marked where they have changed since."""
    commit = _git("rev-parse", "--short=7", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "dedup", "jobs", "conf")
    return {"commit": f"{commit}+" if changed else commit, "date": datetime.now(UTC).date().isoformat()}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
