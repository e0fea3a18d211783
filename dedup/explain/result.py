"""A published output, read without Spark."""

import hashlib
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.json as pa_json
from pyarrow import fs

from dedup.config import parse_config
from dedup.contract import load_contract
from dedup.errors import ConfigError, StorageError
from dedup.kernels.text import VERSION, Contract, key_fingerprint

SCHEMES = {"s3a": "s3", "s3n": "s3"}
"""What Hadoop calls a file system, where pyarrow calls it otherwise."""
BLOCK_BYTES = 1 << 28
"""Longest row of CSV or JSON lines that is read."""
ROWS = {"filter": ("kept", "removed"), "annotate": ("annotated",), "ids": ("kept",)}
"""Folders of the input's rows, or of their ids, by output.mode."""
FIRST_ANNOTATION = "dedup_kept"
"""Column from which on an annotated row is no longer the input's."""
SHOWN = 3
"""Ids shown as an example."""


class Result:
    """The folder of a finished run: its settings, its tables, and the texts of its documents.

    Parameters
    ----------
    path
        A local folder, or a URL that pyarrow reads: s3:// (also s3a://), gs://, abfs://, hdfs://.

    Raises
    ------
    StorageError
        When it is no whole output, or pyarrow cannot reach it.
    ConfigError
        When its settings are not those of this version.
    """

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or path
        try:
            self._files, self._root = _open(self.path)
            whole = self._is_there("_SUCCESS")
            settings, report = (self._read(name) if whole else "" for name in ("dedup.toml", "report.json"))
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"{path}: must be a folder that pyarrow can read ({error})") from error
        if not whole:
            raise StorageError(f"{path}: must be the output of a finished run (it has no file _SUCCESS)")
        self.config = parse_config(f"{self.path}/dedup.toml", settings)
        self.report: dict[str, Any] = json.loads(report)
        if "format" not in self.report:
            raise StorageError(f"{path}: must be the output of this version (its report.json names no format)")
        self.duplicates: pa.Table = self._table("duplicates").to_table()
        self.id_type: pa.DataType = self.duplicates.schema.field("id").type
        chosen, read = self.config.output.format, self.report["format"]
        self._kind = chosen if chosen != "input" else {"text": "parquet"}.get(read, read)
        self.id_column = self.config.input.id_column or ("path" if read == "text" else "")
        """Empty where an id is the digest of its row."""
        self.has_texts = self.config.output.mode != "ids"
        self._paths = [paths for name in ROWS[self.config.output.mode] if (paths := self._list(name))]

    @cached_property
    def contract(self) -> Contract:
        """What its texts were hashed under.

        Raises
        ------
        ConfigError
            When the key is not where it was, or is another, or the version is.
        """
        contract = load_contract(self.config)
        found, held = {"version": VERSION, "key": key_fingerprint(contract.key)}, self.report["hash"]
        for name in held:
            if held[name] != found[name]:
                raise ConfigError(
                    f"{self.path}: hash {name} must be that of the run, {held[name]!r} (got {found[name]!r})"
                )
        return contract

    def parse_id(self, option: str, given: str) -> Any:  # noqa: ANN401 - an integer or a string
        """Return the id that a user means.

        Raises
        ------
        ConfigError
            When ids are integers and this is none.
        """
        try:
            return pa.scalar(given).cast(self.id_type).as_py()
        except pa.ArrowInvalid as error:
            raise ConfigError(f"{option}: id must be an integer, as in {self.path} (got {given!r})") from error

    def pairs(self, name: str, condition: ds.Expression | None = None) -> pa.Table:
        """Return rows (left_id, right_id, jaccard) of `edges` or `near_misses`."""
        return self._table(name).to_table(filter=condition)

    def find(self, ids: Collection[Any]) -> dict[Any, str]:
        """Return the texts of those of the ids that are documents here; "" in place of texts in mode ids.

        Reads the ids of every row, and the texts of the files that hold one of those wanted. Where ids are digests of
        rows, reads every row.
        """
        found: dict[Any, str] = {}
        if not self.id_column and self.has_texts:
            for digest, text in self._digested() if self.is_searchable else ():
                if digest in ids:
                    found[digest] = text
                    if len(found) == len(ids):
                        break
            return found
        name, text_column = self.id_column or "id", self.config.input.text_column
        columns = [name, text_column] if self.has_texts else [name]
        for rows in map(self._open_rows, self._paths):
            for file in rows.get_fragments():
                wanted = ds.field(name).isin(pa.array(set(ids) - found.keys(), self.id_type))
                # Few files hold one of the documents, and ids are short.
                if len(found) < len(ids) and file.scanner(schema=rows.schema, filter=wanted).count_rows():
                    table = file.to_table(schema=rows.schema, columns=columns, filter=wanted)
                    texts = table[text_column].to_pylist() if self.has_texts else [""] * table.num_rows
                    found |= dict(zip(table[name].to_pylist(), map(_decode, texts), strict=True))
        return found

    @cached_property
    def is_searchable(self) -> bool:
        """Whether a row can be found by its id: not where that is the digest of values that only Spark writes so."""
        if self.id_column or not self.has_texts:
            return True
        if self._kind == "jsonl":
            return all(isinstance(value, str | int | None) for row in self._json_rows() for value in row.values())
        schemas = [self._open_rows(paths).schema for paths in self._paths]
        kinds = {schema.field(name).type for schema in schemas for name in self._input_columns(schema.names)}
        return all(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) for kind in kinds)

    def first_ids(self) -> list[Any]:
        """Return some ids, as an example."""
        found: list[Any] = self.duplicates["id"].slice(0, SHOWN).to_pylist()
        name = self.id_column or ("" if self.has_texts else "id")
        for rows in map(self._open_rows, self._paths) if name else ():
            found += rows.head(SHOWN, columns=[name])[name].to_pylist()
        return found[:SHOWN]

    def _is_there(self, name: str) -> bool:
        return bool(self._files.get_file_info(f"{self._root}/{name}").type != fs.FileType.NotFound)

    def _read(self, name: str) -> str:
        with self._files.open_input_stream(f"{self._root}/{name}") as stream:
            return bytes(stream.read()).decode()

    def _table(self, name: str) -> ds.Dataset:
        return ds.dataset(f"{self._root}/{name}", filesystem=self._files, format="parquet")

    def _list(self, name: str) -> list[str]:
        """Return the files with data in a folder."""
        listed = self._files.get_file_info(fs.FileSelector(f"{self._root}/{name}"))
        return sorted(each.path for each in listed if each.size and each.base_name[0] not in "._")

    def _open_rows(self, paths: Sequence[str]) -> ds.Dataset:
        if self._kind == "parquet":
            return ds.dataset(paths, filesystem=self._files, format="parquet")
        if self._kind == "csv":
            return ds.dataset(paths, filesystem=self._files, format=self._csv_format(paths[0]))
        # Other columns are not wanted, and types are not to be guessed: a string can look like a date.
        schema = pa.schema([(self.id_column or "id", self.id_type)])
        if self.has_texts:
            schema = schema.append(pa.field(self.config.input.text_column, pa.string()))
        return ds.dataset(
            paths,
            schema=schema,
            filesystem=self._files,
            format=ds.JsonFileFormat(
                parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
                read_options=pa_json.ReadOptions(block_size=BLOCK_BYTES),
            ),
        )

    def _input_columns(self, names: Iterable[str]) -> list[str]:
        is_annotated = self.config.output.mode == "annotate"
        return list(takewhile(lambda name: not is_annotated or name != FIRST_ANNOTATION, names))

    def _csv_format(self, path: str) -> ds.CsvFileFormat:
        """Read every column as strings, an empty cell as null."""
        parse, read = pa_csv.ParseOptions(newlines_in_values=True), pa_csv.ReadOptions(block_size=BLOCK_BYTES)
        with self._files.open_input_stream(path) as stream, pa_csv.open_csv(stream, read, parse) as reader:
            names = reader.schema.names
        convert = pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
        )
        return ds.CsvFileFormat(parse_options=parse, read_options=read, convert_options=convert)

    def _digested(self) -> Iterator[tuple[str, str]]:
        """Yield the id of every row, which is its digest, and its text."""
        text_column = self.config.input.text_column
        if self._kind == "jsonl":
            # Spark reads the fields of all lines, in the order of their names; those that are null are not written.
            names = sorted({name for row in self._json_rows() for name in row})
            for row in self._json_rows():
                yield digest_row([row.get(name) for name in names]), _decode(row.get(text_column))
        else:
            for rows in map(self._open_rows, self._paths):
                names = self._input_columns(rows.schema.names)
                for batch in rows.to_batches(columns=names):
                    texts = batch[text_column].to_pylist()
                    values = zip(*(batch[name].to_pylist() for name in names), strict=True)
                    yield from zip(map(digest_row, values), map(_decode, texts), strict=True)

    def _json_rows(self) -> Iterator[dict[str, Any]]:
        for path in (path for paths in self._paths for path in paths):
            with self._files.open_input_file(path) as file:
                for line in io.BufferedReader(file):
                    row = json.loads(line)
                    yield {name: row[name] for name in self._input_columns(row)}


def digest_row(values: Iterable[str | int | None]) -> str:
    """Return the MD5 of a row as JSON, byte for byte as Spark writes it; see `stages.documents.identify`."""
    named = {f"c{number}": value for number, value in enumerate(values)}
    content = json.dumps(named, ensure_ascii=False, separators=(",", ":"))
    # Spark writes control characters with upper case digits; an escaped backslash can stand before a "u" as well.
    content = re.sub(r"\\(?:u00(..)|.)", lambda match: rf"\u00{match[1].upper()}" if match[1] else match[0], content)
    return hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()


def _decode(text: str | bytes | None) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""


def _open(path: str) -> tuple[fs.FileSystem, str]:
    scheme, separator, rest = path.partition("://")
    if not separator:
        return fs.LocalFileSystem(), path
    opened: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(f"{SCHEMES.get(scheme, scheme)}://{rest}")
    return opened
