"""REGISTER, REMOVALS -> WEIGHTS: how often each document is to be sampled, in place of removal.

SoftDedup (He et al. 2024, https://arxiv.org/abs/2407.06654) lowers the weight of what is common and removes nothing.
"""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.kernels.election import number_values
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.representatives import count_copies
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import join_groups
from dedup.output.row_decisions import Findings
from dedup.settings.rules import Copies


def list_columns(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of OUT/weights: all rows."""
    return pa.schema(
        [
            ("id", id_type),
            ("representative_id", id_type),  # the document kept; null where a layer removes without one
            ("documents", pa.int64()),  # of its cluster: the one kept and those removed in its favour
            ("sources", pa.int64()),  # distinct sources of these
            ("weight", pa.float64()),  # those of a cluster add up to f(documents); 0 where none is kept
        ]
    )


def weigh(engine: Engine[Rows], found: Findings[Rows], copies: Copies) -> Rows:
    """Return WEIGHTS.

    Parameters
    ----------
    copies
        Setting `keep.copies`, the f of a cluster's documents.
    """
    id_type = engine.id_type
    known = pa.schema([("id", id_type), ("source", pa.string()), ("representative_id", id_type)])
    emitted, schema = pa.schema([("key", pa.int64()), *known]), list_columns(id_type)
    documents = engine.select(found.documents, "doc_id", "id", "source")
    if found.chain.removals is not None:
        removals = engine.select(found.chain.removals, "doc_id", "layer", "representative_id")
        documents = engine.join(documents, removals, "doc_id", how="left")
    shuffle = Shuffle(
        emit=partial(_name_cluster, schema=emitted),
        emitted=emitted,
        by=["key"],
        work=partial(_weigh, copies=copies, schema=schema),
        schema=schema,
    )
    return engine.group("weights", documents, shuffle, once=True)


def _name_cluster(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Give documents the one that is kept, or they themselves, and the hash of its id, by which a cluster meets."""
    for batch in batches:
        others = batch["id"]
        if "layer" in batch.schema.names:
            others = pc.if_else(batch["layer"].is_valid(), batch["representative_id"], others)
        keys = to_doc_ids(pc.coalesce(others, batch["id"]))
        yield conform(batch, schema, key=keys, representative_id=others)


def _weigh(batches: Batches, *, copies: Copies, schema: pa.Schema) -> Batches:
    for batch in join_groups(batches, ["key"]):
        # Ids may share a hash, and what is removed for no document is in no cluster.
        clusters, sources = (number_values(batch[name]) for name in ("representative_id", "source"))
        order = np.lexsort((sources, clusters))
        firsts = order[mark_firsts(clusters[order], sources[order])]
        sizes = np.bincount(clusters)
        found = batch["representative_id"].is_valid()
        counts = {
            "documents": sizes[clusters],
            "sources": np.bincount(clusters[firsts])[clusters],
            "weight": (count_copies(copies, sizes) / sizes)[clusters],
        }
        nothing = {"documents": 1, "sources": 1, "weight": 0.0}
        columns = {name: pc.if_else(found, pa.array(values), nothing[name]) for name, values in counts.items()}
        yield conform(batch, schema, **columns)
