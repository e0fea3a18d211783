"""A published output, read without Spark."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from dedup.errors import ConfigError, DataError, StorageError
from dedup.explain.graph import PAIR
from dedup.explain.spans import take_as_searched
from dedup.files.formats import FORMATS, load_format
from dedup.files.formats.format import InputFile, Rows
from dedup.files.listing import list_files
from dedup.files.profile_filter import Condition, number_profiles
from dedup.files.source import FileSource, Piece, open_source
from dedup.files.splits import Split, split_files
from dedup.files.storage import Storage, find_result
from dedup.files.systems import resolve, whole
from dedup.kernels.ids import parse_ids
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers import NEAR
from dedup.settings.contract import load_tokenizer, make_tokenizer
from dedup.settings.files import parse_config
from dedup.settings.hashspec import HashSpec
from dedup.settings.keeping import NOTES
from dedup.settings.options import ROWS, Config
from dedup.settings.profiles import list_conditioned
from dedup.settings.rules import require_text

SPLIT_BYTES = 128 << 20
EXAMPLES = 3
"""Most ids shown as examples."""


class Settings(NamedTuple):
    """Settings with which documents were compared, and their tokenizer."""

    config: Config
    tokenizer: Tokenizer


class PublishedOutput:
    """Published output of a run: settings, tables, and texts of documents.

    Parameters
    ----------
    path
        A local folder, or a URL that pyarrow reads: s3:// (also s3a://), gs://, abfs://, hdfs://.

    Raises
    ------
    StorageError
        When the output is incomplete, or pyarrow cannot reach it.
    ConfigError
        When its settings are not those of this version.
    """

    def __init__(self, path: str) -> None:
        self.path = find_result(Storage(), path.rstrip("/") or path)
        self._files, self._root = resolve(self.path)
        if not self._is_there("_SUCCESS"):
            raise StorageError(f"{path}: must be the output of a finished run (it has no file _SUCCESS)")
        self.config = parse_config(f"{self.path}/dedup.toml", self._read("dedup.toml"))
        with whole(f"{self.path}/report.json"):
            self.report: dict[str, Any] = json.loads(self._read("report.json"))
        if not isinstance(self.report, dict) or not {"format", "hash"} <= self.report.keys():
            raise StorageError(f"{path}: must be the output of this version (its report.json names no format)")
        self.duplicates: pa.Table = self.read_table("duplicates")
        self.id_type: pa.DataType = self.duplicates.schema.field("id").type
        chosen, read = self.config.output.format, self.report["format"]
        own = load_format(read if read in FORMATS else "parquet")
        # Ids alone are no rows of the input's files.
        is_mirrored = self.report.get("reader") == "files" and not self.config.output.files and self.config.writes_texts
        own = own if own.can_create or is_mirrored else load_format("parquet")
        self._format = own if chosen == "input" else load_format(chosen)
        if self.config.output.mode == "weights":
            self._format = load_format("parquet")
        self.id_column = self.config.input.document_column or (load_format(read).id_column if read in FORMATS else "")
        """Empty where an id is the digest of its row."""
        self.has_texts = self.config.writes_texts
        self.profiles: dict[Any, str] = {}
        """Profiles of the documents whose texts were found, by id; empty without profiles."""

    def choose_settings(self, ids: Collection[Any]) -> Settings | None:
        """Return the settings with which documents found by `find` were compared, and their tokenizer.

        None if profiles have settings of their own and the documents' profile is unknown or not the same.

        Raises
        ------
        ConfigError
            When the key is missing or has changed, or the version has.
        """
        if not self.config.profile:
            return Settings(self.config, self._tokenizer)
        names = {self.profiles.get(each) for each in ids}
        name = names.pop()
        if names or name is None:
            return None
        own = self.config.by_profile[name]
        # The key is of all profiles.
        return Settings(own, make_tokenizer(own, self._tokenizer.key))

    def name_profile(self, doc_id: Any) -> str:  # noqa: ANN401 - an integer or a string
        """Return the profile of a document; empty without profiles, or where its row is not stored."""
        if self.config.profile and self.has_texts and doc_id not in self.profiles:
            self.find([doc_id])
        return self.profiles.get(doc_id, "")

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = load_tokenizer(self.config)
        found = HashSpec.of(self.config, tokenizer).to_dict()
        for name, held in self.report["hash"].items():
            # A text that another version of Unicode reads differently is found by its similarity.
            if name != "unicode" and held != found.get(name):
                raise ConfigError(
                    f"{self.path}: hash {name} must be that of the run, {held!r} (got {found.get(name)!r})"
                )
        return tokenizer

    def parse_id(self, option: str, given: str) -> Any:  # noqa: ANN401 - an integer or a string
        """Return an id of the output's type from the text of a command line.

        Raises
        ------
        ConfigError
            When ids are integers and the given one is not, or it is no Unicode string.
        """
        try:
            return parse_ids(pa.array([require_text(option, given)]), self.id_type)[0].as_py()
        except pa.ArrowInvalid as error:
            raise ConfigError(f"{option}: id must be an integer, as in {self.path} (got {given!r})") from error

    def links(self, condition: ds.Expression | None = None) -> pa.Table:
        """Return left_id, right_id and similarity of edges, by texts and by vectors, as rows of `edges`."""
        columns = {
            name: [*PAIR, of]
            for name, of in (("edges", "jaccard"), ("cosines", "cosine"))
            if name == "edges" or self._is_there(name)
        }
        found = (self.read_table(name, condition).select(own) for name, own in columns.items())
        return pa.concat_tables(each.rename_columns(columns["edges"]) for each in found)

    def find_linked(self, ids: Collection[Any]) -> set[Any]:
        """Return the documents that have an edge with one of some."""
        wanted = pa.array(ids, self.id_type)
        links = self.links(ds.field("left_id").isin(wanted) | ds.field("right_id").isin(wanted))
        return {each for end in PAIR for each in links[end].to_pylist()}

    def find_cosine(self, one: Any, other: Any) -> float | None:  # noqa: ANN401 - as above
        """Return the cosine of two documents that are an edge by their vectors; None of others."""
        if not self._is_there("cosines"):
            return None
        least, greatest = sorted((one, other))
        condition = (ds.field("left_id") == least) & (ds.field("right_id") == greatest)
        found = self.read_table("cosines", condition)
        return found["cosine"][0].as_py() if found.num_rows else None

    def find(self, ids: Collection[Any]) -> dict[Any, str]:
        """Return the texts of the ids that are documents here; "" where ids alone are written.

        Texts are those that the layer near saw, without the spans cut by earlier layers.

        Reads the ids of every row, and the texts of those wanted. Where ids are digests of rows, reads every row.
        """
        if not self.has_texts:
            return self._find_ids(ids) if self.is_searchable else {}
        texts = self._find_texts(ids)
        if self.spans is None:
            return texts
        layers = self.config.layers
        before = layers[: layers.index(NEAR)] if NEAR in layers else layers[:-1]
        return {each: self._take_as_searched(each, text, before) for each, text in texts.items()}

    def list_spans(self, doc_id: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - an integer or a string
        """Return the spans of a document that layers cut or marked, as in OUT/spans."""
        if self.spans is None:
            return []
        rows: list[dict[str, Any]] = self.spans.filter(pc.field("id") == doc_id).to_pylist()
        return sorted(rows, key=lambda row: (row["begin"], -row["end"]))

    @cached_property
    def spans(self) -> pa.Table | None:
        """The rows of OUT/spans; None where no layer gave any."""
        return self.read_table("spans") if self._is_there("spans") else None

    def find_whole(self, doc_id: Any) -> str:  # noqa: ANN401 - as above
        """Return the text of a document as it was in the input; "" where the output does not have it."""
        text = self._find_texts([doc_id]).get(doc_id, "") if self.has_texts else ""
        return self._take_as_searched(doc_id, text, ())

    def _take_as_searched(self, doc_id: Any, text: str, before: Collection[str]) -> str:  # noqa: ANN401 - as above
        """Return the text that a later layer saw, without the spans cut before it."""
        is_kept = not pc.any(pc.equal(self.duplicates["id"], doc_id)).as_py()
        is_cut = is_kept and self.config.output.mode == "filter"
        return take_as_searched(text, self.list_spans(doc_id), before=before, is_cut=is_cut)

    def list_schemas(self) -> Iterator[tuple[InputFile, pa.Schema]]:
        """Yield the files of rows with texts, and their schemas; of lines of JSON without any."""
        for source in self._sources if self.has_texts else ():
            for file in source.listing.files:
                for schema in file.format.schemas(file):
                    yield file, schema

    def locate_rows(self, ids: pa.Array) -> Iterator[tuple[InputFile, Rows]]:
        """Yield the files of rows, or of their ids, that have some of these, and the numbers of their rows.

        Raises
        ------
        StorageError
            When only Spark reads the rows, or knows their ids.
        """
        if not self.is_searchable:
            raise StorageError(f"{self.path}: must have rows that can be found by id without Spark")
        for source in self._sources if self.has_texts else ():
            wanted, found = ids.cast(source.id_type), defaultdict[int, list[Rows]](list)
            for split in split_files(source.listing, SPLIT_BYTES):
                known = self._locate(source, split, wanted)
                for piece in source.read(split) if known is None else ():
                    held = pc.is_in(self._name(source, piece, wanted), wanted).to_numpy(zero_copy_only=False)
                    found[piece.file].append(piece.batch["row"].to_numpy()[held])
                for file, rows in (known or {}).items():
                    found[file].append(rows)
            for file, parts in found.items():
                yield source.listing.files[file], np.concatenate(parts)
        listed: dict[str, tuple[InputFile, list[Rows]]] = {}
        for each, numbers, own in () if self.has_texts else self._list_ids():
            held = pc.is_in(own, ids).to_numpy(zero_copy_only=False)
            listed.setdefault(each.path, (each, []))[1].append(numbers[held])
        for each, parts in listed.values():
            yield each, np.concatenate(parts)

    def _list_ids(self) -> Iterator[tuple[InputFile, Rows, pa.Array]]:
        """Yield the ids that are written in place of rows, and their numbers, part by part."""
        mode = self.config.output.mode
        name = (self.config.input.document_column if mode == "ids" else "") or "id"
        for file in list_files([f"{self.path}/{ROWS[mode][0]}"], format=self._format.name).files:
            for numbers, rows in self._format.read_rows(file):
                yield file, numbers, rows[name].cast(self.id_type).combine_chunks()

    def _find_texts(self, ids: Collection[Any]) -> dict[Any, str]:
        found: dict[Any, str] = {}
        for source in self._sources if self.is_searchable else ():
            wanted = pa.array(set(ids), self.id_type).cast(source.id_type)
            for split in split_files(source.listing, SPLIT_BYTES):
                if len(found) == len(set(ids)) and not self.config.input.part_of:
                    return found
                for piece in source.read(split, self._locate(source, split, wanted)):
                    chosen = piece.batch.filter(pc.is_in(self._name(source, piece, wanted), wanted))
                    names = self._name(source, Piece(file=piece.file, batch=chosen), wanted)
                    texts = [text or "" for text in chosen["text"].to_pylist()]
                    for name, text in zip(names.to_pylist(), texts, strict=True):
                        is_next = bool(self.config.input.part_of) and name in found
                        found[name] = found[name] + self.config.row_joint + text if is_next else text
                    if self.config.profile:
                        own = number_profiles(chosen["merged"], self._conditions).tolist()
                        told = [*self.config.by_profile]
                        self.profiles |= {
                            each: told[number] for each, number in zip(names.to_pylist(), own, strict=True)
                        }
        return found

    @cached_property
    def _conditions(self) -> list[list[Condition]]:
        columns = list_conditioned(self.config.profile)
        return [[Condition(columns.index(name), of) for name, of in each.when] for each in self.config.profile]

    def _find_ids(self, ids: Collection[Any]) -> dict[Any, str]:
        """Return the ids that are written among those asked for."""
        wanted = pa.array(set(ids), self.id_type)
        found: dict[Any, str] = {}
        for _, _, own in self._list_ids():
            found |= dict.fromkeys(own.filter(pc.is_in(own, wanted)).to_pylist(), "")
        return found

    @cached_property
    def _sources(self) -> list[FileSource]:
        """Files of the input's rows, folder by folder, with the columns that mode annotate added left out."""
        names = [name for name in ROWS[self.config.output.mode] if self._is_there(name) and self._list(name)]
        found = [self._open(f"{self.path}/{name}") for name in names]
        return [source for source in found if source is not None]

    def _open(self, folder: str) -> FileSource | None:
        """Return the rows of a folder; None where there are none."""
        listing = list_files([folder], format=self._format.name)
        try:
            return open_source(
                listing,
                id_column="" if self._format.id_column else self.id_column,
                text_columns=self.config.text_columns,
                has_sets=self.config.shingles.has_sets,
                aside=NOTES if self.config.output.mode == "annotate" else (),
                noted=tuple(("profile.when", name) for name in list_conditioned(self.config.profile)),
            )
        except DataError:
            # Lines without a record tell no column.
            if any(rows.num_rows for file in listing.files for _, rows in file.format.read_rows(file)):
                raise
            return None

    def _locate(self, source: FileSource, split: Split, wanted: pa.Array) -> dict[int, Rows] | None:
        """Return the rows with one of the ids, if the id column can be read alone; else None, for all rows."""
        if not self.id_column or "." in self.id_column:
            return None
        found: dict[int, Rows] = {}
        for part in split.parts:
            rows = self._format.find_rows(source.listing.files[part.file], part, self.id_column, wanted)
            if rows is None:
                return None
            found[part.file] = rows
        return found

    def _name(self, source: FileSource, piece: Piece, wanted: pa.Array) -> pa.Array:
        """Return the ids of a piece; a text's id is its path in the input."""
        if not self._format.id_column:
            return piece.batch["id"]
        below = "/" + source.listing.files[piece.file].relative
        own = next((path for path in wanted.to_pylist() if path.endswith(below)), "")
        return pa.array([own] * piece.batch.num_rows, pa.string())

    @property
    def is_searchable(self) -> bool:
        """Whether rows can be found by id: not in Spark's tables, nor by digests that only Spark computes."""
        if self.config.output.table:
            return False
        return bool(self.id_column) or not self.has_texts or self.report.get("reader") == "files"

    def first_ids(self) -> list[Any]:
        """Return some ids as examples."""
        found: list[Any] = self.duplicates["id"].slice(0, EXAMPLES).to_pylist()
        if self.has_texts and self.id_column and not self._format.id_column:
            for source in self._sources:
                pieces = (piece for split in split_files(source.listing, SPLIT_BYTES) for piece in source.read(split))
                found += next((piece.batch["id"].slice(0, EXAMPLES).to_pylist() for piece in pieces), [])
        return found[:EXAMPLES]

    def _is_there(self, name: str) -> bool:
        return Storage().exists(f"{self.path}/{name}")

    def _read(self, name: str) -> str:
        with whole(f"{self.path}/{name}"):
            if not (text := Storage().read_text(f"{self.path}/{name}")):
                raise ValueError("it is empty")
            return text

    def read_table(self, name: str, condition: ds.Expression | None = None) -> pa.Table:
        """Return rows of a table; `edges`, `near_misses` and `cosines` have left_id and right_id first."""
        with whole(f"{self.path}/{name}"):
            table = ds.dataset(f"{self._root}/{name}", filesystem=self._files, format="parquet")
            if not table.files:
                raise FileNotFoundError("it has no file")
            return table.to_table(filter=condition)

    def _list(self, name: str) -> list[str]:
        """Return the data files of a folder."""
        listed = self._files.get_file_info(fs.FileSelector(f"{self._root}/{name}", recursive=True))
        return sorted(each.path for each in listed if each.is_file and each.size and each.base_name[0] not in "._")
