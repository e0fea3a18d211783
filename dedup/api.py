"""The Python interface: from a corpus and settings to a `Result`."""

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, overload

import pyarrow as pa

from dedup.errors import ConfigError, StorageError
from dedup.frames import ArrowTable, Frame, take_frame
from dedup.result import Report, Result
from dedup.run.job import Job
from dedup.run.progress import telling
from dedup.run.reach import find_session
from dedup.run.reading import open_dataset, open_frame
from dedup.run.start import start
from dedup.settings.files import flatten, load_config, name_setting, to_dict
from dedup.settings.options import Config

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

    from dedup.keywords import Keywords, Options
    from dedup.run.growing import Growth

Rows = TypeVar("Rows", bound=ArrowTable)
Location: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Location | Sequence[Location]

HELD = "input.arrow"
"""Name of the file that rows in memory are read from."""


@overload
def deduplicate(
    input: "DataFrame",
    output: Location | None = None,
    *,
    spark: "SparkSession | None" = None,
    **keywords: "Unpack[Options]",
) -> "Result[DataFrame]": ...


@overload
def deduplicate(
    input: Rows,
    output: Location | None = None,
    *,
    spark: None = None,
    **keywords: "Unpack[Options]",
) -> "Result[Rows]": ...


@overload
def deduplicate(
    input: Sequence[Mapping[str, Any]],
    output: Location | None = None,
    *,
    spark: None = None,
    **keywords: "Unpack[Options]",
) -> "Result[list[dict[str, Any]]]": ...


@overload
def deduplicate(
    input: Paths,
    output: Location | None = None,
    *,
    spark: "SparkSession",
    **keywords: "Unpack[Options]",
) -> "Result[DataFrame]": ...


@overload
def deduplicate(
    input: Paths,
    output: Location | None = None,
    *,
    spark: None = None,
    **keywords: "Unpack[Options]",
) -> "Result[ds.Dataset]": ...


