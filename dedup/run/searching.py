"""The layer `near` in memory: what the first pass over the text signed, searched."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.values import Found, Search
from dedup.layers import NEAR, layer
from dedup.run.signing import Signatures
from dedup.settings.banding import SIGMAS
from dedup.settings.keeping import parse_order
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


def to_search(config: Config) -> Search:
    """Return the parameters of a search, of settings without "auto"."""
    return Search(
        threshold=config.threshold,
        mode=config.mode,
        bands=config.banding.bands,
        rows=config.banding.rows,
        max_bucket=config.buckets.max_bucket,
        estimate_sigmas=SIGMAS,
        per_source=config.limits.per_source,
        rules=parse_order(config.keep.order, "keep"),
        by_representative=config.cluster.linkage == "representative",
        max_component=config.cluster.max_component,
        copies=config.keep.copies,
        copies_per_source=config.keep.copies_per_source,
    )
