"""Batches over real HTTP at the edges: what a client is told, and what that costs the site."""

from __future__ import annotations

import contextlib
import http.client
import threading
import tracemalloc
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import vivace
from orchestrator.edges.http_server import HELD_BYTES
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.records import SourceAssignment, SourceSpec

NOW_US = 1_700_000_000_000_000


@contextlib.contextmanager
def opened(options: Http, folder: Path, columns: dict[str, str]) -> Generator[LiveInput]:
    assigned = SourceAssignment(
        stream="north",
        columns=columns,
        source=SourceSpec(driver="http", guarantee=options.guarantee),
        start_at_us=None,
    )
    source = options.open(assigned, SourceContext(folder=folder, clock_us=lambda: NOW_US))
    assert isinstance(source, LiveInput)
    try:
        yield source
    finally:
        source.close()


def test_who_sends_a_batch_in_pieces_is_told_how_much_had_entered(tmp_path: Path) -> None:
    options = Http(time_column="at", time_format="ms", max_ahead_ms=None)
    with opened(options, tmp_path, {"name": "string"}) as source:
        assert source.address is not None
        stream = vivace.site(source.address.split("/streams")[0]).stream("north")
        count = 60_000
        stamps: list[int | None] = [NOW_US // 1000 + n for n in range(count)]
        stamps[-1] = None
        with pytest.raises(vivace.Refused, match="tuples before have entered") as refused:
            stream.send({"at": stamps, "name": ["x" * 100] * count})
        stream.close()
        entered = 0
        while (emitted := source.emit(0, NOW_US)) is not None:
            entered += emitted.rows.num_rows
        # The timestamp of the last one is not over.
        assert entered + 1 == refused.value.entered == count // 2


def test_a_body_in_tiny_chunks_takes_no_more_memory_than_bodies_may(tmp_path: Path) -> None:
    size = 2 * 2**20
    with opened(Http(), tmp_path, {"name": "string"}) as source:
        assert source.address is not None
        parts = urlsplit(source.address)
        connection = http.client.HTTPConnection(parts.netloc, timeout=120)
        connection.putrequest("POST", parts.path)
        connection.putheader("Content-Type", "text/csv")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        tracemalloc.start()
        connection.send(b"2\r\nxx\r\n" * (size // 2))
        # The body has not ended: the site holds what has come of it.
        threading.Event().wait(1.0)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        connection.close()
    # Bodies of HELD_BYTES in all may come so at a time; twice that would be generous.
    assert held / size < 2, f"{held:,} bytes for a body of {size:,}; {HELD_BYTES:,} are counted"


def test_a_batch_of_uneven_rows_enters_in_pieces_that_are_small_enough(tmp_path: Path) -> None:
    with opened(Http(), tmp_path, {"name": "string"}) as source:
        assert source.address is not None
        stream = vivace.site(source.address.split("/streams")[0]).stream("north")
        # None is larger than a body may be (16 MiB), and each of them alone would enter.
        texts = ["x" * 2**21] * 10 + ["y"] * 10_000
        over = threading.Event()

        def consume() -> None:
            while not over.wait(0.01):
                source.emit(0, NOW_US)

        consumer = threading.Thread(target=consume)
        consumer.start()
        sent = stream.send({"name": texts})
        over.set()
        consumer.join()
        stream.close()
        assert sent.accepted == len(texts)
