"""The layer `near` in memory: what the first pass over the text signed, searched."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines import memory
from dedup.engines.machine import free_bytes
from dedup.engines.values import Found, Search
from dedup.kernels import Hashes, Integers
from dedup.layers import layer
from dedup.run.clock import Clock
from dedup.run.signing import Reading, Signatures
from dedup.settings.keeping import parse_order
from dedup.settings.layers import NEAR
from dedup.settings.options import Config
from dedup.tables import arrow
from dedup.tables.counts import Labeled, Layered, Near

KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """Result of the layer."""

    signed: Signatures
    found: Found

    def to_found(self) -> layer.Found[pa.Table]:
        """Return it as a chain takes it."""
        gone = self._list_members().filter(pc.not_equal(self.found.members["kind"], KEPT))
        return layer.Found(documents=self.signed.to_register(), removals=gone)

    def to_step(self) -> Layered:
        """Return its counts as a chain takes them."""
        counts = self.signed.counts
        return Layered(
            layer=NEAR,
            documents=counts.rows,
            text_bytes=counts.text_bytes,
            tokens=counts.tokens,
            removed=self.found.members.num_rows,
        )

    def list_kept(self) -> pa.Table:
        """Return the documents that stay for others: REMOVALS that are none."""
        return self._list_members().filter(pc.equal(self.found.members["kind"], KEPT))

    def _list_members(self) -> pa.Table:
        members = self.found.members
        schema = arrow.removals(members.schema.field("id").type)
        more = {"layer": pa.repeat(NEAR, members.num_rows), "component_id": members["component"]}
        columns = {name: more[name] if name in more else members[name] for name in schema.names}
        return pa.table(columns).cast(schema)

    def list_edges(self) -> pa.Table:
        """Return EDGES, and documents of one shingle set as edges of Jaccard 1."""
        same = self.found.identical
        pairs = [same["doc_id"], same["set_id"], pa.chunked_array([pa.repeat(1.0, same.num_rows)])]
        return pa.concat_tables([self.found.edges.cast(arrow.EDGES), pa.Table.from_arrays(pairs, schema=arrow.EDGES)])

    def count(self, labels: pa.Table | None) -> Near:
        """Return the counts of all stages."""
        found = self.found
        return Near(
            signed=self.signed.counts,
            collapsed=found.collapsed,
            bucketed=found.bucketed,
            paired=found.paired,
            verified=found.verified,
            connected=found.connected,
            lost=found.lost,
            elected=found.elected,
            labeled=None
            if labels is None or found.recall is None
            else Labeled(given=labels.num_rows, points=found.recall),
        )


def search(reading: Reading, labels: pa.Table | None, clock: Clock, threads: int) -> Searched:
    """Sign and search all documents that are left.

    Parameters
    ----------
    labels
        LABELS of the duplicates among labelled pairs.
    """
    signed = clock("signatures", reading.sign)
    found = memory.find(
        reading.describe(signed),
        partial(_collect_sets, reading, signed, threads=threads),
        to_search(reading.config),
        labels,
        threads=threads,
        free_bytes=free_bytes(),
        stage=clock.time,
        inform=clock.inform,
    )
    for name, counts in _list_counts(found).items():
        clock.note(name, counts)
    return Searched(signed=signed, found=found)


def to_search(config: Config) -> Search:
    """Return the parameters of a search, of settings without "auto"."""
    return Search(
        threshold=config.threshold,
        mode=config.mode,
        bands=config.banding.bands,
        rows=config.banding.rows,
        max_bucket=config.buckets.max_bucket,
        estimate_sigmas=config.candidates.estimate_sigmas,
        per_source=config.limits.per_source,
        rules=parse_order(config.keep.order, "keep"),
        by_representative=config.cluster.linkage == "representative",
        max_component=config.cluster.max_component,
        copies=config.keep.copies,
        copies_per_source=config.keep.copies_per_source,
    )


def _collect_sets(reading: Reading, signed: Signatures, doc_ids: Integers, *, threads: int) -> tuple[Hashes, Integers]:
    """Return the shingle sets of some documents, in their order."""
    order = np.argsort(signed.part.doc_ids, kind="stable")
    rows = order[np.searchsorted(signed.part.doc_ids, doc_ids, sorter=order)]
    found = reading.collect(signed, rows, threads=threads)
    # Nobody asks a second time.
    signed.held.clear()
    return found


def _list_counts(found: Found) -> dict[str, Any]:
    """Return the counts of the stages by their names."""
    return {
        "identical": found.collapsed,
        "buckets": found.bucketed,
        "candidates": found.paired,
        "edges": found.verified,
        "components": found.connected,
        "representatives": found.elected,
    }
