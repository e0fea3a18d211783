"""The last stage: what the user gets, in the user's ids and format."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from dedup.errors import DedupError
from dedup.run import Run
from dedup.sizes import BROADCAST_ROWS
from dedup.stages import documents, edges, output, representatives


def write_output(
    work: Run, largest: Sequence[Mapping[str, Any]], near_misses: int
) -> tuple[dict[int, str], dict[str, dict[str, int]] | None]:
    """Write the other folders of the result.

    Parameters
    ----------
    largest
        Components, as from `report.summary.read_largest`.
    near_misses
        How many have been written.

    Returns
    -------
    texts
        How the examples of the largest components begin, by doc_id.
    survival
        Documents and those kept of each source; None where no column names it.
    """
    tables = work.tables
    members = tables["members"]
    duplicates = representatives.select_duplicates(members)
    repeated = tables["repeated"] if work.measured["identical"]["repeated"] else None
    copies = duplicates.limit(0)
    if repeated is not None:
        copies = output.list_copies(repeated, tables["signatures"], members)
    every = duplicates if repeated is None else duplicates.unionByName(copies)
    named = output.name_edges(
        tables["edges"], tables["identical"], members, broadcast=work.rows("members") <= BROADCAST_ROWS
    )
    examples = [each["doc_id"] for one in largest for each in one["examples"]]
    noted = Observation()
    # All writes at once: but for the first they are small, and each has its share of waiting for the driver.
    with ThreadPoolExecutor() as writers:
        corpus = writers.submit(_write_corpus, work, duplicates, copies, repeated, examples=examples, noted=noted)
        writes = {
            "duplicates": writers.submit(_write, work, "duplicates", every.drop("doc_id")),
            "edges": writers.submit(_write, work, "edges", named),
        }
        if work.rejected is not None:
            writes["quarantined"] = writers.submit(_write, work, "quarantine", work.rejected)
    written = {part: write.result() for part, write in writes.items()}
    written = {**corpus.result(), **written, "near_misses": near_misses}
    total = work.rows("signatures")
    removed = written.get("removed", written["duplicates"])
    if written["kept"] + removed != total or removed != written["duplicates"]:
        raise DedupError(
            f"output: kept and removed must add up to the {total:,} documents of the input, and removed must be the "
            f"duplicates (got {written['kept']:,} kept, {removed:,} removed, {written['duplicates']:,} duplicates); "
            "did the input change while it was read?"
        )
    work.check_input()
    work.measured["output"] = {"rows": written["kept"], **written}
    survival = output.count_sources(tables["signatures"], every) if work.config.input.source_column else None
    texts = noted.get["texts"] if examples and work.config.output.mode != "ids" else []
    return {row.doc_id: " ".join((row.text or "").split()) for row in texts}, survival


def _write_corpus(
    work: Run,
    duplicates: DataFrame,
    copies: DataFrame,
    repeated: DataFrame | None,
    *,
    examples: Collection[int],
    noted: Observation,
) -> dict[str, Any]:
    """Write the input as the mode wants it.

    Returns
    -------
    dict
        `kept` rows; `removed` ones, where they are written; `text_bytes_kept`, None where no text is.
    """
    user_id, doc_id = documents.identify(work.corpus, id_column=work.id_column)
    mode, kind, text_column = work.config.output.mode, _target_format(work), work.config.input.text_column
    text_bytes = F.octet_length(documents.column(text_column))
    corpus = work.corpus
    if examples and mode != "ids":
        corpus = output.note_texts(corpus, doc_id, examples, text_column, noted)
    if mode == "annotate":
        rows, is_kept = output.annotate(corpus, doc_id, duplicates, copies, repeated), F.col("dedup_kept")
    else:
        broadcast = work.rows("members") <= BROADCAST_ROWS
        rows, flag = output.mark(corpus, doc_id, duplicates, repeated, broadcast=broadcast)
        is_kept = ~F.col(flag)
    if mode == "ids":
        ids = rows.filter(is_kept).select(user_id.alias(work.id_column or "id"))
        return {"kept": _write(work, "kept", ids, kind), "text_bytes_kept": None}
    observation = Observation()
    sums = {"rows": F.count(F.lit(1)), "kept": F.count_if(is_kept), "bytes": F.sum(F.when(is_kept, text_bytes))}
    observed = rows.observe(observation, *[value.alias(name) for name, value in sums.items()])
    if mode == "annotate":
        work.workspace.write_result("annotated", observed, kind)
    elif not work.rows("members") and repeated is None:
        # One of the two folders would be missing; an empty table can at least be read.
        work.workspace.write_result("removed", work.corpus.limit(0), kind)
        work.workspace.write_result("kept", observed.drop(flag), kind)
    else:
        work.workspace.write_parts(observed, flag, {"false": "kept", "true": "removed"}, kind)
    seen = observation.get
    found = {"kept": seen["kept"], "text_bytes_kept": seen["bytes"] or 0}
    return found if mode == "annotate" else {**found, "removed": seen["rows"] - seen["kept"]}


def write_near_misses(work: Run) -> int:
    """Write them, which needs no component, and return how many there are."""
    few = work.rows("compared") - work.rows("edges") <= BROADCAST_ROWS
    near_misses = edges.select_near_misses(work.tables["compared"], threshold=work.config.threshold, on_driver=few)
    ids = work.tables["signatures"].select("doc_id", "id")
    if work.measured["identical"]["repeated"]:
        ids = ids.distinct()
    return _write(work, "near_misses", output.name_near_misses(near_misses, ids, broadcast=few))


def _target_format(work: Run) -> str:
    if work.config.output.format != "input":
        return work.config.output.format
    return "parquet" if work.format == "text" else work.format


def _write(work: Run, name: str, rows: DataFrame, kind: str = "parquet") -> int:
    """Write rows of the result and return how many there are."""
    observation = Observation()
    work.workspace.write_result(name, rows.observe(observation, F.count(F.lit(1)).alias("rows")), kind)
    return int(observation.get["rows"])
