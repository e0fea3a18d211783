"""A store served over HTTP: documents admitted one by one, a page that describes it, and metrics."""

import asyncio
import gc
import hmac
import logging
import signal
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import orjson
import prometheus_client as prometheus
from jinja2 import Template

from dedup.errors import ConfigError, DataError, DedupError, StorageError
from dedup.extras import check_extra
from dedup.files.formats.json_line import parse
from dedup.store.admission import Admission, Request, Verdict
from dedup.stores import Store
from dedup.version import __version__

LOG = logging.getLogger("dedup")
MOST_BYTES, MOST_DOCUMENTS = 16 << 20, 1000
"""Largest request: while one is worked on, others wait."""
LOOK_SECONDS = 1
"""Seconds between two looks for what batches have changed."""
END_SECONDS = 5
"""Seconds that requests have to come whole, and replies to be taken, once the service is to end."""
YOUNG = 10_000
"""Objects made between two looks for circles among them."""
JSON, HTML = "application/json", "text/html; charset=utf-8"
METRICS = prometheus.CONTENT_TYPE_PLAIN_0_0_4
_ID = {"oneOf": [{"type": "integer", "format": "int64"}, {"type": "string"}]}


def _describe(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": {JSON: {"schema": schema}}}


def _list_of(required: Sequence[str], properties: Mapping[str, Any]) -> dict[str, Any]:
    documents = {"type": "array", "items": {"type": "object", "required": required, "properties": properties}}
    return {"type": "object", "required": ["documents"], "properties": {"documents": documents}}


def _offer(summary: str, answer: str) -> dict[str, Any]:
    """Describe a path that everybody may read."""
    return {"get": {"summary": summary, "security": [], "responses": {"200": {"description": answer}}}}


_REFUSALS = {
    "400": "no such documents; nothing was admitted",
    "401": "no token, or a wrong one",
    "409": "an id of another document; nothing was admitted",
    "413": f"more than {MOST_DOCUMENTS:,} documents or {MOST_BYTES >> 20} MiB",
    "503": "the storage fails, and the service ends: ask again once it is back, with the same ids",
}
_DOCUMENTS = _list_of(
    ["text"],
    {
        "text": {"type": ["string", "null"]},
        "id": {**_ID, "description": "of all or of none, which have digests of their texts then"},
    },
)
_ANSWERS = _list_of(
    ["id", "duplicate", "of", "jaccard", "unsure"],
    {
        "id": _ID,
        "duplicate": {"type": "boolean"},
        "of": {"oneOf": [*_ID["oneOf"], {"type": "null"}], "description": "most similar one"},
        "jaccard": {"type": ["number", "null"], "description": "exact similarity to it"},
        "unsure": {"type": "boolean", "description": "too many share a band with it for all to be compared"},
    },
)
API: Mapping[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "dedup store serve", "version": __version__, "license": {"name": "Apache-2.0"}},
    "security": [{"token": []}],
    "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    "paths": {
        "/admit": {
            "post": {
                "summary": "Take in documents, all or none, and say which are duplicates.",
                "requestBody": {"required": True, **_describe(_DOCUMENTS)},
                "responses": {
                    "200": {
                        "description": "answers, which are on storage, in the order of the documents",
                        **_describe(_ANSWERS),
                    },
                    **{status: {"description": text} for status, text in _REFUSALS.items()},
                },
            }
        },
        "/metrics": {
            "get": {
                "summary": "Metrics in the format of Prometheus.",
                "responses": {"200": {"description": "metrics"}, "401": {"description": _REFUSALS["401"]}},
            }
        },
        "/openapi.json": _offer("This description, for programs.", "a document of OpenAPI"),
        "/": _offer("This page.", "a page"),
    },
}
"""Description of the service."""
PAGE = Template(
    """<!doctype html><html lang="en"><meta charset="utf-8"><title>{{ info.title }}</title>
<style>body{font:16px/1.5 sans-serif;max-width:50rem;margin:2rem auto}pre{background:#f4f4f4;padding:1rem;overflow:auto}
</style><h1>{{ info.title }} {{ info.version }}</h1>
<pre>curl {{ address }}/admit -H "Authorization: Bearer $TOKEN" \\
  -d '{"documents": [{"id": 1, "text": "Bread rises because yeast eats sugar."}]}'</pre>
{% for path, methods in paths.items() %}{% for method, told in methods.items() %}
<h2>{{ method | upper }} {{ path }}</h2>
<p>{{ told.summary }}{% if told.security is not defined %} It asks for the token.{% endif %}</p>
<dl>{% for status, answer in told.responses.items() %}<dt>{{ status }}</dt><dd>{{ answer.description }}</dd>
{% endfor %}</dl>
{% if told.requestBody %}<p>The body, in JSON:</p><pre>{{ told.requestBody.content | tojson(2) }}</pre>
<p>The answer:</p><pre>{{ told.responses["200"].content | tojson(2) }}</pre>{% endif %}
{% endfor %}{% endfor %}</html>""",
    autoescape=True,
)


