"""A store over HTTP."""

import asyncio
import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import dedup
from dedup.cli import store as cli
from dedup.errors import StorageError
from dedup.serving import API, MOST_BYTES, Service
from tests.conftest import PROFILE

TOKEN = "a token of the tests"  # noqa: S105
ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["one two three four five six seven", "another text of some other words"]


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """Return the path of a store, which each test has a copy of."""
    store = dedup.Store(tmp_path_factory.mktemp("grown") / "store")
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    store.add(rows, "first", id_column="id", engine="memory")
    return store.path


@pytest.fixture
def store(grown, tmp_path):
    return dedup.Store(str(shutil.copytree(grown, tmp_path / "store")))


@pytest.fixture
def service(store):
    with store.admission() as admission:
        yield Service(admission, TOKEN, "http://here")


def ask(service, path="/admit", body=b"", *, method="POST", token=TOKEN) -> tuple:
    """Return status, body and headers of the answer."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body if isinstance(body, bytes) else json.dumps(body).encode()}

    async def send(part):
        sent.append(part)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(b"authorization", f"Bearer {token}".encode())],
    }
    asyncio.run(service(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


def bodies(*texts, first=None):
    named = [{"text": text} if first is None else {"text": text, "id": first + at} for at, text in enumerate(texts)]
    return {"documents": named}


def test_documents_are_admitted_and_answered_as_described(service):
    status, body, _ = ask(service, body=bodies(f"{TEXTS[0]}!", "new words", None, first=10))
    told = json.loads(body)["documents"]
    assert (status, told[0]) == (200, {"id": 10, "duplicate": True, "of": 0, "jaccard": 1.0, "unsure": False})
    assert [each["duplicate"] for each in told[1:]] == [False, False]
    described = API["paths"]["/admit"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert {*described["properties"]["documents"]["items"]["properties"]} == {*told[0]}
    status, body, _ = ask(service, "/metrics", method="GET")
    metrics = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    assert (metrics["dedup_documents_total", "duplicate"], metrics["dedup_documents_total", "unique"]) == (1, 2)
    assert (metrics["dedup_pending_documents",], metrics["dedup_stored_documents",]) == (3, 2)
    assert (metrics["dedup_replies_total", "200"], metrics["dedup_admit_seconds_count",]) == (1, 1)


@pytest.mark.parametrize(
    ("status", "asked"),
    [
        (400, {"body": b"{"}),
        (400, {"body": {"documents": [{"id": 1}]}}),
        *((400, {"body": {"documents": each}}) for each in ({}, "")),
        (400, {"body": {"documents": [{"text": "a", "id": 9}, {"text": "b"}]}}),
        (400, {"body": {"documents": [{"text": "a", "id": "9"}]}}),
        *((400, {"body": {"documents": [{"text": each}]}}) for each in (5, 0, False, [])),
        (401, {"body": bodies("a text"), "token": "another"}),
        (401, {"path": "/metrics", "method": "GET", "token": ""}),
        (404, {"path": "/other"}),
        (405, {"method": "GET"}),
        (409, {"body": bodies("another text", first=0)}),
        (413, {"body": bodies(*["a"] * 1001)}),
        (413, {"body": b"x" * (MOST_BYTES + 1)}),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(service, status, asked):
    found, body, headers = ask(service, **asked)
    assert found == status
    assert json.loads(body)["error"]
    assert (headers.get(b"www-authenticate") == b"Bearer") == (status == 401)
    assert ask(service, "/metrics", method="GET")[1].count(b"dedup_pending_documents 0.0") == 1


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"text": "a", "id": None}, "ids: must be of type int64, as those of the store are (got None)"),
        ({"text": "a", "id": 1.0}, "ids: must be of type int64, as those of the store are (got 1.0)"),
        ({"text": "a", "id": 1 << 63}, f"ids: must be of 64 bits (got {1 << 63})"),
        ({"text": 5}, "texts: must be strings (got 5)"),
    ],
)
def test_a_refusal_names_what_is_wrong(service, sent, reason):
    assert json.loads(ask(service, body={"documents": [sent]})[1]) == {"error": reason}


def test_metrics_say_that_answers_given_again_count_too_and_documents_do_not(service):
    for _ in range(2):
        ask(service, body=bodies("a text", first=10))
    metrics = ask(service, "/metrics", method="GET")[1].decode()
    assert "# HELP dedup_documents_total Documents answered, again or first.\n" in metrics
    assert 'dedup_documents_total{answer="unique"} 2.0\n' in metrics
    assert "dedup_pending_documents 1.0\n" in metrics


def test_halves_of_surrogate_pairs_are_replaced_as_in_lines_of_json(service):
    told = json.loads(ask(service, body=bodies("a\ud800 text of its own", "a\ufffd text of its own", first=10))[1])
    assert [each["of"] for each in told["documents"]] == [None, 10]


def test_pages_are_open_to_all_and_tell_every_path(service):
    status, page, _ = ask(service, "/", method="GET", token="")
    told, described, _ = ask(service, "/openapi.json", method="GET", token="")
    assert (status, told, json.loads(described)) == (200, 200, json.loads(json.dumps(API)))
    listed = [f"{method.upper()} {path}" for path, methods in API["paths"].items() for method in methods]
    assert [each for each in listed if each not in page.decode()] == []


def test_a_storage_that_fails_ends_the_service(service, monkeypatch):
    ended = []
    service.end = lambda: ended.append(1)
    monkeypatch.setattr(service._admission._journal, "append", lambda _: 1 / 0)
    assert ask(service, body=bodies("a text"))[0] == 503
    assert ask(service, body=bodies("a text"))[0] == 503
    assert (ended, type(service.fault)) == ([1], ZeroDivisionError)


def test_requests_of_many_letters_are_groups_of_as_many_as_one_may_have(service, monkeypatch):
    groups, inner = [], service._admission.admit
    monkeypatch.setattr(service._admission, "admit", lambda requests: groups.append(len(requests)) or inner(requests))
    monkeypatch.setattr("dedup.serving.MOST_BYTES", 1000)

    async def ask_all():
        parts = [
            bodies(f"{number} " + "word " * letters, first=10 + number)
            for number, letters in enumerate([90, 90, 90, 180, 1])
        ]
        asked = [service._admit(json.dumps(part).encode()) for part in parts]
        return await asyncio.gather(*asked)

    assert [len(each) for each in asyncio.run(ask_all())] == [1] * 5
    assert groups == [2, 1, 2]


def test_many_requests_are_one_group_and_a_refused_one_harms_no_other(service, monkeypatch):
    groups, inner = [], service._admission.admit

    def admit(requests):
        groups.append(len(requests))
        return inner(requests)

    monkeypatch.setattr(service._admission, "admit", admit)

    async def ask_all():
        parts = [bodies(f"text number {number % 7} of some", first=number) for number in range(40)]
        asked = [service._admit(json.dumps(part).encode()) for part in parts]
        return await asyncio.gather(*asked, return_exceptions=True)

    told = asyncio.run(ask_all())
    assert groups == [40]
    assert [number for number, each in enumerate(told) if isinstance(each, Exception)] == [0, 1]
    assert [each[0]["of"] for each in told[2:]] == [*[None] * 7, *[2 + number % 7 for number in range(31)]]


def test_a_batch_is_gone_by_once_it_is_there(service, store):
    ask(service, body=bodies("new words", first=10))
    store.add([{"id": 20, "text": "words of a batch"}], "second", id_column="id", engine="memory")
    asyncio.run(service.look())
    assert ask(service, "/metrics", method="GET")[1].count(b"dedup_pending_documents 0.0\n") == 1
    told = json.loads(ask(service, body=bodies("new words", "words of a batch", first=30))[1])["documents"]
    assert [each["of"] for each in told] == [10, 20]


def start(store, token, *program):
    program = program or ("-m", "dedup")
    command = [sys.executable, *program, "store", "serve", store.path, "--port", "0", "--json"]
    server = subprocess.Popen([*command, "--token-file", token], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return server, json.loads(server.stdout.readline())["address"]


def send(address, body) -> list:
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.request("POST", "/admit", json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
    answer = json.load(connection.getresponse())
    connection.close()
    return answer["documents"]


def test_what_was_answered_is_there_after_a_kill_and_one_process_serves(store, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    told, asked = [], [bodies(f"text number {number % 9} of them all", first=100 + number) for number in range(40)]
    for kill_after in (7, 23, 40) if PROFILE == "full" else (23, 40):
        server, address = start(store, tmp_path / "token")
        with server:
            assert [send(address, body) for body in asked[: len(told)]] == told
            told += [send(address, body) for body in asked[len(told) : kill_after]]
            if kill_after == 40:
                with pytest.raises(StorageError, match="no other run must be at work on this store"):
                    store.admit(["a text"], [1])
            server.send_signal(signal.SIGTERM if kill_after == 40 else signal.SIGKILL)
        assert server.returncode == (0 if kill_after == 40 else -signal.SIGKILL)
    assert store.compact().files
    assert store.history()[1][1:3] == ("admit", "admitted-2")
    assert [each.documents for each in store.history()] == [2, 40, 0]
    assert store.delete(range(100, 140)).absent == 0


def test_a_request_that_never_comes_whole_keeps_no_service_from_its_end(store, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    hasty = "import sys, dedup.cli, dedup.serving as it; it.END_SECONDS = 0; sys.exit(dedup.cli.main(sys.argv[1:]))"
    server, address = start(store, tmp_path / "token", "-c", hasty)
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
    with server, contextlib.closing(connection):
        connection.putrequest("POST", "/admit")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        # Its connection is taken by now.
        send(address, bodies("a text", first=10))
        server.send_signal(signal.SIGTERM)
        assert connection.getresponse().status == 503
        assert server.wait(timeout=20) == 0


def test_the_command_says_what_is_wrong_in_one_line(store, tmp_path, capsys):
    (tmp_path / "token").write_text("short")
    assert cli.main(["serve", store.path, "--token-file", str(tmp_path / "token")]) == 2
    assert "--token-file: must hold a token of at least 16 characters (got 5)" in capsys.readouterr().err
    assert cli.main(["serve", store.path, "--host", "203.0.113.1"]) == 2
    assert "--host 203.0.113.1 --port 8080: must be an address that is free" in capsys.readouterr().err
    assert cli.main(["serve", str(tmp_path / "none")]) == 2
    assert "must be a store" in capsys.readouterr().err
