"""Corpus that a sample is drawn from, read by tasks of Spark."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.corpus import read_documents
from dedup.engine.exchange import Batches, Counters
from dedup.engine.file_corpus import Files
from dedup.evaluate.corpus import NAMES, Labelled, Neighbours, find_labelled
from dedup.evaluate.neighbours import find_neighbours
from dedup.files.splits import split_files
from dedup.kernels import Integers
from dedup.kernels.neighbours import Seeds
from dedup.run.input import load_table, take_table
from dedup.run.job import Job
from dedup.run.opening import SPLIT_BYTES, list_input, open_input
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowCorpus:
    """Corpus in rows of Spark; see `corpus`."""

    rows: DataFrame
    """doc_id, id and text."""

    @classmethod
    def open(cls, spark: SparkSession, job: Job) -> Self:
        """Open the files of an input, or its table.

        Raises
        ------
        DedupError
            As for a run.
        """
        chosen = job.config.input
        if chosen.table:
            table = take_table(load_table(spark, chosen.table), chosen.table).rows
            return cls(rows=read_documents(table, id_column=chosen.id_column, text_column=chosen.text_column))
        listing = list_input(job)
        files = Files(spark=spark, source=open_input(job.config, listing), splits=split_files(listing, SPLIT_BYTES))
        schema = T.StructType().add("doc_id", T.LongType()).add("id", files.id_type).add("text", T.StringType())
        return cls(rows=files.scan(_select, schema))

    def read_labels(self, path: str) -> Labelled:
        """See `SampledCorpus.read_labels`."""
        is_string = isinstance(self.rows.schema["id"].dataType, T.StringType)

        def find(wanted: Integers) -> Integers:
            found: Integers = self._choose(wanted).select("doc_id").toArrow()["doc_id"].to_numpy()
            return found

        return find_labelled(path, pa.string() if is_string else pa.int64(), find)

    def draw(self, count: int) -> pa.Table:
        """See `SampledCorpus.draw`."""
        named = self.rows.filter(F.col("doc_id").isNotNull())
        return named.orderBy(F.xxhash64("doc_id"), "doc_id").limit(count).toArrow()

    def fetch(self, doc_ids: Integers) -> pa.Table:
        """See `SampledCorpus.fetch`."""
        return self._choose(np.unique(doc_ids)).select(*NAMES).toArrow()

    def find_neighbours(self, seeds: Seeds, *, most: int, config: Config) -> Neighbours:
        """See `SampledCorpus.find_neighbours`."""
        counters = Counters(self.rows.sparkSession)
        found = find_neighbours(
            self.rows,
            seeds,
            most=most,
            tokenizer=load_tokenizer(config),
            shingle_size=config.shingles.shingle_size,
            counters=counters,
        ).toArrow()
        return Neighbours(found["seed"].to_numpy(), found["doc_id"].to_numpy(), counters.values())

    def _choose(self, doc_ids: Integers) -> DataFrame:
        wanted = self.rows.sparkSession.createDataFrame(pa.table({"doc_id": doc_ids}))
        return self.rows.join(F.broadcast(wanted), on="doc_id", how="left_semi")


def _select(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        texts = batch["text"].cast(pa.string())
        yield pa.RecordBatch.from_arrays([batch["doc_id"], batch["id"], texts], names=[*NAMES])
