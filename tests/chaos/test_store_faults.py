"""A server of S3 that refuses its n-th request, or is out from there on, for n all over a small run.

Every step of a run on such a store fails in tests/chaos/test_storage_faults.py.
"""

import json
import threading
from collections.abc import Callable, Iterator

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from pyarrow import fs
from werkzeug.serving import WSGIRequestHandler, make_server

from dedup.files import systems
from dedup.files.storage import Storage
from dedup.report.summary import Drawing
from dedup.run import lock
from tests.chaos.conftest import STRIDE
from tests.chaos.test_storage_faults import TEXTS, deduplicate, result

BUCKET = "s3://corpora"
REFUSAL = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
OUTAGE = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"


class Server:
    """An application that counts requests, and fails some."""

    def __init__(self, application: Callable) -> None:
        self._application = application
        self._counting = threading.Lock()
        self.reset()

    def reset(self, at: int = 0, *, lasts: bool = False) -> None:
        """Count anew: the request numbered `at` is refused, or it and all after it find the store out of order."""
        self.count, self.at, self.lasts = 0, at, lasts

    def __call__(self, environment: dict, answer: Callable) -> list[bytes]:
        with self._counting:
            self.count += 1
            fails = self.at and (self.count >= self.at if self.lasts else self.count == self.at)
        if not fails:
            return self._application(environment, answer)
        answer("500 Internal Server Error" if self.lasts else "403 Forbidden", [("Content-Type", "application/xml")])
        return [OUTAGE if self.lasts else REFUSAL]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve on loopback."""
    server = Server(DomainDispatcherApplication(create_backend_app))
    # It answers in two parts, and the second would wait for the client to confirm the first, 40 ms a request.
    prompt = type("Prompt", (WSGIRequestHandler,), {"disable_nagle_algorithm": True})
    listening = make_server("127.0.0.1", 0, server, threaded=True, request_handler=prompt)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    server.port = listening.server_port
    yield server
    listening.shutdown()
    thread.join()


@pytest.fixture(autouse=True)
def bucket(server, monkeypatch):
    """Return the file system of the store, with the corpus in it."""
    options = {"access_key": "user", "secret_key": "secret", "region": "us-east-1", "scheme": "http"}
    retry = fs.AwsStandardS3RetryStrategy(max_attempts=1)
    store = fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{server.port}", allow_bucket_creation=True, retry_strategy=retry, **options
    )
    monkeypatch.setattr(systems, "_connect", lambda scheme, _: store if scheme else fs.LocalFileSystem())
    for name, seconds in {"SETTLE_SECONDS": 0, "BEAT_SECONDS": 5, "PATIENCE_SECONDS": 0}.items():
        monkeypatch.setattr(lock, name, seconds)
    monkeypatch.setattr(lock, "_is_alive", lambda _: False)
    monkeypatch.setattr("dedup.run.execution.draw", lambda *_: Drawing())
    monkeypatch.setattr("dedup.run.execution.to_html", lambda *_: "a page")
    server.reset()
    store.create_dir("corpora")
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    with Storage().create(f"{BUCKET}/in/a.jsonl") as stream:
        stream.write("".join(json.dumps(row) + "\n" for row in rows).encode())
    return store


def list_all(root: str) -> list[str]:
    return [entry.path for entry in Storage().list(root, recursive=True) if not entry.is_folder]


@pytest.mark.parametrize(
    "lasts", [pytest.param(False, id="refused", marks=pytest.mark.full), pytest.param(True, id="out of order")]
)
def test_whatever_request_fails_nothing_is_lost_and_a_rerun_gives_the_same(server, lasts, capsys):
    begin = Storage().open(f"{BUCKET}/in/a.jsonl").readall()
    Storage().delete(f"{BUCKET}/out")
    server.reset()
    assert deduplicate(BUCKET) == 0
    whole, count = result(BUCKET), server.count
    assert count > 60
    ends = set()
    # An upload is three requests, of which each fourth is each in turn.
    for number in range(1, count + 1, 8 * STRIDE if lasts else 4):
        Storage().delete(f"{BUCKET}/out")
        server.reset(number, lasts=lasts)
        status = deduplicate(BUCKET)
        server.reset()
        said = capsys.readouterr().err
        ends.add(status)
        assert "Traceback" not in said, f"request {number}: {said}"
        assert status in {0, 2}, f"request {number}: {said}"
        if status == 0:
            assert result(BUCKET) == whole, f"request {number}"
        assert deduplicate(BUCKET) == 0, f"request {number}: {capsys.readouterr().err}"
        assert result(BUCKET) == whole, f"request {number}"
        assert Storage().open(f"{BUCKET}/in/a.jsonl").readall() == begin
        assert [name for name in list_all(BUCKET) if not name.startswith(("in/", "out/"))] == [], f"request {number}"
    assert ends >= {2}
