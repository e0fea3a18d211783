"""Erasure: documents taken out of a store and of the outputs of its batches, with a receipt."""

import hashlib
import hmac
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup.engine.workers import count_cores
from dedup.errors import DataError
from dedup.explain.result import PublishedOutput
from dedup.files.formats.format import Edits, InputFile, Rows
from dedup.files.listing import list_files
from dedup.files.storage import CURRENT, MARK, UNFINISHED, VERSION, Storage, find_result
from dedup.files.systems import absolute, redact, whole
from dedup.informing import Inform
from dedup.report.build import to_json
from dedup.report.page import to_html
from dedup.report.summary import Drawing, draw_rest
from dedup.run.lock import Lock
from dedup.store.deleting import Deleted, delete_ids, to_ids
from dedup.store.snapshot import Snapshot
from dedup.store.state import State, read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import vacuum
from dedup.version import __version__

DROPS = {
    "duplicates": ("id",),
    "edges": ("left_id", "right_id"),
    "near_misses": ("left_id", "right_id"),
    "cosines": ("left_id", "right_id"),
    "changes": ("id",),
    "spans": ("id",),
}
"""Tables of an output, with the columns whose ids take their rows with them."""
NULLS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "duplicates": {"representative_id": ("jaccard",)},
    "spans": {"kept_id": ("kept_begin", "kept_end")},
}
"""Columns whose ids alone go, with those that say something of these documents."""
GROUPED = ("duplicates", "changes")
"""Tables with a component_id, which is another's once its document has gone."""
NOTED: Mapping[str, Sequence[str]] = {"dedup_representative_id": ("dedup_jaccard",), "dedup_component_id": ()}
"""Columns of mode annotate with ids of other documents, and those that say something of these."""
SKETCH = "sketch"
"""Folder of an output with some of its shingles."""
SIZED = ("bucket_sizes", "component_sizes")
"""Histograms of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasing:
    """Ids that go, and the files that changed for it."""

    ids: pa.Array
    storage: Storage = field(default_factory=Storage)
    changed: list[dict[str, str | None]] = field(default_factory=list)
    """`file`, and its SHA-256 `before` and `after`; null after where it was deleted."""

    def mark(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Flag the values that are ids of documents that go."""
        return pc.is_in(column, self.ids.cast(column.type))

    @contextmanager
    def change(self, path: str) -> Iterator[None]:
        """Take note of a file that is changed meanwhile; a checksum of Hadoop beside it goes, as it is of the old."""
        before = digest_file(self.storage, path)
        yield
        folder, _, name = path.rpartition("/")
        self.storage.delete(f"{folder}/.{name}.crc")
        after = digest_file(self.storage, path) if self.storage.exists(path) else None
        self.changed.append({"file": redact(path), "before": before, "after": after})

    def check(self, output: str) -> None:
        """Refuse an output whose ids or texts are categories: a file has theirs, whatever rows are left.

        Raises
        ------
        DataError
        """
        published = PublishedOutput(output)
        columns = published.config.input
        for file, schema in published.list_schemas():
            for name in (columns.id_column, columns.text_column):
                if name in schema.names and pa.types.is_dictionary(schema.field(name).type):
                    raise DataError(
                        f"{redact(file.path)}: column {name!r} must not be of categories (dictionaries), which hold "
                        "the values of rows that are gone; write it as strings, and erase again"
                    )

    def clean(self, output: str, *, has_rows: bool) -> None:
        """Take the documents out of an output, whose lock is held.

        Parameters
        ----------
        has_rows
            Whether the store says that it had rows of them. An output can have some that the store does not tell of: of
            an id that was deleted and came again, and of copies without an id column.
        """
        self._clean_rest(output)
        published = PublishedOutput(output)
        is_told = has_rows or published.is_searchable
        located = [(file, rows) for file, rows in published.locate_rows(self.ids) if len(rows)] if is_told else []
        has_rows |= bool(located)
        for name in DROPS:
            for entry in self.storage.list(f"{published.path}/{name}"):
                if entry.path.endswith(".parquet"):
                    self._clean_table(name, f"{published.path}/{name}/{entry.path}")
        if has_rows:
            self._drop_sketch(f"{published.path}/{SKETCH}")
        self._clean_report(published, has_rows=has_rows)
        # After all that asks whether there are any, since they tell it after a crash. Before other rows are written
        # anew, which moves lines of JSON.
        for file, rows in located:
            self._take_rows(file, rows)
        if published.config.output.mode == "annotate":
            for file in list_files([f"{published.path}/annotated"]).files:
                self._clean_notes(file)

    def _drop_sketch(self, folder: str) -> None:
        """Delete a sample of shingles, which does not say whose they are."""
        for entry in self.storage.list(folder, recursive=True):
            if not entry.is_folder and self.storage.exists(f"{folder}/{entry.path}"):
                with self.change(f"{folder}/{entry.path}"):
                    self.storage.delete(f"{folder}/{entry.path}")
        self.storage.delete(folder)

    def _clean_rest(self, output: str) -> None:
        """Delete unfinished runs and files of an output, and what is kept for readers of before."""
        for suffix in (".partial", ".replaced"):
            if self.storage.exists(f"{output}{suffix}/{MARK}"):
                self.storage.delete(f"{output}{suffix}")
        current = find_result(self.storage, output)
        for entry in self.storage.list(output) if self.storage.exists(f"{output}/{CURRENT}") else ():
            if VERSION.fullmatch(entry.path) and not current.endswith(f"/{entry.path}"):
                self.storage.delete(f"{output}/{entry.path}")
        for entry in self.storage.list(output, recursive=True):
            if UNFINISHED.fullmatch(entry.path.rpartition("/")[2]):
                self.storage.delete(f"{output}/{entry.path}")

    def _clean_table(self, name: str, path: str) -> None:
        with whole(path), self.storage.open(path) as stream:
            table = pq.read_table(stream)
        cleaned = self.clean_rows(name, table)
        if cleaned is not table:
            with self.change(path), self.storage.create(path) as output:
                pq.write_table(cleaned, output, compression="zstd")

    def clean_rows(self, name: str, table: pa.Table) -> pa.Table:
        """Return rows of a table without the ids; the table itself where it has none."""
        goes = pa.chunked_array([pa.array(np.zeros(table.num_rows, dtype=bool))])
        for column in DROPS[name]:
            goes = pc.or_(goes, self.mark(table[column]))
        left = table.filter(pc.invert(goes)) if pc.any(goes).as_py() else table
        for column, others in NULLS.get(name, {}).items():
            left = self._set_null(left, column, others)
        return self._regroup(left) if name in GROUPED else left

    def _set_null(self, table: pa.Table, column: str, others: Sequence[str]) -> pa.Table:
        named = self.mark(table[column])
        if not pc.any(named).as_py():
            return table
        for each in (column, *others):
            place = table.schema.get_field_index(each)
            values = pc.if_else(named, pa.scalar(None, table[each].type), table[each])
            table = table.set_column(place, table.schema.field(each), values)
        return table

    def _regroup(self, table: pa.Table) -> pa.Table:
        """Call components whose own document goes after the least id of their rows."""
        named = self.mark(table["component_id"])
        if not pc.any(named).as_py():
            return table
        least = table.filter(named).group_by("component_id").aggregate([("id", "min")])
        places = pc.index_in(table["component_id"], least["component_id"])
        values = pc.if_else(named, least["id_min"].combine_chunks().take(places), table["component_id"])
        return table.set_column(
            table.schema.get_field_index("component_id"), table.schema.field("component_id"), values
        )

    def _take_rows(self, file: InputFile, rows: Rows) -> None:
        with self.change(file.path):
            if file.format.id_column:
                self.storage.delete(file.path)
            else:
                # In its own place, which the file takes once it is whole.
                file.format.write(file, Edits(text_column="", removed=np.sort(rows)), file.path, None)

    def _clean_notes(self, file: InputFile) -> None:
        """Take ids out of what mode annotate says of other documents."""
        if file.format.clear(file, NOTED, self.mark, None):
            with self.change(file.path), self.storage.create(file.path) as output:
                file.format.clear(file, NOTED, self.mark, output)

    def _clean_report(self, published: PublishedOutput, *, has_rows: bool) -> None:
        """Leave out of a report the examples that name a document, and make its page again.

        Texts of many documents, as common lines, do not say whose they are, so none stay where documents have rows.
        """
        known, report = {*self.ids.to_pylist()}, dict(published.report)
        for name in ("largest_components", "doubtful"):
            report[name] = [each for each in report.get(name, []) if not _names(each, known)]
        report["layers"] = [_leave_out(each, known, has_rows=has_rows) for each in report["layers"]]
        if report == published.report:
            return
        # JSON has made strings of their sizes.
        sized = {name: {int(size): count for size, count in report[name].items()} for name in SIZED}
        report |= sized
        inform, page = Inform(), f"{published.path}/report.html"
        plots = draw_rest(report, Drawing()).plots
        made = inform("report.html", to_html, report, plots)
        with self.change(f"{published.path}/report.json"):
            self.storage.write_text(f"{published.path}/report.json", to_json(report))
        with self.change(page):
            if made is None:
                self.storage.delete(page)
            else:
                self.storage.write_text(page, made)