def deduplicate(
    input: "Paths | DataFrame | ArrowTable | Sequence[Mapping[str, Any]]",  # noqa: A002 - what it is, as the option --input
    output: Location | None = None,
    *,
    spark: "SparkSession | None" = None,
    config: Location | Config | None = None,
    preset: str | None = None,
    settings: Mapping[str, object] = MappingProxyType({}),
    overwrite: bool = False,
    progress: bool | None = None,
    store: Location | None = None,
    batch: str = "",
    reelect: bool = False,
    **keywords: "Unpack[Keywords]",
) -> Result[Any]:
    """Remove the near-duplicates of a corpus, each verified by its exact Jaccard similarity.

    Settings are the defaults, changed by the preset, the configuration, `settings` and the keywords, in this order.
    A session of the caller keeps its settings, cached tables, checkpoint folder and job group.

    Parameters
    ----------
    input
        A file, a folder or a glob, several of them, a Spark DataFrame, or rows in memory: a pandas or Polars DataFrame,
        a relation of DuckDB, a table of Arrow, a list of dictionaries. A DataFrame of Spark is read more than once and
        must give the same rows each time; no later run goes on with an unfinished one of rows.
    output
        Folder to write; by default a temporary one that is deleted with the result.
    spark
        Session to run in, which the engine "auto" then takes; not for rows in memory. By default files are read without
        Spark where they fit this machine's memory, and otherwise in the active session, or in one that ends with the
        run.
    config
        TOML file as conf/dedup.toml, or `Settings`, which leave nothing to a preset.
    preset
        Name of a set of settings in dedup/settings/presets.
    settings
        Values by dotted key, as in {"lsh.bands": 30}.
    overwrite
        Replace an existing output once the new one is whole, and discard an unfinished run with other settings.
    progress
        Whether stages are told of on stderr as they begin and end; by default on a terminal and in a notebook, unless
        the logger `dedup` tells of them already.
    store
        Folder of a store, which is made if it is missing: duplicates of the documents that it has go too, and the store
        has these as well from then on. See `dedup.Store`, and docs/growing.md.
    batch
        Name of the documents in the store.
    reelect
        Whether documents that were kept before may go for better ones.
    **keywords
        Further settings: `threshold=0.7`, `id_column="id"`; `__` stands for the dot: `output__mode="ids"`.

    Returns
    -------
    Result
        Tables are what the input is where it is rows, DataFrames of Spark where `spark` is given, and Arrow datasets
        otherwise.

    Raises
    ------
    ConfigError
        When a setting is unknown or out of its range, or the arguments contradict each other.
    DedupError
        When the input, the settings, the output or the memory do not allow the run; nothing is published. A
        `FinishedError` when the output of this very run is there already.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> words = "the quick brown fox jumps over the lazy dog and runs far away from here until night falls"
    >>> texts = [words, "another text altogether", words.upper() + "!", words + " again"]
    >>> pq.write_table(pa.table({"id": [1, 2, 3, 4], "text": texts}), f"{folder}/corpus.parquet")
    >>> result = deduplicate(f"{folder}/corpus.parquet", id_column="id", threshold=0.7)
    >>> result.report.documents, result.report.kept, result.report.identical, result.report.near
    (4, 2, 1, 1)
    >>> result.kept.to_table()["id"].to_pylist()
    [1, 2]
    >>> duplicates = result.duplicates.to_table().sort_by("id")
    >>> duplicates.select(["id", "kind", "representative_id"]).to_pylist()[0]
    {'id': 3, 'kind': 'identical', 'representative_id': 1}
    >>> result.edges.to_table().sort_by("right_id").to_pylist()[1]
    {'left_id': 1, 'right_id': 4, 'jaccard': 0.9333333333333333}

    Rows in memory come back as what they were:

    >>> deduplicate([{"id": 1, "text": words}, {"id": 2, "text": words}], id_column="id").kept[0]["id"]
    1

    With an output of one's own, a preset, and settings by their keys:

    >>> result = deduplicate(
    ...     [f"{folder}/corpus.parquet"], f"{folder}/clean", preset="short-text", settings={"input.id_column": "id"}
    ... )
    >>> result.kept.count_rows(), result.output == f"{folder}/clean"
    (2, True)
    >>> deduplicate(f"{folder}/corpus.parquet", treshold=0.7)
    Traceback (most recent call last):
    dedup.errors.ConfigError: settings: unknown key treshold (did you mean threshold?)
    """
    chosen = load_given(config, preset, settings, keywords)
    path = None if output is None else _to_path("output", output)
    work = _choose_work(store, batch, reelect=reelect, is_temporary=path is None)
    if chosen.input.table:
        raise ConfigError("input.table: must be empty here, where input may be a DataFrame: spark.table(NAME)")
    table = _take_table(input)
    frame = None if table is not None else take_frame(input)
    held = None
    if frame is not None:
        _check_rows(type(input).__name__, spark, is_kept=work is None or chosen.shingles.stored)
        held = _hold(frame.table)
        paths = [f"{held}/{HELD}"]
        chosen = replace(chosen, input=replace(chosen.input, format="arrow", name_filter=""))
    elif table is None:
        paths = _list_paths(input)
    else:
        if chosen.engine == "memory":
            raise ConfigError('engine: must be "spark" or "auto" where the input is a DataFrame (got "memory")')
        from dedup.engine.sessions import list_roots  # noqa: PLC0415 - needs Spark, which is there where a DataFrame is

        # Only for the check that the output lies apart from them.
        paths = list_roots(table)
        spark = table.sparkSession
    folder = None if path is not None else _make_folder(spark, chosen)
    target = path if path is not None else f"{folder}/output"
    job = Job(inputs=paths, output=target, config=chosen, overwrite=overwrite, table=table, preset=preset or "")
    try:
        with telling(is_told=progress):
            report = start(job, spark=spark, work=work)
    except BaseException as error:
        _delete(folder)
        if type(error) is StorageError and frame is None and table is None and (advice := _advise(paths)):
            raise StorageError(f"{error}{advice}") from error
        raise
    finally:
        _delete(held)
    mode = chosen.output.mode
    read: Callable[[str], Any] = partial(open_dataset, target, mode=mode, table=chosen.output.table)
    if frame is not None:
        read = partial(_read_frame, read, frame)
    if spark is not None:
        read = partial(open_frame, spark, target, mode=mode, tables=_name_tables(chosen))
    result: Result[Any] = Result(output=target, report=Report.of(report), read=read)
    if folder is not None:
        weakref.finalize(result, _delete, folder)
    return result


def _check_rows(given: str, spark: "SparkSession | None", *, is_kept: bool) -> None:
    """Refuse rows in memory where Spark is to read them, or a store to read them again."""
    if spark is not None:
        raise ConfigError(f"spark: must be None where the input is rows in memory (got {given})")
    if not is_kept:
        raise ConfigError(f"shingles.stored: false needs files as input, which are read again (got {given})")


