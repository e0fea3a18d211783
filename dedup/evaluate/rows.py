"""Corpus that a sample is drawn from, in rows of a table that Spark reads."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engine.corpus import read_documents
from dedup.engine.engine import Batches, Tally
from dedup.engine.sessions import to_frame
from dedup.engine.table import collect_counted
from dedup.evaluate.corpus import NAMES, Neighbours
from dedup.files.columns import PIECE_BYTES
from dedup.kernels import Integers, neighbours
from dedup.kernels.neighbours import Seeds
from dedup.kernels.runs.batches import slice_by_bytes
from dedup.run.input import load_table, take_table
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config
from dedup.tables import arrow

FOUND = arrow.integers("seed", "doc_id")
"""Documents that resemble a seed, which is given by its number."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowCorpus:
    """Corpus in rows of Spark; see `corpus`."""

    rows: DataFrame
    """doc_id, id and text."""

    @classmethod
    def open(cls, spark: SparkSession, config: Config) -> Self:
        """Open the table of the input.

        Raises
        ------
        DedupError
            As for a run.
        """
        chosen = config.input
        table = take_table(load_table(spark, chosen.table), chosen.table).rows
        return cls(
            rows=read_documents(
                table,
                id_column=chosen.id_column,
                text_columns=config.text_columns,
                has_sets=config.shingles.has_sets,
            )
        )

    @property
    def id_type(self) -> pa.DataType:
        """See `SampledCorpus.id_type`."""
        return pa.string() if isinstance(self.rows.schema["id"].dataType, T.StringType) else pa.int64()

    def draw(self, count: int) -> pa.Table:
        """See `SampledCorpus.draw`."""
        named = self.rows.filter(F.col("doc_id").isNotNull())
        return named.orderBy(F.xxhash64("doc_id"), "doc_id").limit(count).toArrow()

    def fetch(self, doc_ids: Integers) -> pa.Table:
        """See `SampledCorpus.fetch`."""
        wanted = to_frame(self.rows.sparkSession, pa.table({"doc_id": np.unique(doc_ids)}))
        return self.rows.join(F.broadcast(wanted), on="doc_id", how="left_semi").select(*NAMES).toArrow()

    def find_neighbours(self, seeds: Seeds, *, most: int, config: Config) -> Neighbours:
        """See `SampledCorpus.find_neighbours`: one pass over the text, no shuffle."""
        tokenizer, shingle_size = load_tokenizer(config), config.shingles.shingle_size

        def search(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
            tally = Tally()
            named = (batch.filter(pc.is_valid(batch["doc_id"])) for batch in batches)
            pieces = (
                (piece["doc_id"].to_numpy(), piece["text"])
                for batch in named
                for piece in slice_by_bytes(batch, PIECE_BYTES)
            )
            near, others = neighbours.find_neighbours(
                pieces, seeds, most=most, tokenizer=tokenizer, shingle_size=shingle_size, counts=tally
            )
            yield tally
            yield pa.record_batch([pa.array(near), pa.array(others)], FOUND)

        texts = self.rows.select("doc_id", "text")
        found, tally = collect_counted(
            from_arrow_schema(FOUND), lambda ending: texts.mapInArrow(ending(search), ending.schema)
        )
        return Neighbours(found["seed"].to_numpy(), found["doc_id"].to_numpy(), tally.to_dict())
