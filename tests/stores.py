"""An object store of this machine."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest

from dedup.files.systems import _connect_of
from tests.chaos.conftest import free_port

KEYS = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@contextmanager
def serve_bucket() -> Iterator[str]:
    """Serve an S3 bucket that this process has the credentials of; its URL."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
            patch.setenv(name, value)
        _connect_of.cache_clear()
        client = boto3.client("s3", config=boto3.session.Config(retries={"max_attempts": 20, "mode": "standard"}))
        client.create_bucket(Bucket="corpora")
        yield "s3a://corpora"
    _connect_of.cache_clear()
    server.terminate()
    server.wait(10)
