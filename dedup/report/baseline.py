"""An earlier run, and what has changed since."""

import json
from collections.abc import Mapping
from typing import Any

from dedup.display import hide_secrets
from dedup.errors import StorageError
from dedup.report.metrics import METRICS
from dedup.settings.files import flatten

COMPARED = tuple(name for name in METRICS if name != "removal_rate_change")
"""Numbers of report.json that are shown beside those of the baseline."""


def parse_baseline(path: str, content: str | None) -> dict[str, Any]:
    """Return the report of an earlier run from the report.json of its output; None stands for a missing one.

    Raises
    ------
    StorageError
        When there is none.
    """
    try:
        found = json.loads(content) if content is not None else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or not _is_number(found.get("removal_rate")) or "settings" not in found:
        raise StorageError(f"--baseline {path}: must be the output of an earlier run (it has no report.json of one)")
    return found | {"output": path}


def hold_against(report: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """Return the baseline's numbers, and those of its settings that were others, then and now."""
    now, then = (flatten(each["settings"]) for each in (report, baseline))
    return {
        "output": hide_secrets(baseline["output"]),
        "numbers": {name: value for name in COMPARED if _is_number(value := baseline.get(name))},
        "settings": {name: [then.get(name), now[name]] for name in now if then.get(name) != now[name]},
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
