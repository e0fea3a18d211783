"""Memory and cores of this machine."""

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
LIMITS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
"""Memory limit of a container and its use of it, by both versions of control groups."""


def free_bytes() -> int:
    """Return the memory that can be taken without swapping: of the machine, and of the container if it has less."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    info = Path("/proc/meminfo")
    if info.exists():
        sizes = dict(line.split(":", 1) for line in info.read_text("ascii").splitlines())
        found.append(int(sizes["MemAvailable"].split()[0]) << 10)
    for most, used in LIMITS:
        if (CGROUP / most).exists() and (limit := (CGROUP / most).read_text().strip()).isdigit():
            found.append(int(limit) - int((CGROUP / used).read_text()))
    return max(min(found), 0)
