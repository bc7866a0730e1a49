"""A site of benchmark `ingest`: an open source, and a fragment that filters, on one processor.

    python -m bench.ingest_site '{"driver": "tcp", "options": {…}, "rows": 1000, …}'

It prints its address as soon as clients may send, that of the results if it delivers them, now and
then how many rows have passed the filter, and, when all have, when which of them had. Then it goes
on: clients are still told that their tuples have entered, results are on their way, and Spark has a
batch to commit. It exits when its standard input ends, however far it has come: its benchmark has
ended, or was killed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from bench.ingest_workload import COLUMNS, RESULTS, STATEMENT, STREAM
from bench.lifeline import end_with_input
from orchestrator.edges import sources
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.http import HttpResults
from orchestrator.edges.sinks.sink_drivers import FLUSH_EVERY_US
from orchestrator.edges.sinks.write_behind import WriteBehind
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.records import SinkAssignment, SourceAssignment, SourceSpec
from streams.evaluate.engine import Evaluated, FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import Chunk

TELLS_ROWS = 8_192
"""After so many more tuples a site says how many have passed."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a site is to do."""

    driver: str
    options: dict[str, Any]
    rows: int
    folder: str
    processor: int
    delivers: bool


class Delivery:
    """The results, through the sink driver `http`: into its archive, and to clients that follow.

    Attributes
    ----------
    address
        Where clients get them.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        assignment = SinkAssignment(stream=RESULTS, columns=COLUMNS, deadline_ms=100.0)
        self._sink = WriteBehind(lambda: HttpResults().open(assignment, folder))
        self._sink.wait_until_open()
        self._next_seq = self._flushed_us = 0
        self.address = self._sink.address

    def take(self, evaluated: Evaluated) -> None:
        """Number and deliver what an evaluation made; the archive is flushed as at a site."""
        chunk = Chunk(
            first_seq=self._next_seq,
            rows=evaluated.rows,
            watermarks_ms=evaluated.watermarks_ms,
            ingestion_times_us=evaluated.ingestion_times_us,
        )
        self._next_seq = chunk.next_seq
        now_us = clock_us()
        self._sink.keep(Deliver(stream=RESULTS, epoch=1, chunk=chunk, lost=0, arrived_us=now_us))
        if now_us - self._flushed_us >= FLUSH_EVERY_US:
            self._sink.flush()
            self._flushed_us = now_us


class Passing(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How many tuples have been filtered so far."""

    rows: int


class Passed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """When tuples had been filtered.

    Attributes
    ----------
    times
        The number of the last tuple of each evaluation, and the machine's monotonic clock, µs.
    passed
        How many have.
    """

    times: list[tuple[int, int]]
    passed: int


def clock_us() -> int:
    """The machine's monotonic clock, the same in all processes."""
    return time.monotonic_ns() // 1000


def run(order: Order, tell: Callable[[Passing | Passed], None]) -> None:
    """Open the source and evaluate what it brings in, until all rows have passed.

    Parameters
    ----------
    tell
        Told now and then how many rows have passed, and at the end when which did.
    """
    # Arrow's pools and ours share the processor.
    pa.set_cpu_count(1)
    wake = threading.Event()
    driver = sources.restore(SourceSpec(driver=order.driver, options=order.options))
    opened = driver.open(
        SourceAssignment(
            stream=STREAM,
            columns=COLUMNS,
            source=sources.spec_of(order.driver, driver),
            start_at_us=None,
        ),
        SourceContext(folder=Path(order.folder), clock_us=clock_us, wake=wake.set),
    )
    (statement,) = parse(STATEMENT)
    engine = FragmentEngine(compile_statement(statement, {STREAM: COLUMNS}))
    times: list[tuple[int, int]] = []
    assert opened.status is not None
    delivery = Delivery(Path(order.folder) / "results") if order.delivers else None
    sys.stdout.write(f"{opened.status.address}\n")
    if delivery is not None:
        sys.stdout.write(f"{delivery.address}\n")
    sys.stdout.flush()
    seq = told = passed = 0
    while seq < order.rows:
        # What is pushed wakes; an error is looked for without that.
        wake.wait(0.1)
        wake.clear()
        while (emitted := opened.emit(0, clock_us())) is not None:
            engine.offer(
                STREAM,
                Chunk(
                    first_seq=seq,
                    rows=emitted.rows,
                    watermarks_ms=emitted.watermarks_ms,
                    ingestion_times_us=emitted.ingestion_times_us,
                ),
            )
            seq += emitted.rows.num_rows
            while (evaluated := engine.advance(1 << 20)) is not None:
                passed += evaluated.rows.num_rows
                if delivery is not None:
                    delivery.take(evaluated)
            if emitted.rows.num_rows:
                last = emitted.rows.column("number")[emitted.rows.num_rows - 1].as_py()
                times.append((last, clock_us()))
            if seq - told >= TELLS_ROWS:
                told = seq
                tell(Passing(rows=seq))
    tell(Passed(times=times, passed=passed))
    # Threads of the source and the sink go on.
    threading.Event().wait()


def main() -> None:
    """One site."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    end_with_input(Path(order.folder))
    os.sched_setaffinity(0, {order.processor})

    def tell(what: Passing | Passed) -> None:
        sys.stdout.write(msgspec.json.encode(what).decode() + "\n")
        sys.stdout.flush()

    run(order, tell)


if __name__ == "__main__":
    main()
