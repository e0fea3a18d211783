"""Corpus that a sample is drawn from, as Spark reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedup.engine.corpus import read_documents
from dedup.engine.exchange import Counters
from dedup.evaluate.corpus import Labelled, Neighbours
from dedup.evaluate.labels import select_known
from dedup.evaluate.neighbours import find_neighbours
from dedup.kernels import Integers
from dedup.kernels.neighbours import Seeds
from dedup.run.input import load_table, read_input, take_table
from dedup.run.labels import read_labels
from dedup.run.storage import HadoopStorage
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowCorpus:
    """Corpus in rows of Spark; see `corpus`."""

    storage: HadoopStorage
    rows: DataFrame
    """Rows in the form of DOCUMENTS."""

    @classmethod
    def open(cls, spark: SparkSession, storage: HadoopStorage, inputs: Sequence[str], config: Config) -> Self:
        """Read an input with Spark's readers.

        Raises
        ------
        StorageError, DataError
            As `load_table` and `read_input`.
        """
        table = load_table(spark, inputs, config.input)
        read = read_input(spark, storage, inputs, config.input) if table is None else take_table(table, config.input)
        text_column = config.input.text_column
        rows = read_documents(read.corpus.rows, id_column=read.id_column, text_column=text_column)
        return cls(storage=storage, rows=rows)

    def read_labels(self, path: str) -> Labelled:
        """See `SampledCorpus.read_labels`."""
        spark, id_type = self.rows.sparkSession, self.rows.schema["id"].dataType
        labels = read_labels(spark, self.storage, path, id_type=id_type, where="--pairs").cache()
        return Labelled(given=labels.count(), pairs=select_known(labels, self.rows).toArrow())

    def draw(self, count: int) -> pa.Table:
        """See `SampledCorpus.draw`."""
        named = self.rows.filter(F.col("doc_id").isNotNull())
        return named.orderBy(F.xxhash64("doc_id"), "doc_id").limit(count).toArrow()

    def fetch(self, doc_ids: Integers) -> pa.Table:
        """See `SampledCorpus.fetch`."""
        wanted = self.rows.sparkSession.createDataFrame(pa.table({"doc_id": np.unique(doc_ids)}))
        found = self.rows.join(F.broadcast(wanted), on="doc_id", how="left_semi")
        return found.select("doc_id", "id", "text").toArrow()

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
