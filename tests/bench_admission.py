"""Documents admitted over HTTP to a store, by a client of its own process: python -m tests.bench_admission.

Of generated documents of 1.5 kB, one in eight a copy of another, --documents are in the store and a tenth as many come:
one a request, on some connections at once or so many a second whatever the answers take, and a hundred a request.
"""

import argparse
import json
import selectors
import shutil
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import orjson
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from tests.corpora import write_corpus

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "a token of the bench"  # noqa: S105
RUNS = [
    # Documents a request, connections, documents a second (None: as many as are answered), share of those that come.
    (1, 1, None, 0.05),
    (1, 16, None, 0.15),
    (1, 64, None, 0.15),
    (1, 256, 2000, 0.15),
    (1, 256, 5000, 0.2),
    (100, 4, None, 0.3),
]

COLUMNS = [
    *("documents a request", "connections", "asked a second", "answered a second"),
    *("p50 ms", "p99 ms", "most ms", "server's us a document"),
]


def prepare(folder: Path, documents: int) -> list[dict]:
    """Make a store, unless it is there, and return the documents that come."""
    if not (folder / "come.parquet").exists():
        write_corpus(folder / "whole", documents * 11 // 10)
        (folder / "stored").mkdir()
        chance, come = np.random.default_rng(3), []
        for file in sorted((folder / "whole" / "documents").iterdir()):
            rows = pq.read_table(file)
            comes = pa.array(chance.random(rows.num_rows) < 1 / 11)
            come.append(rows.filter(comes))
            pq.write_table(rows.filter(pa.compute.invert(comes)), folder / "stored" / file.name)
        command = [
            sys.executable,
            "-m",
            "dedup",
            "run",
            "--engine",
            "memory",
            "--id-column",
            "doc_id",
            "--batch",
            "stored",
        ]
        paths = ["--input", folder / "stored", "--output", folder / "out", "--store", folder / "store"]
        subprocess.run([*command, *map(str, paths)], check=True)
        pq.write_table(pa.concat_tables(come), folder / "come.parquet")
    return pq.read_table(folder / "come.parquet").rename_columns(["id", "text"]).to_pylist()


class Connection:
    """A connection that waits for one answer at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun, self.answer = 0.0, b""

    def ask(self, body: bytes, begun: float) -> None:
        head = (
            f"POST /admit HTTP/1.1\r\nHost: it\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.begun, self.answer = begun, b""
        self.socket.sendall(head.encode() + body)

    def is_answered(self) -> bool:
        self.answer += self.socket.recv(1 << 20)
        head, found, body = self.answer.partition(b"\r\n\r\n")
        assert not found or head.startswith(b"HTTP/1.1 200"), self.answer
        return bool(found) and len(body) == int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])


def drive(address: tuple[str, int], bodies: Sequence[bytes], connections: int, rate: float | None) -> list[float]:
    """Send requests, and return the seconds until each was answered, or had been since it was due."""
    idle = deque(Connection(address) for _ in range(connections))
    waiting, seconds, sent, begin = selectors.DefaultSelector(), [], 0, time.perf_counter()
    for each in idle:
        waiting.register(each.socket, selectors.EVENT_READ, each)
    while len(seconds) < len(bodies):
        now = time.perf_counter()
        while sent < len(bodies) and idle and (rate is None or (due := begin + sent / rate) <= now):
            idle.popleft().ask(bodies[sent], now if rate is None else due)
            sent += 1
        is_early = rate is not None and sent < len(bodies) and idle
        for key, _ in waiting.select(max(begin + sent / rate - now, 0) if is_early else None):
            if key.data.is_answered():
                seconds.append(time.perf_counter() - key.data.begun)
                idle.append(key.data)
    for each in waiting.get_map().values():
        each.fileobj.close()
    return seconds


def main() -> None:
    cli = argparse.ArgumentParser(prog="bench_admission", description=__doc__)
    cli.add_argument("--documents", type=int, default=1_000_000)
    cli.add_argument("--work", type=Path, default=ROOT / "dist" / "bench")
    options = cli.parse_args()
    folder = options.work / f"admission-{options.documents}"
    rows = prepare(folder, options.documents)
    rows = [rows[place] for place in np.random.default_rng(4).permutation(len(rows))]
    (folder / "token").write_text(TOKEN)
    shutil.rmtree(folder / "store" / "admitted", ignore_errors=True)
    begun = time.perf_counter()
    command = [sys.executable, "-m", "dedup", "store", "serve", str(folder / "store"), "--json", "--port", "0"]
    with subprocess.Popen(
        [*command, "--token-file", str(folder / "token")], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            port = int(json.loads(server.stdout.readline())["address"].rpartition(":")[2])
            opened, process = time.perf_counter() - begun, psutil.Process(server.pid)
            print(f"opened in {opened:.1f} s, {process.memory_info().rss >> 20} MB\n")
            print(" | ".join(COLUMNS))
            left = iter(rows)
            for size, connections, rate, share in RUNS:
                taken = list(islice(left, int(share * len(rows))))
                bodies = [orjson.dumps({"documents": taken[at : at + size]}) for at in range(0, len(taken), size)]
                begun, spent = time.perf_counter(), sum(process.cpu_times()[:2])
                seconds = drive(("127.0.0.1", port), bodies, connections, rate)
                answered = len(taken) / (time.perf_counter() - begun)
                p50, p99, most = (1000 * each for each in np.quantile(seconds, [0.5, 0.99, 1]))
                spent = (sum(process.cpu_times()[:2]) - spent) / len(taken) * 1e6
                asked = "-" if rate is None else f"{rate:,}"
                print(
                    f"{size} | {connections} | {asked} | {answered:,.0f} | {p50:.1f} | {p99:.1f} | {most:.1f} "
                    f"| {spent:.0f}",
                    flush=True,
                )
            print(f"\n{process.memory_info().rss >> 20} MB after {len(rows):,} documents")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
