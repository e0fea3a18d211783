"""Which paths the workers read themselves, and which are left to Spark's readers."""

import pytest

from dedup.run.pipeline import _is_on_disk


@pytest.mark.parametrize(
    ("default", "path", "expected"),
    [
        ("file:///", "corpus/a.parquet", True),
        ("file:///", "file:/corpus", True),
        ("file:///", "s3a://bucket/corpus", False),
        ("hdfs://name:8020", "/corpus", False),
        ("hdfs://name:8020", "file:/corpus", True),
    ],
)
def test_a_path_without_a_scheme_is_where_spark_takes_it_to_be(spark, default, path, expected):
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", default)
    try:
        assert _is_on_disk(spark, path) == expected
    finally:
        settings.set("fs.defaultFS", before)
