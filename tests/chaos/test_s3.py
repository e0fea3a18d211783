"""The whole job on an object store, where a rename is a copy of every file."""

import json
import subprocess
import sys
import time

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.chaos.conftest import STAGED, await_, finish, free_port, kill, start
from tests.stores import KEYS

HADOOP = "3.4.2"
SDK = "2.29.52"
# The one bundle that hadoop-aws asks for has 640 MB, of which S3 needs 30.
PACKAGES = [f"org.apache.hadoop:hadoop-aws:{HADOOP}"]
PACKAGES += [f"software.amazon.awssdk:{name}:{SDK}" for name in ("s3", "s3-transfer-manager", "sts", "kms")]
NAMES = ("kept", "removed", "duplicates", "edges")
SECRETS = {"spark.hadoop.fs.s3a.access.key": "user", "spark.hadoop.fs.s3a.secret.key": "secret"}


@pytest.fixture(scope="module")
def endpoint():
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="module")
def bucket(endpoint, corpus):
    """Return a bucket with the corpus under `in/`."""
    keys = {"aws_access_key_id": "user", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    bucket = boto3.resource("s3", endpoint_url=endpoint, **keys).Bucket("corpora")
    deadline = time.monotonic() + 30
    while True:
        try:
            bucket.create()
            break
        except (BotoCoreError, ClientError):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    for file in corpus.glob("*.parquet"):
        bucket.upload_file(str(file), f"in/{file.name}")
    return bucket


def begin(endpoint, output, *arguments, scheme="s3a", settings=SECRETS, **environment):
    settings = {
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.jars.excludes": "software.amazon.awssdk:bundle",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        **settings,
    }
    words = " ".join(f"--conf {key}={value}" for key, value in settings.items())
    environment["PYSPARK_SUBMIT_ARGS"] = f"{words} pyspark-shell"
    # What has its credentials from Spark alone is read as a table.
    source = f"parquet.`{scheme}://corpora/in`" if settings == {**settings, **SECRETS} else f"{scheme}://corpora/in"
    return start(source, f"{scheme}://corpora/{output}", *arguments, **environment)


def keys_of(bucket, prefix):
    return [found.key for found in bucket.objects.filter(Prefix=prefix)]


def find(bucket, output):
    """Return where the published version of an output lies."""
    return f"{output}/{bucket.Object(f'{output}/_CURRENT').get()['Body'].read().decode()}"


def read(bucket, output):
    output, found = find(bucket, output), {}
    for name in NAMES:
        parts = [key for key in keys_of(bucket, f"{output}/{name}/") if key.endswith(".parquet")]
        tables = [pq.read_table(pa.BufferReader(bucket.Object(key).get()["Body"].read())) for key in parts]
        found[name] = sorted((row for table in tables for row in table.to_pylist()), key=repr)
    return found


def test_the_result_on_an_object_store_is_that_of_a_disk(endpoint, bucket, undisturbed):
    status, said = finish(begin(endpoint, "whole", *STAGED))

    assert (status, said) == (0, "")
    assert read(bucket, "whole") == undisturbed
    keys = keys_of(bucket, "whole")
    version = find(bucket, "whole")
    assert {"whole/_SUCCESS", f"{version}/report.json", f"{version}/report.html"} <= set(keys)
    assert [key for key in keys if not key.startswith("whole/")] == []
    newest = max(bucket.objects.filter(Prefix="whole/"), key=lambda found: found.last_modified)
    assert bucket.Object("whole/_SUCCESS").last_modified == newest.last_modified


@pytest.mark.parametrize("scheme", ["s3a", pytest.param("s3", marks=pytest.mark.full)])
def test_workers_with_the_machines_own_credentials_read_and_write_file_by_file(endpoint, bucket, undisturbed, scheme):
    output = f"own-{scheme}"
    own = {**KEYS, "AWS_ENDPOINT_URL": endpoint}
    status, said = finish(begin(endpoint, output, scheme=scheme, settings={}, **own))

    assert (status, said) == (0, "")
    assert read(bucket, output) == undisturbed
    version = find(bucket, output)
    assert json.loads(bucket.Object(f"{version}/report.json").get()["Body"].read())["reader"] == "files"
    given = [key.removeprefix("in/") for key in keys_of(bucket, "in/")]
    assert [key.removeprefix(f"{version}/kept/") for key in keys_of(bucket, f"{version}/kept/")] == given
    assert [key for key in keys_of(bucket, output) if not key.startswith(f"{output}/")] == []


@pytest.mark.full
def test_a_driver_killed_while_it_publishes_leaves_no_whole_output(endpoint, bucket, undisturbed):
    process = begin(endpoint, "cut")
    await_(lambda: keys_of(bucket, "cut/"), process)
    kill(process)
    assert "cut/_SUCCESS" not in keys_of(bucket, "cut/")
    status, said = finish(begin(endpoint, "cut"))

    assert status == 0, said[-3000:]
    assert read(bucket, "cut") == undisturbed
    assert [key for key in keys_of(bucket, "cut") if not key.startswith("cut/")] == []