def _leave_out(value: Any, known: set[Any], *, has_rows: bool) -> Any:  # noqa: ANN401 - any of JSON
    """Return a part of a report without list entries that name a document, or may show one and name none."""
    if isinstance(value, list):
        stays = [each for each in value if not _names(each, known) and not (has_rows and _is_unnamed(each))]
        return [_leave_out(each, known, has_rows=has_rows) for each in stays]
    if not isinstance(value, Mapping):
        return value
    return {name: _leave_out(each, known, has_rows=has_rows) for name, each in value.items()}


def _is_unnamed(value: Any) -> bool:  # noqa: ANN401 - any of JSON
    """Tell whether a part of a report shows a text without an id."""
    shows = isinstance(value, Mapping) and isinstance(value.get("text"), str)
    return shows and not any(name.endswith("id") for name in value)


def _names(value: Any, known: set[Any]) -> bool:  # noqa: ANN401 - any of JSON
    """Tell whether a part of a report names a document."""
    if isinstance(value, list):
        return any(_names(each, known) for each in value)
    if not isinstance(value, Mapping):
        return False
    ids = (each for name, each in value.items() if name.endswith("id") and isinstance(each, int | str))
    return any(each in known for each in ids) or any(_names(each, known) for each in value.values())


def digest_file(storage: Storage, path: str) -> str:
    """Return the SHA-256 of a file's bytes."""
    with storage.open(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def erase(
    store: str,
    selection: str,
    choose: Callable[[Snapshot], Iterable[int | str]],
    *,
    outputs: Sequence[str] = (),
    key: bytes = b"",
) -> dict[str, Any]:
    """Take documents out of a store, and out of the outputs of its batches; no writer may be at work on either.

    Outputs come first, then the store, then the files that it no longer names: after a crash the same call finishes.

    Parameters
    ----------
    selection
        Name of the way in which they are chosen, for the receipt, which names none of them.
    choose
        Returns the ids that go.
    outputs
        Further outputs, such as those that were moved, or that an earlier release wrote.
    key
        Key of the receipt's signature; without one it has a digest.

    Returns
    -------
    dict
        The receipt: see docs/growing.md.

    Raises
    ------
    DedupError
        When there is no store, or an output cannot be cleaned; nothing has changed then.
    """
    tables = Tables(store)
    snapshot = Snapshot.open(tables)
    state = snapshot.state
    ids = to_ids(map(str, choose(snapshot)), state.kind)
    chosen = sorted(map(str, ids.to_pylist()))
    erasing = Erasing(ids=ids)
    known, missing = _list_outputs(state, outputs, erasing.storage)
    rows = snapshot.read("documents", ["id", "batch"])
    held = rows.filter(erasing.mark(rows["id"]))
    # An id that the store has not may have gone from it by a call that was cut short.
    has_all = held.num_rows < len(ids)
    batches = {*held["batch"].to_pylist()}
    with ExitStack() as locks:
        for output in known:
            locks.enter_context(Lock(erasing.storage, f"{output}.lock"))
        for output in known:
            erasing.check(output)
        for output, batch in known.items():
            erasing.clean(output, has_rows=has_all or batch in batches | {""})
    before = _list_files(tables, state)
    deleted = delete_ids(tables, chosen, readmit=False) if chosen else Deleted(0, 0, held.slice(0, 0))
    after = read_state(tables)
    _note_changes(erasing, before, _list_files(tables, after))
    vacuum(tables, 0)
    return sign(
        {
            "receipt": 1,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "store": redact(store),
            "selection": selection,
            "ids": _digest("\n".join(map(json.dumps, chosen)).encode(), key),
            "documents": deleted.documents,
            "absent": deleted.absent,
            "displaced": deleted.displaced.num_rows,
            "state_before": state.number,
            "state_after": after.number,
            "outputs": [*map(redact, known)],
            "outputs_missing": [*map(redact, missing)],
            "files": sorted(erasing.changed, key=lambda each: each["file"] or ""),
            "versions": {name: version(name) for name in ("pyarrow", "deltalake")}
            | {"dedup": __version__, "python": platform.python_version()},
        },
        key,
    )


def _list_outputs(state: State, outputs: Sequence[str], storage: Storage) -> tuple[dict[str, str], list[str]]:
    """Return the outputs that are there with their batches, empty where that is not known, and those that are not."""
    every = {path: batch for batch, paths in state.outputs.items() for path in paths}
    # As the store has noted them, so that none is there twice.
    every |= {absolute(path.rstrip("/")): "" for path in outputs}
    found = {path: batch for path, batch in every.items() if storage.exists(f"{path}/_SUCCESS")}
    return found, [path for path in every if path not in found]


def _list_files(tables: Tables, state: State) -> set[str]:
    snapshot = Snapshot(tables=tables, state=state)
    return {f"{tables.path}/{name}/{file.path}" for name in state.segments for file in snapshot.list_files(name)}


def _note_changes(erasing: Erasing, before: set[str], after: set[str]) -> None:
    """Take note of the files of a store that came and went."""
    paths = sorted(before ^ after)
    with ThreadPoolExecutor(count_cores()) as readers:
        digests = readers.map(lambda path: digest_file(erasing.storage, path), paths)
    for path, digest in zip(paths, digests, strict=True):
        ends = (digest, None) if path in before else (None, digest)
        erasing.changed.append({"file": redact(path), "before": ends[0], "after": ends[1]})


def _digest(content: bytes, key: bytes) -> str:
    return hmac.digest(key, content, "sha256").hex() if key else hashlib.sha256(content).hexdigest()


def sign(receipt: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """Return a receipt with its signature, which stands for all else of it."""
    told = {name: value for name, value in receipt.items() if name != "signature"}
    content = json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    method = "HMAC-SHA256" if key else "SHA-256"
    return told | {"signature": {"method": method, "value": _digest(content, key)}}


def is_signed(receipt: Mapping[str, Any], key: bytes) -> bool:
    """Tell whether a receipt is as it was written, with this key."""
    own = sign(receipt, key)["signature"]
    theirs = receipt.get("signature", {})
    return own["method"] == theirs.get("method") and hmac.compare_digest(own["value"], str(theirs.get("value")))
