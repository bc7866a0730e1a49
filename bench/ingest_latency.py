"""Latency in benchmark `ingest`: from a client's send until a client of the results has the tuple.

A client sends 5,000 tuples a second, in a batch each tick. The site's source takes them in, the
fragment filters them, and the sink driver `http` keeps them in its archive and sends them to a
client that follows the results. Both clients share a process: one clock tells both times. A tick
counts from when it was due until its last tuple that passes the filter has come; ticks of which no
tuple passes are left out, and so are the first seconds, in which code is compiled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import compute

import vivace
from bench import ingest_workload as workload
from bench.ingest_site import clock_us
from bench.ingest_sources import Source, running_site
from foundation.arrays import FloatArray, IntArray

RATE_ROWS_S, TICK_S = 5_000, 0.01
"""So many tuples a second, in a batch each tick."""

SETTLE_S = 2
"""Time from the beginning that is left out."""

PATIENCE_S = 60.0
"""For what still comes after the last tick. Tuples that do not come count as come then."""


def latencies_ms(source: Source, seconds: int) -> FloatArray:
    """Of each tick, through a site."""
    batches = ticks(SETTLE_S + seconds)
    encoded = {n * batches[0].num_rows: source.encode(each) for n, each in enumerate(batches)}
    rows = sum(each.num_rows for each in batches)
    with running_site(source, rows, delivers=True) as site:
        arrivals = Arrivals(results_of(site.results))
        send = source.connect(site.address, encoded)
        due_us = sent_when_due(batches, send)
        return settled_ms(arrivals.until(batches), due_us, batches, SETTLE_S)


def settled_ms(
    arrived: Sequence[tuple[int, int]],
    due_us: IntArray,
    batches: Sequence[pa.RecordBatch],
    settle_s: int,
) -> FloatArray:
    """`waits_ms` of the batches that were due after the first seconds."""
    later = due_us >= due_us[0] + settle_s * 1_000_000
    return waits_ms(arrived, due_us[later], last_passing(batches)[later])


def ticks(seconds: int, tick_s: float = TICK_S) -> list[pa.RecordBatch]:
    """What is sent at each tick."""
    rows = round(RATE_ROWS_S * tick_s)
    return [workload.batch(n * rows, rows) for n in range(round(seconds / tick_s))]


def sent_when_due(
    batches: Sequence[pa.RecordBatch], send: workload.Send, tick_s: float = TICK_S
) -> IntArray:
    """Send a batch each tick, and return when each was due, µs.

    The first is due when `send` first returns: that opens a connection. A batch that is due while
    the last one is still being sent counts from when it was.
    """
    send(batches[0])
    begun_us = clock_us()
    due_us = begun_us + np.arange(len(batches)) * round(tick_s * 1e6)
    for each, due in zip(batches[1:], due_us[1:], strict=True):
        time.sleep(max((int(due) - clock_us()) / 1e6, 0.0))
        send(each)
    return due_us


def last_passing(batches: Sequence[pa.RecordBatch]) -> IntArray:
    """The number of the last tuple of each batch that passes the filter; -1 if none does."""
    found: list[int] = []
    for batch in batches:
        passing = batch.filter(compute.greater(batch.column("value"), workload.LEAST_VALUE))
        found.append(_greatest_number(passing) if passing.num_rows else -1)
    return np.array(found)


def _greatest_number(rows: pa.RecordBatch) -> int:
    return int(compute.max(rows.column("number")).as_py())


def waits_ms(arrived: Sequence[tuple[int, int]], due_us: IntArray, lasts: IntArray) -> FloatArray:
    """How long after it was due the last tuple of each tick came, of ticks that have one.

    Parameters
    ----------
    arrived
        The numbers of tuples, rising, and when they and all before had come, µs.
    """
    some = lasts >= 0
    numbers, times_us = np.array(arrived).T
    arrived_us = times_us[np.searchsorted(numbers, lasts[some])]
    return (arrived_us - due_us[some]) / 1000


class Arrivals:
    """Notes on a thread of its own when which tuple came.

    Parameters
    ----------
    found
        Numbers of tuples, and when they and all before had come.
    """

    def __init__(self, found: Iterable[tuple[int, int]]) -> None:
        self._arrived: list[tuple[int, int]] = []
        self._changed = threading.Condition()
        self._ended: BaseException | None = None
        threading.Thread(target=self._follow, args=(found,), daemon=True).start()

    def until(self, batches: Sequence[pa.RecordBatch]) -> list[tuple[int, int]]:
        """All arrivals, when the last tuple that passes has come, or patience has an end.

        Raises
        ------
        RuntimeError
            Nothing more will come.
        """
        last = int(last_passing(batches).max())
        with self._changed:
            self._changed.wait_for(
                lambda: self._ended is not None or self._number >= last, PATIENCE_S
            )
            if self._ended is not None and self._number < last:
                raise RuntimeError(f"results end after tuple {self._number}") from self._ended
            arrived = list(self._arrived)
        return arrived if self._number >= last else [*arrived, (last, clock_us())]

    @property
    def _number(self) -> int:
        return self._arrived[-1][0] if self._arrived else -1

    def _follow(self, found: Iterable[tuple[int, int]]) -> None:
        ended: BaseException = EOFError()
        try:
            for each in found:
                with self._changed:
                    self._arrived.append(each)
                    self._changed.notify()
        except Exception as error:  # noqa: BLE001  Told to whoever waits.
            ended = error
        with self._changed:
            self._ended = ended
            self._changed.notify()


def results_of(address: str) -> Iterator[tuple[int, int]]:
    """What a client of a site's results gets.

    Tuples that enter at one time may be in any order, such as those of several tasks of Spark.
    """
    for batch in vivace.site(address).results(workload.RESULTS):
        if batch.num_rows:
            yield _greatest_number(batch), clock_us()
