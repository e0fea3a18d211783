"""What the documents removed pass on to the one kept: further columns of its row."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.values import Register
from dedup.errors import ConfigError
from dedup.files.formats.format import Format
from dedup.run.fates import Fates
from dedup.settings.keeping import COUNT, ENDS, list_merged, name_merged, parse_merge
from dedup.settings.options import Config

Group: TypeAlias = Sequence[Sequence[str | None]]
"""Of a document kept and those removed for it, the values of the columns of `list_merged`."""


def check_merge(config: Config, kind: Format) -> None:
    """Refuse to merge into what takes no columns.

    Parameters
    ----------
    kind
        Format of the output.

    Raises
    ------
    ConfigError
    """
    if config.keep.merge and config.output.mode != "filter":
        raise ConfigError(f'keep.merge: needs output.mode = "filter" (got "{config.output.mode}")')
    if config.keep.merge and not kind.has_lists:
        raise ConfigError(f"keep.merge: must be empty where the output is {kind.name}, which takes no lists")


def note_merged(entries: Sequence[str], rows: Sequence[int], groups: Sequence[Group]) -> pa.Table:
    """Return the columns that `keep.merge` asks for, of documents by their rows."""
    columns = {"row": pa.array(rows, pa.int64())}
    for rule in parse_merge(entries, "keep"):
        if rule.name == COUNT:
            columns[name_merged(rule)] = pa.array([len(group) for group in groups], pa.int64())
            continue
        place = list_merged(entries).index(rule.of)
        known = [sorted({value for each in group if (value := each[place]) is not None}) for group in groups]
        if rule.name in ENDS:
            end = 0 if rule.name == ENDS[0] else -1
            columns[name_merged(rule)] = pa.array([each[end] if each else None for each in known], pa.string())
        else:
            columns[name_merged(rule)] = pa.array(known, pa.list_(pa.string()))
    return pa.table(columns)


def merge_by_file(entries: Sequence[str], register: Register, fates: Fates, count: int) -> dict[int, pa.Table]:
    """Return the columns that `keep.merge` asks for, by file; rows without them stand for themselves."""
    kept_ids = fates.removals["representative_id"].combine_chunks()
    stays = ~fates.flag(register.doc_ids.size) & pc.is_in(register.ids, value_set=kept_ids).to_numpy(
        zero_copy_only=False
    )
    places = np.flatnonzero(stays)
    ids, merged = (each.take(pa.array(places)).to_pylist() for each in (register.ids, register.merged))
    groups = {user_id: [own or []] for user_id, own in zip(ids, merged, strict=True)}
    gone = register.merged.take(pa.array(fates.places)).to_pylist()
    for user_id, values in zip(kept_ids.to_pylist(), gone, strict=True):
        # Nothing stays for what a layer removes by itself.
        if user_id is not None:
            groups[user_id].append(values or [])
    # Equal rows, which have one id, can all stay.
    noted = [groups[user_id] for user_id in ids]
    found = {}
    for file in range(count):
        here = np.flatnonzero(register.files[places] == file)
        found[file] = note_merged(
            entries, register.rows[places[here]].tolist(), [noted[number] for number in here.tolist()]
        )
    return found
