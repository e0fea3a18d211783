"""COMPONENTS, IDENTICAL, SIGNATURES, EDGES -> MEMBERS -> DUPLICATES."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

POLICIES: Mapping[str, Callable[[], Column]] = MappingProxyType({"smallest_id": lambda: F.struct("id", "doc_id")})
"""Which document of a component is kept: the one least in the policy's column, made of columns of MEMBERS.

`smallest_id` orders numbers as numbers and strings by their bytes.
"""
PAIR = ["left_id", "right_id"]


def list_members(components: DataFrame, identical: DataFrame, signatures: DataFrame) -> DataFrame:
    """COMPONENTS, IDENTICAL, SIGNATURES -> MEMBERS, every document that another one resembles; shuffles members.

    Documents of one shingle set lie in the component of its edges, or in one of their own if it has none.
    """
    alone = identical.select("set_id", F.col("set_id").alias("component_id"))
    joined = components.select(F.col("doc_id").alias("set_id"), "component_id")
    # A component's id is the least of its documents, so the minimum prefers it to the set's own.
    sets = joined.unionByName(alone).groupBy("set_id").agg(F.min("component_id").alias("component_id"))
    copies = identical.join(sets, on="set_id", how="inner").select("doc_id", "set_id", "component_id")
    members = sets.select(F.col("set_id").alias("doc_id"), "set_id", "component_id").unionByName(copies)
    # Rows without an id column can be equal: they are one document here.
    ids = signatures.select("doc_id", "id").join(members.select("doc_id"), on="doc_id", how="left_semi").distinct()
    return members.join(ids, on="doc_id", how="inner").select("doc_id", "id", "set_id", "component_id")


def elect(members: DataFrame, *, policy: str) -> DataFrame:
    """MEMBERS -> MEMBERS other than their component's representative, with `representative` (doc_id, id, set_id).

    Also `left_id`, `right_id`: the shingle sets of both, in ascending order.
    """
    chosen = members.groupBy("component_id").agg(
        F.min_by(F.struct("doc_id", "id", "set_id"), POLICIES[policy]()).alias("representative")
    )
    others = members.join(chosen, on="component_id", how="inner")
    return others.filter(F.col("doc_id") != F.col("representative.doc_id")).select(
        "*",
        F.least("set_id", "representative.set_id").alias("left_id"),
        F.greatest("set_id", "representative.set_id").alias("right_id"),
    )


def find_distant(elected: DataFrame, edges: DataFrame) -> DataFrame:
    """Elected, EDGES -> (left_id, right_id) of duplicates and representatives that no edge joins directly."""
    pairs = elected.filter(F.col("left_id") != F.col("right_id")).select(*PAIR).distinct()
    return pairs.join(edges, on=PAIR, how="left_anti")


def explain(elected: DataFrame, edges: DataFrame, distant: DataFrame) -> DataFrame:
    """Elected, EDGES, and EDGES of the distant pairs whatever their Jaccard -> DUPLICATES."""
    similarities = edges.select(*PAIR, "jaccard").unionByName(distant.select(*PAIR, "jaccard"))
    same = F.col("left_id") == F.col("right_id")
    return elected.join(similarities, on=PAIR, how="left").select(
        "doc_id",
        "id",
        F.col("representative.id").alias("representative_id"),
        "component_id",
        F.when(same, "identical").otherwise("near").alias("kind"),
        F.when(same, 1.0).otherwise(F.col("jaccard")).alias("jaccard"),
    )
