"""An input and an output that share a place, by whatever name."""

import pytest

from dedup.errors import StorageError
from dedup.run.overlap import check_apart


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("outer/data", "same", "real/below", "linking"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "linking" / "inner").symlink_to(tmp_path / "real" / "below")


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("same", "same"),
        ("./outer/../same/", "same/"),
        ("outer/data", "outer"),
        ("outer", "outer/clean"),
        ("real/below", "link"),
        ("link/below", "real"),
        ("linking", "real"),
        ("file:{here}/same", "same"),
        ("same", "file://{here}/link/../same"),
        ("o*r/data", "outer"),
        ("*", "clean"),
        ("data/*", "data/clean"),
        ("cle[a-m]?", "clean"),
        ("{{raw,clean}}/x", "clean"),
        ("{{raw/x,clean}}", "clean"),
        ("clean.partial/result/kept", "clean"),
        ("clean.replaced/kept", "clean"),
        ("clean.lock", "clean"),
        ("s3a://bucket/corpus/part", "s3://bucket/corpus"),
        ("s3a://user:pass@bucket/corpus", "s3a://bucket/corpus/clean"),
        ("hdfs://name/corpus", "/corpus/clean"),
    ],
)
def test_an_output_that_overlaps_an_input_is_refused_and_both_are_named(tmp_path, source, output):
    source, output = (path.format(here=tmp_path) for path in (source, output))

    with pytest.raises(StorageError, match="must lie apart from every input") as refused:
        check_apart(["elsewhere", source], output)

    assert source in str(refused.value)
    assert output in str(refused.value)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("same", "same2"),
        ("data/part.parquet", "data/clean"),
        ("data/*.parquet", "data/clean"),
        ("data/*/raw", "data/part.d/clean"),
        ("s3a://bucket/corpus", "s3a://other/corpus"),
        ("s3a://bucket/corpus", "corpus"),
        ("/corpus/raw", "hdfs://name/corpus/clean"),
    ],
)
def test_an_output_beside_the_input_is_allowed(source, output):
    check_apart([source], output)
