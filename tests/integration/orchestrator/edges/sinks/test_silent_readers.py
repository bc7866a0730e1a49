"""Readers of results that never read: what they hold is bounded, and whoever reads gets all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import vivace
from orchestrator.edges import http_server
from orchestrator.edges.http_server import HELD_BYTES, bound, held_parts
from orchestrator.edges.sinks import http as results
from orchestrator.edges.sinks.http import ARROW, EVENTS
from orchestrator.edges.sinks.result_reader import ARROW_BYTES
from tests.conftest import WaitUntil
from tests.integration.orchestrator.edges.sinks.test_http_results import Site

READERS = 12
DELIVERIES, ROWS = 60, 10_000
"""Results of 19 MB: kernels keep a few for each connection."""

LATEST_BYTES = 2**20


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(results, "KEPT_BYTES", LATEST_BYTES)
    made = Site(tmp_path / "site")
    yield made
    made.sink.close()
    bound(body_bytes=HELD_BYTES, reader_bytes=2**25)


def silent(site: Site, accept: str) -> socket.socket:
    """A connection that asks for all results and reads none."""
    parts = urlsplit(site.sink.address)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((parts.hostname, parts.port))
    made.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n".encode())
    return made


def deliver(site: Site) -> None:
    for first in range(0, DELIVERIES * ROWS, ROWS):
        site.deliver(7, first, ROWS)


@pytest.mark.parametrize("accept", [ARROW, EVENTS])
@pytest.mark.parametrize("since", ["before", "after"])
def test_a_reader_that_never_reads_holds_one_part(
    site: Site, wait_until: WaitUntil, accept: str, since: str
) -> None:
    before = pa.total_allocated_bytes()
    if since == "after":
        deliver(site)
    readers = [silent(site, accept) for _ in range(READERS)]
    if since == "before":
        deliver(site)
    wait_until(lambda: held_parts.count == READERS)
    # In memory there are the latest results, which all share, and as many parts as readers.
    assert pa.total_allocated_bytes() - before < 2 * LATEST_BYTES
    # A result of 32 bytes makes an event of about 70.
    assert held_parts.size_bytes < READERS * 2 * ARROW_BYTES
    assert site.sink.take_dropped() == 0
    for each in readers:
        each.close()
    wait_until(lambda: held_parts.count == 0)
    assert held_parts.size_bytes == 0
    assert site.sink.take_dropped() == 0, "who goes is not dropped"


def test_the_slowest_lose_their_connections_and_who_reads_gets_everything(
    site: Site, wait_until: WaitUntil
) -> None:
    room = 4
    bound(body_bytes=HELD_BYTES, reader_bytes=round((room + 0.5) * ARROW_BYTES))
    readers = [silent(site, ARROW) for _ in range(READERS)]
    deliver(site)
    dropped: list[int] = []
    wait_until(
        lambda: dropped.append(site.sink.take_dropped()) or sum(dropped) >= READERS - room - 1
    )
    assert held_parts.size_bytes <= held_parts.most_bytes
    address = site.sink.address.rpartition("/streams/")[0]
    found = vivace.site(address).results("alerts", until=(7, DELIVERIES * ROWS))
    seqs = [seq for batch in found for seq in batch.column("_seq").to_pylist()]
    assert seqs == list(range(DELIVERIES * ROWS))
    assert sum(dropped) + site.sink.take_dropped() <= READERS
    for each in readers:
        each.close()


def test_the_latest_results_of_all_outputs_take_their_part_of_memory(
    site: Site, tmp_path: Path
) -> None:
    bound(body_bytes=HELD_BYTES, reader_bytes=LATEST_BYTES // 4)
    before = pa.total_allocated_bytes()
    deliver(site)
    assert pa.total_allocated_bytes() - before < LATEST_BYTES


def test_a_head_is_bounded_however_many_lines_it_has(site: Site) -> None:
    parts = urlsplit(site.sink.address)
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 60_000) for number in range(3))
    with closing(socket.create_connection((parts.hostname, parts.port))) as made:
        made.sendall(b"GET /streams/alerts HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
        assert b" 431 " in made.recv(100)


def test_bodies_take_their_part_of_memory_but_the_largest_of_a_stream_fits() -> None:
    server = http_server._Server(http_server.Endpoint())  # pyright: ignore[reportPrivateUsage]
    try:
        bound(body_bytes=2**20, reader_bytes=2**25)
        assert server.most_held_bytes == 2**20
        server.routes["s"] = http_server.Route(token=None, get=lambda _: None, most_bytes=2**19)
        assert server.most_held_bytes == 2**21
    finally:
        server.server_close()
        bound(body_bytes=HELD_BYTES, reader_bytes=2**25)
