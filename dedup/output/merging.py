"""DECISIONS -> what the documents removed pass on to the one kept: further columns of its row."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.errors import ConfigError
from dedup.files.formats.format import Format
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.groups import join_groups
from dedup.settings.keeping import COUNT, ENDS, list_merged, name_merged, parse_merge
from dedup.settings.options import Config
from dedup.tables import arrow

Group: TypeAlias = Sequence[Sequence[str | None]]
"""Values of the columns of `list_merged`, of a document kept and of those removed for it."""
PASSED, ROW, GONE = 0, 1, 2
PLACE = ("split", "file", "row")


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


def list_added(entries: Sequence[str]) -> pa.Schema:
    """Return the columns that `keep.merge` asks for."""
    kinds = {COUNT: pa.int64()} | dict.fromkeys(ENDS, pa.string())
    rules = parse_merge(entries)
    return pa.schema([(name_merged(rule), kinds.get(rule.name, pa.list_(pa.string()))) for rule in rules])


def merge_groups(entries: Sequence[str], groups: Sequence[Group]) -> list[pa.Array]:
    """Return these columns, of documents that stay for others."""
    columns = []
    for rule, added in zip(parse_merge(entries), list_added(entries), strict=True):
        if rule.name == COUNT:
            columns.append(pa.array([len(group) for group in groups], added.type))
            continue
        place = list_merged(entries).index(rule.of)
        known = [sorted({value for each in group if (value := each[place]) is not None}) for group in groups]
        if rule.name in ENDS:
            end = 0 if rule.name == ENDS[0] else -1
            columns.append(pa.array([each[end] if each else None for each in known], added.type))
        else:
            columns.append(pa.array(known, added.type))
    return columns


def merge_values(engine: Engine[Rows], documents: Rows, decisions: Rows, entries: Sequence[str]) -> Rows:
    """REGISTER, DECISIONS -> doc_id, place and the columns of `keep.merge` of rows that stay for others.

    Rows that stay for none stand for themselves.
    """
    columns = ("doc_id", "id", *PLACE, "merged")
    register = arrow.register(engine.id_type)
    keyed = pa.schema([("key", pa.int64()), ("role", pa.int64()), *(register.field(name) for name in columns)])
    passed, rows, gone = (
        engine.map(
            engine.select(table, *columns, *(["representative_id"] if role == PASSED else [])),
            partial(_key, role=role, schema=keyed),
            keyed,
        )
        for table, role in ((decisions, PASSED), (documents, ROW), (decisions, GONE))
    )
    keys = engine.select(passed, "key")
    own = (engine.join(each, keys, "key", key="key", how="semi") for each in (rows, gone))
    schema = pa.schema([register.field(name) for name in ("doc_id", *PLACE)] + [*list_added(entries)])
    shuffle = Shuffle(
        emitted=keyed,
        by=["key"],
        order=["file", "row", "role"],
        work=partial(_merge, entries=entries, schema=schema),
        schema=schema,
    )
    return engine.group("merged", engine.concat(passed, *own), shuffle)


def _key(batches: Batches, *, role: int, schema: pa.Schema) -> Batches:
    """Give rows the hash of the id of the document that stays; those that pass their values on stand nowhere."""
    for batch in batches:
        rows, nowhere = batch, {}
        if role == PASSED:
            # Nothing stays for what a layer removes by itself.
            rows = batch.filter(batch["representative_id"].is_valid())
            nowhere = {"id": rows["representative_id"], **dict.fromkeys(PLACE, -1)}
        columns = {name: rows[name].fill_null(0) for name in PLACE} | {"id": rows["id"]} | nowhere
        yield conform(rows, schema, key=to_doc_ids(columns["id"]), role=role, **columns)


def _merge(batches: Batches, *, entries: Sequence[str], schema: pa.Schema) -> Batches:
    """Yield rows that stay with the values of all that they stand for."""
    for batch in join_groups(batches, ["key"]):
        roles = batch["role"].to_numpy()
        # What goes follows its own row.
        stays = (roles == ROW) & (np.append(roles[1:], ROW) != GONE)
        passed: dict[object, list[Sequence[str | None]]] = {}
        given = batch.filter(pa.array(roles == PASSED))
        for user_id, values in zip(given["id"].to_pylist(), given["merged"].to_pylist(), strict=True):
            passed.setdefault(user_id, []).append(values or [])
        staying = batch.filter(pa.array(stays))
        # Ids of one hash are of one call.
        staying = staying.filter(pc.is_in(staying["id"], pa.array([*passed], staying["id"].type)))
        ids, own = staying["id"].to_pylist(), staying["merged"].to_pylist()
        groups = [[values or [], *passed[user_id]] for user_id, values in zip(ids, own, strict=True)]
        columns = [staying[name] for name in ("doc_id", *PLACE)]
        yield pa.RecordBatch.from_arrays([*columns, *merge_groups(entries, groups)], schema=schema)
