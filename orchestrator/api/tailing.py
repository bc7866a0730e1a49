"""Following a stream's tuples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from foundation.suggestions import nearest
from orchestrator.api.cluster_status import what_for
from orchestrator.api.connection import Cluster
from orchestrator.api.observer import Observer
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.edges.events import Deliver
from orchestrator.errors import InvalidInput
from orchestrator.results.streams import TailBatch, TailRow
from streams.vectors.chunk import TIMESTAMP

POLL_S = 0.5
"""How long one look at the stream takes at most; Ctrl-C is noticed that often."""


QUIET_S = 2.0
"""Without a tuple for so long at first, whoever waits wants to know why."""


def _keep_quiet(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A stream that is followed.

    Attributes
    ----------
    columns
        Column → type.
    batches
        The tuples, from the oldest one that is still kept. Reading it connects to the stream;
        closing it, or reaching the limit, disconnects.
    """

    columns: Mapping[str, str]
    batches: Iterator[TailBatch]


def tail(
    cluster: Cluster,
    stream: str,
    limit: int | None = None,
    on_quiet: Callable[[str], None] = _keep_quiet,
    ended: Callable[[], bool] = lambda: False,
    after: str | None = None,
) -> Tail:
    """Follow a stream from outside, or one that a query makes.

    Parameters
    ----------
    limit
        End after so many tuples; None: never.
    on_quiet
        Told the likely reason, once, if no tuple comes for a while at first.
    ended
        Whether nobody follows any more; asked several times a second.
    after
        The id of a batch: whoever has had it gets what follows. What is no longer kept of that
        counts as lost.

    Raises
    ------
    InvalidInput
        There is no such stream.
    """
    known = read_view(cluster.store).dataflow.columns
    if stream not in known:
        raise InvalidInput("", "stream", stream, "is not a stream here", nearest(stream, known))
    batches = _batches(cluster, stream, limit, on_quiet, ended, _Had.by_id(after))
    return Tail(columns=known[stream], batches=batches)


def why_quiet(view: ClusterView, stream: str) -> str:
    """The likely reason that no tuple of a stream comes, in a sentence or two."""
    entering = view.entering.get(stream)
    if entering is None:
        return (
            f"No tuple of {stream} has come since this command started. Those that its readers "
            "have acknowledged are no longer kept; new ones are shown as they come."
        )
    site = view.hosts.get(entering.feeding_site)
    source = None if site is None else site.sources.get(stream)
    if source is None:
        return f"{stream} is not open at {entering.feeding_site}: `vivace status` says why."
    if not source.next_seq:
        if entering.running.start_at_us is None:
            return (
                f"{stream} has not started: it does once a query reads it, and each fragment of "
                "that query has a warm standby."
            )
        refused = 0 if source.input is None else source.input.refused
        if (cause := what_for(source)) is not None:
            return f"Tuples of {stream} have been accepted, and wait for {cause}."
        told = f" {refused:,} tuples were refused: `vivace status` says why." if refused else ""
        return f"Nothing has entered {stream} yet.{told}"
    return (
        f"{source.next_seq:,} tuples have entered {stream}, and its readers have acknowledged all "
        "of them: they are no longer kept. New ones are shown as they come."
    )


def _batches(
    cluster: Cluster,
    stream: str,
    limit: int | None,
    on_quiet: Callable[[str], None],
    ended: Callable[[], bool],
    had: _Had,
) -> Iterator[TailBatch]:
    left = limit
    quiet_at_s: float | None = time.monotonic() + QUIET_S
    with Observer(cluster.reach, [stream]) as observer:
        while not ended() and (left is None or left > 0):
            if quiet_at_s is not None and time.monotonic() > quiet_at_s:
                on_quiet(why_quiet(read_view(cluster.store), stream))
                quiet_at_s = None
            for delivery in observer.poll(POLL_S):
                lost, first, rows = had.new_of(delivery)
                rows = rows[:left]
                if rows:
                    quiet_at_s = None
                elif not lost:
                    # A watermark that came alone.
                    continue
                if left is not None:
                    left -= len(rows)
                yield TailBatch(
                    lost=lost,
                    rows=tuple(_row(seq, row) for seq, row in enumerate(rows, first)),
                    generation=delivery.generation,
                )


@dataclass(slots=True)
class _Had:
    """How far a client has come that followed the stream before."""

    generation: int = 0
    seq: int = -1

    @classmethod
    def by_id(cls, last: str | None) -> _Had:
        """By the id of the last batch that it had."""
        return cls() if last is None else cls(*map(int, last.split("-")))

    def new_of(self, delivery: Deliver) -> tuple[int, int, list[dict[str, object]]]:
        """What it has not had of a delivery: how many are lost before; first number; tuples."""
        rows, first = delivery.chunk.rows.to_pylist(), delivery.chunk.first_seq
        if delivery.generation > self.generation:
            return delivery.lost, first, rows
        if delivery.generation < self.generation:
            return 0, first, []
        next_seq = self.seq + 1
        self.seq = max(self.seq, first + len(rows) - 1)
        return max(0, first - next_seq), max(first, next_seq), rows[max(0, next_seq - first) :]


def _row(seq: int, values: dict[str, object]) -> TailRow:
    timestamp_ms = values.pop(TIMESTAMP)
    assert isinstance(timestamp_ms, int)
    return TailRow(seq=seq, timestamp_ms=timestamp_ms, values=values)