class Reply(NamedTuple):
    """Verdict to a request."""

    status: int
    kind: str
    body: bytes


class Refusal(Exception):  # noqa: N818 - no fault: the reply to a request
    """Reply to a request of which nothing is done."""

    def __init__(self, status: int, reason: str = "") -> None:
        super().__init__(reason)
        content = orjson.dumps({"error": reason or _REFUSALS[f"{status}"]})
        self.reply = Reply(status, JSON, content)


class Service:
    """An application of ASGI: requests that come while others are written to storage are the next to be.

    Everything but looking for changes is done by the thread of the event loop: what the work of a group takes is less
    than handing it to another would.
    """

    def __init__(self, admission: Admission, token: str, address: str) -> None:
        self._admission, self._token, self._address = admission, f"Bearer {token}".encode(), address
        self._waiting: list[tuple[Request, asyncio.Future[list[Verdict] | DataError]]] = []
        self.fault: Exception | None = None
        self.end: Callable[[], None] = lambda: None
        registry = self._registry = prometheus.CollectorRegistry()
        self._documents = prometheus.Counter(
            "dedup_documents", "Documents answered, again or first.", ["answer"], registry=registry
        )
        self._replies = prometheus.Counter("dedup_replies", "Replies to requests.", ["status"], registry=registry)
        times = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]
        self._seconds = prometheus.Histogram(
            "dedup_admit_seconds", "Seconds from a request's arrival to its reply.", buckets=times, registry=registry
        )
        for name, text, tell in (
            ("dedup_pending_documents", "Documents admitted since the last batch.", lambda: admission.pending),
            ("dedup_stored_documents", "Documents of the store.", lambda: admission.stored),
        ):
            prometheus.Gauge(name, text, registry=registry).set_function(tell)

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer a request, as ASGI has it."""
        body, more = bytearray(), True
        try:
            while more:
                part = await receive()
                more = part.get("more_body", False) and len(body) <= MOST_BYTES
                body += part.get("body", b"")
            reply = await self._reply(scope, body)
        except Refusal as refusal:
            reply = refusal.reply
        except asyncio.CancelledError:
            # The server ends, and waits for nobody any longer.
            reply = Refusal(503, "the service ends: ask again once it is back, with the same ids").reply
        self._replies.labels(reply.status).inc()
        headers = [(b"content-type", reply.kind.encode()), (b"content-length", b"%d" % len(reply.body))]
        if reply.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, scope: Mapping[str, Any], body: bytearray) -> Reply:
        path, method = scope["path"], scope["method"].lower()
        methods = API["paths"].get(path)
        if methods is None:
            raise Refusal(404, f"no such path; see {self._address}/")
        if method not in methods:
            raise Refusal(405, f"method must be one of {', '.join(methods).upper()}")
        if "security" not in methods[method] and not self._is_allowed(scope):
            raise Refusal(401)
        if path == "/admit":
            return Reply(200, JSON, orjson.dumps({"documents": await self._admit(body)}))
        if path == "/metrics":
            return Reply(200, METRICS, prometheus.generate_latest(self._registry))
        if path == "/openapi.json":
            return Reply(200, JSON, orjson.dumps(API))
        return Reply(200, HTML, PAGE.render(API, address=self._address).encode())

    def _is_allowed(self, scope: Mapping[str, Any]) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, self._token)

    async def _admit(self, body: bytearray) -> list[dict[str, Any]]:
        begun, loop = time.perf_counter(), asyncio.get_running_loop()
        if len(body) > MOST_BYTES:
            raise Refusal(413)
        try:
            request = read_request(body)
            self._admission.check(request)
        except DataError as error:
            raise Refusal(400, str(error)) from error
        if len(request.texts) > MOST_DOCUMENTS:
            raise Refusal(413)
        if self.fault is not None:
            raise Refusal(503)
        answered: asyncio.Future[list[Verdict] | DataError] = loop.create_future()
        if not self._waiting:
            # Behind all that has come already.
            loop.call_soon(self._commit)
        self._waiting.append((request, answered))
        try:
            answers = await answered
        except StorageError as error:
            raise Refusal(503) from error
        if isinstance(answers, DataError):
            raise Refusal(409, str(answers))
        self._seconds.observe(time.perf_counter() - begun)
        for name, count in Counter("duplicate" if each.duplicate else "unique" for each in answers).items():
            self._documents.labels(name).inc(count)
        return [{"duplicate": each.duplicate, **each._asdict()} for each in answers]

    def _commit(self) -> None:
        """Admit what waits, up to the most documents of one request, and as many letters as it may have bytes."""
        counts = accumulate(len(request.texts) for request, _ in self._waiting)
        sizes = accumulate(sum(map(len, request.texts)) for request, _ in self._waiting)
        together = zip(counts, sizes, strict=True)
        count = max(sum(number <= MOST_DOCUMENTS and size <= MOST_BYTES for number, size in together), 1)
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._commit)
        try:
            answers = self._admission.admit([request for request, _ in group])
        except Exception as error:  # noqa: BLE001 - whatever it is, clients are told, and the service ends with it
            self.fault = self.fault or error
            self.end()
            for _, answered in group:
                if not answered.done():
                    answered.set_exception(StorageError(str(error)))
            return
        for (_, answered), told in zip(group, answers, strict=True):
            # Whoever asked may have gone.
            if not answered.done():
                answered.set_result(told)

    async def look(self) -> None:
        """Go by the store as a batch has left it, once one has."""
        try:
            found = await asyncio.to_thread(self._admission.look)
        except DedupError as error:
            LOG.warning("%s", error)
            return
        if found is not None:
            self._admission.take_over(found)
            gc.collect()


def read_request(body: bytes | bytearray) -> Request:
    """Return the documents of a body.

    Raises
    ------
    DataError
        When it is something else.
    """
    try:
        # As lines of JSON are read, with halves of surrogate pairs.
        documents = (parse(bytes(body)) or {})["documents"]
        texts = ["" if each["text"] is None else each["text"] for each in documents]
        ids = [each["id"] for each in documents if "id" in each]
    except (ValueError, KeyError, TypeError):
        documents = None
    if not isinstance(documents, list):
        raise DataError('body: must be {"documents": [{"text": ...}, ...]} in JSON')
    if ids and len(ids) != len(texts):
        raise DataError(f"id: must be given with all documents or with none (got {len(ids)} of {len(texts)})")
    return Request(texts, ids or None)


def serve(store: Store, token: str, *, host: str, port: int, tell: Callable[[str], None]) -> None:
    """Serve a store until the process is asked to end.

    Parameters
    ----------
    token
        Word that requests must bring, as `Authorization: Bearer TOKEN`.
    port
        0: any that is free.
    tell
        Called with the address once connections are taken.

    Raises
    ------
    DedupError
        As `Store.admission`; when the address is not free, or the storage fails.
    """
    check_extra("dedup store serve", "serve")
    import uvicorn  # noqa: PLC0415 - only this needs the extra

    # The server ends first, and raises the signal again.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with store.admission() as admission, _listen(host, port) as listening:
            address = "http://{}:{}".format(*listening.getsockname())
            service = Service(admission, token, address)
            config = uvicorn.Config(
                service,
                lifespan="off",
                ws="none",
                proxy_headers=False,
                access_log=False,
                log_level="warning",
                callback_notify=service.look,
                timeout_notify=LOOK_SECONDS,
                timeout_graceful_shutdown=END_SECONDS,
            )
            server = uvicorn.Server(config)
            service.end = partial(setattr, server, "should_exit", True)  # noqa: FBT003 - a value of setattr
            # Looks through all objects for circles take a tenth of a second each by and by: those that last have none.
            gc.freeze()
            gc.set_threshold(YOUNG, 10, 1 << 30)
            tell(address)
            server.run(sockets=[listening])
            if service.fault is not None:
                raise service.fault
    except KeyboardInterrupt:
        LOG.info("asked to end")
    finally:
        signal.signal(signal.SIGTERM, before)


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"--host {host} --port {port}: must be an address that is free ({reason})") from error
