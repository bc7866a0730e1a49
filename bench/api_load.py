"""Benchmark `api-load`: the aircraft example with and without clients of its HTTP API, in turns.

200 clients follow the history, and 50 requests a second read status, metrics, plan and history, in
turns. The clients are one process of their own, which takes a part of the same machine: that counts
against the API. `idle` is the API without any client.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from itertools import cycle
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import psutil

import vivace
from bench.drills import SETTLED_S, example
from bench.registry import Settings, benchmark
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.store.protocol import WEBS

FOLLOWERS, REQUESTS_S = 200, 50
WINDOW_S, QUICK_WINDOW_S = 120.0, 20.0
TURNS, QUICK_TURNS = 3, 1

PATHS = ("/api/v1/status", "/metrics", "/api/v1/plan", "/api/v1/history?limit=50")

OPEN_EVERY_S = 0.03
"""Between two followers that connect: a token has 50 requests a second."""


@benchmark("api-load")
def api_load(settings: Settings) -> Mapping[str, float]:
    """Misses of an example and processor time of the API, with 200 clients and without."""
    window_s = QUICK_WINDOW_S if settings.quick else WINDOW_S
    turns = QUICK_TURNS if settings.quick else TURNS
    found: dict[str, list[dict[str, float]]] = {"idle": [], "load": []}
    with example(settings) as cluster:
        client = vivace.connect(cluster.api, cluster.token)
        tokens = [client.create_token().token for _ in range(3)]
        time.sleep(SETTLED_S)
        for turn in range(turns):
            settings.say(f"turn {turn + 1} of {turns}, idle")
            found["idle"].append(_window(cluster, client, window_s))
            settings.say(f"turn {turn + 1} of {turns}, {FOLLOWERS} clients")
            with _clients(cluster.api, tokens) as told:
                window = _window(cluster, client, window_s)
            found["load"].append(window | told)
    figures: dict[str, float] = {}
    for kind, windows in found.items():
        for name in windows[0]:
            figures[f"{kind}.{name}"] = median(each[name] for each in windows)
    with suppress(ZeroDivisionError):
        figures["miss_ratio"] = figures["load.miss_pct"] / figures["idle.miss_pct"]
    return figures


def _window(
    cluster: LocalCluster, client: vivace.ClusterClient, seconds: float
) -> dict[str, float]:
    """Misses and processor time while so many seconds pass."""
    (web,) = (each.record.pid for each in cluster.store.list(WEBS).records.values())
    rows, late, began_s, used_s = *_delivered(client), time.monotonic(), _used_s(web)
    machine_s = sum(psutil.cpu_times()[:3])
    time.sleep(seconds)
    lasted_s = time.monotonic() - began_s
    web_pct = 100 * (_used_s(web) - used_s) / lasted_s
    machine_pct = 100 * (sum(psutil.cpu_times()[:3]) - machine_s) / lasted_s
    rows_then, late_then = _delivered(client)
    return {
        "tuples": rows_then - rows,
        "miss_pct": 100 * (late_then - late) / max(rows_then - rows, 1),
        "web_pct": web_pct,
        "machine_pct": machine_pct,
    }


def _delivered(client: vivace.ClusterClient) -> tuple[int, int]:
    """Tuples of all outputs that were delivered, and those of them that were late."""
    outputs = client.status().outputs
    return sum(each.rows for each in outputs), sum(each.late_rows for each in outputs)


def _used_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@contextmanager
def _clients(api: str, tokens: list[str]) -> Generator[dict[str, float]]:
    """Clients for the time of a block, once all follow; afterwards, what they have found."""
    found: dict[str, float] = {}
    fork = multiprocessing.get_context("spawn")
    here, there = fork.Pipe()
    process = fork.Process(target=_run, args=(api, tokens, there))
    process.start()
    there.close()
    try:
        here.recv()
        yield found
        here.send(None)
        found |= here.recv()
    finally:
        here.close()
        process.join()


def _run(api: str, tokens: list[str], pipe: Any) -> None:
    asyncio.run(_ask(api, tokens, pipe))


async def _ask(api: str, tokens: list[str], pipe: Any) -> None:
    """Follow and ask until the other process says something."""
    netloc = urlsplit(api)
    host, port = netloc.hostname or "", netloc.port or 80
    events, failed, taken_s = 0, 0, list[float]()

    def head(path: str, token: str) -> bytes:
        return f"GET {path} HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer {token}\r\n".encode()

    async def follow() -> None:
        nonlocal events, failed
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(head("/api/v1/events", tokens[0]) + b"\r\n")
        if b" 200 " not in await reader.readline():
            failed += 1
        try:
            while line := await reader.readline():
                events += line.startswith(b"event:")
            failed += 1
        finally:
            writer.close()

    async def ask(path: str, token: str) -> None:
        nonlocal failed
        began_s = time.monotonic()
        try:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(head(path, token) + b"Connection: close\r\n\r\n")
            response = await reader.read()
            writer.close()
        except OSError:
            response = b""
        if b" 200 " in response[:20]:
            taken_s.append(time.monotonic() - began_s)
        else:
            failed += 1

    followers = list[asyncio.Task[None]]()
    for _ in range(FOLLOWERS):
        followers.append(asyncio.create_task(follow()))
        await asyncio.sleep(OPEN_EVERY_S)
    pipe.send(None)
    asking = set[asyncio.Task[None]]()
    next_s = began_s = time.monotonic()
    for path, token in zip(cycle(PATHS), cycle(tokens[1:]), strict=False):
        if pipe.poll():
            break
        task = asyncio.create_task(ask(path, token))
        asking.add(task)
        task.add_done_callback(asking.discard)
        next_s += 1 / REQUESTS_S
        await asyncio.sleep(max(next_s - time.monotonic(), 0))
    lasted_s = time.monotonic() - began_s
    await asyncio.gather(*asking)
    ended = sum(each.done() for each in followers)
    for each in followers:
        each.cancel()
    pipe.send(
        {
            "requests_s": len(taken_s) / lasted_s,
            "request_ms_p50": 1000 * median(taken_s or [0.0]),
            "request_ms_max": 1000 * max(taken_s, default=0.0),
            "failed": failed,
            "followers_ended": ended,
            "events": events,
        }
    )
