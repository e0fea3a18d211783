"""Counts of a run's profiles, separate and added up."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import zip_longest
from typing import Any

from dedup.kernels.removal_statistics import DOUBTFUL, REMOVERS
from dedup.kernels.representatives import LARGEST
from dedup.settings.options import Config
from dedup.tables.counts import Layered, Near, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """Outcome of one profile's documents."""

    name: str
    config: Config
    layers: Sequence[Layered]
    near: Near
    written: Written


def unite(parts: Sequence[Near]) -> Near:
    """Combine the counts of parts of the documents, as if they had been counted together.

    Counts at other thresholds (`joined`) are left out, as each part has thresholds of its own.
    """
    if len(parts) < 2:
        return parts[0] if parts else Near.none()
    found: Near = _unite("near", parts)
    return found


def _unite(name: str, values: Sequence[Any]) -> Any:  # noqa: ANN401 - of any field of Near
    known = [value for value in values if value is not None]
    if name in _OWN:
        return _OWN[name](known)
    if not known:
        return None
    if is_dataclass(known[0]) and not isinstance(known[0], type):
        names = [each.name for each in fields(known[0])]
        return replace(known[0], **{each: _unite(each, [getattr(value, each) for value in known]) for each in names})
    if isinstance(known[0], Mapping):
        sums: Counter[Any] = Counter()
        for value in known:
            sums.update(value)
        return dict(sorted(sums.items()) if name == "sizes" else sums.items())
    if isinstance(known[0], str):
        return ", ".join(dict.fromkeys(filter(None, known)))
    return sum(known)


def _add(histograms: Sequence[Sequence[int]]) -> list[int]:
    return [sum(counts) for counts in zip_longest(*histograms, fillvalue=0)]


def _pick(
    parts: Sequence[Sequence[Mapping[str, Any]]], key: Callable[[Mapping[str, Any]], Any], most: int
) -> list[Any]:
    return sorted((each for part in parts for each in part), key=key)[:most]


def _count_removers(parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    sums: Counter[tuple[str | None, str | None]] = Counter()
    for part in parts:
        sums.update({(each["source"], each["by"]): each["documents"] for each in part})
    told = [{"source": source, "by": by, "documents": count} for (source, by), count in sums.items()]
    return _pick([told], lambda each: (-each["documents"], each["source"] or "", each["by"] or ""), REMOVERS)


_OWN: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "similarities": _add,
    "least": lambda parts: min(parts, default=None),
    "doubtful": lambda parts: _pick(parts, lambda each: (each["jaccard"], each["doc_id"]), DOUBTFUL),
    "largest": lambda parts: _pick(parts, lambda each: (-each["documents"], each["doc_id"]), LARGEST),
    "removers": _count_removers,
    "joined": lambda _: (),
    "points": lambda _: (),
}