def load_given(
    config: Location | Config | None,
    preset: str | None,
    settings: Mapping[str, object],
    keywords: Mapping[str, object],
) -> Config:
    """Return settings that come in any of the ways that `deduplicate` takes them."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"settings: must be a dictionary of values by key (got {type(settings).__name__})")
    named = {**settings, **{name_setting(name): value for name, value in keywords.items()}}
    given = {str(name): _to_plain(value) for name, value in named.items()}
    if not isinstance(config, Config):
        return load_config(None if config is None else _to_path("config", config), preset, settings=given)
    if preset is not None:
        raise ConfigError(f"preset: must be None where config is Settings, which hold every setting (got {preset!r})")
    return load_config(settings=flatten(to_dict(config)) | given)


def _to_plain(value: Any) -> object:  # noqa: ANN401 - what a caller has
    """Return a number of NumPy as one of Python, and a path as a string."""
    if isinstance(value, list | tuple):
        return [_to_plain(each) for each in value]
    plain = value.item() if getattr(value, "ndim", 1) == 0 else value
    return os.fspath(plain) if isinstance(plain, os.PathLike) else plain


def _to_path(where: str, given: object) -> str:
    """Return a path as a string."""
    if isinstance(given, str | os.PathLike):
        return os.fspath(given)
    raise ConfigError(f"{where}: must be a path (got {type(given).__name__})")


def _choose_work(store: Location | None, batch: str, *, reelect: bool, is_temporary: bool) -> "Growth | None":
    """Return the task of a run, perhaps of one whose output will be gone; None to remove duplicates alone."""
    if store is None:
        if batch or reelect:
            raise ConfigError(f"store: must be given where batch or reelect is (got {batch or reelect!r})")
        return None
    from dedup.run.growing import Growth  # noqa: PLC0415 - only a store needs its modules

    return Growth(store=_to_path("store", store), batch=batch, anew=reelect, outputs=() if is_temporary else None)


def _hold(table: pa.Table) -> str:
    """Return a temporary folder with one file of rows, which every engine reads from there."""
    folder = tempfile.mkdtemp(prefix="dedup-")
    try:
        # A file has one dictionary for all chunks of a column.
        options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
        with pa.OSFile(f"{folder}/{HELD}", "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as file:
            file.write_table(table)
    except BaseException as error:
        _delete(folder)
        if isinstance(error, pa.ArrowException):
            raise ConfigError(f"input: must be rows of columns that Arrow writes ({error})") from error
        raise
    return folder


def _read_frame(read: "Callable[[str], ds.Dataset]", frame: Frame, name: str) -> object:
    """Return a table of the output as what was given."""
    return frame.restore(read(name).to_table())


def _name_tables(config: Config) -> dict[str, str]:
    if not config.output.table:
        return {}
    from dedup.run.catalog import name_tables  # noqa: PLC0415 - Spark's modules take a second to import

    return name_tables(config.output)


def _take_table(given: object) -> "DataFrame | None":
    """Return a given DataFrame; None for anything else."""
    spark = sys.modules.get("pyspark.sql")
    if spark is None or not isinstance(given, spark.DataFrame):
        return None
    table: DataFrame = given
    return table


def _list_paths(given: object) -> list[str]:
    paths = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
        rule = "must be a path, a list of paths, a DataFrame, a table of Arrow or a list of dictionaries"
        kinds = [type(each).__name__ for each in paths] if isinstance(paths, list | tuple) else None
        content = "" if kinds is None else f" of {', '.join(sorted({*kinds}))}" if kinds else " of nothing"
        # A LazyFrame, a dataset of Arrow, a Series.
        way = next((f"; give its {name}()" for name in ("collect", "to_table", "to_frame") if hasattr(given, name)), "")
        way = "; give list(...) of it" if isinstance(given, Generator) else way
        raise ConfigError(f"input: {rule} (got {type(given).__name__}{content}){way}")
    return [os.fspath(path) for path in paths]


def _advise(paths: Sequence[str]) -> str:
    """Return advice for paths of several words of which nothing is there, which may be texts; empty for others."""
    # Path.exists fails for a name as long as a text.
    has_texts = any(len(path.split()) > 1 and not os.path.exists(path) for path in paths)  # noqa: PTH110
    return '; texts are given as rows, [{"text": TEXT}, ...]' if has_texts else ""


def _make_folder(spark: "SparkSession | None", config: Config) -> str:
    """Make a temporary folder, which executors on other machines would not see."""
    session = spark or find_session()
    if session is not None and config.engine != "memory":
        from dedup.engine.sessions import find_master  # noqa: PLC0415 - needs Spark, which is there

        master = find_master(session)
        if master and not master.startswith("local"):
            raise ConfigError(f"output: must be given where Spark runs on a cluster (master {master})")
    return tempfile.mkdtemp(prefix="dedup-")


def _delete(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
