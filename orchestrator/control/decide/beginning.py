"""A cluster that begins: nothing runs yet, and not all of its hosts are there.

After a start the store tells of fragments whose hosts have ended with the former processes. They
begin from nothing. If the leader did that as soon as two hosts are there, all of them would lie on
these two. So it waits until the hosts of the manifest are there and have measured the network, or
until no further host or measurement has come for a while. If everything can go on from checkpoints
on the nodes that it ran on, nothing is placed, and nobody waits for measurements
(`lost_fragments`).

It does not wait once something runs, or has run under this leader: lost replicas are then replaced
at once on the hosts that are left. Nor does it wait if nothing has ever run: an applied query is to
be placed. `completing` mends the places of both later. If all executors are gone at once, such as
with the only Spark application, the cluster begins again.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.control.observe.readiness import (
    Incomplete,
    Readiness,
    incomplete,
    names,
    readiness,
)
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.task import MIN_EXECUTORS
from orchestrator.records import HistoryEvent
from orchestrator.store.protocol import FRAGMENTS

HOSTS_PATIENCE_US = 60_000_000
"""Time for one more host to come or to measure one more link: Spark starts an executor in a
fraction of it, also on a busy machine."""

SETTLE_PATIENCE_US = 20_000_000
"""Time for one more coordinate to settle. Where links violate the triangle inequality, coordinates
may never settle, and plans prefer measured latencies."""

WAITS, BEGINS = "start waits", "start"
"""Kinds of the events that the leader begins to wait, and that it waits no longer."""


def missing(view: ClusterView, before: ClusterView | None, now_us: int) -> Incomplete | None:
    """The missing hosts of the manifest, and since when no further one has come."""
    # Nothing is placed on a cordoned node, so nobody needs to wait for it.
    expected = [
        name
        for name in (*view.settings.nodes, *view.settings.sites)
        if name in view.hosts or name not in view.cordoned
    ]
    # After all executors have gone, the cluster starts anew.
    known = None if before is None or not view.executors else before.incomplete
    return incomplete(known, readiness(expected, view.hosts), now_us)


def begins(
    view: ClusterView, lacking: Incomplete | None, before: ClusterView | None, now_us: int
) -> bool:
    """Whether the leader still waits for hosts before it places what does not run.

    Parameters
    ----------
    lacking
        The hosts that are missing now.
    """
    if before is not None and not before.begins and view.executors:
        return False
    if lacking is None or not view.fragments or view.broken(FRAGMENTS):
        return False
    if any(view.alive(each) for found in view.fragments.values() for each in found.record.replicas):
        return False
    return len(view.executors) < MIN_EXECUTORS or patient(lacking, now_us)


def patient(lacking: Incomplete, now_us: int) -> bool:
    """Whether a missing host may be about to come."""
    return now_us - lacking.since_us < _patience_us(lacking.now)


def begin_problem(view: ClusterView) -> str | None:
    """The hosts that the leader waits for, if something is to be placed."""
    if not view.begins or view.incomplete is None:
        return None
    waiting = sorted(view.queries)
    now = view.incomplete.now
    return (
        f"the cluster starts, {now}: {_queries(waiting)} placed once all hosts of the manifest "
        f"are there and measured, or when nothing more has come for "
        f"{_patience_us(now) / 1e6:.0f} s"
    )


def begin_events(
    before: ClusterView | None, after: ClusterView, now_us: int
) -> Iterator[HistoryEvent]:
    """That the leader waits for hosts, and that it does no longer."""
    was = before is not None and before.begins
    if was == after.begins:
        return
    lacking = after.incomplete
    if after.begins:
        assert lacking is not None, "nobody waits for nothing"
        kind, detail = WAITS, str(lacking.now)
    elif lacking is None:
        kind, detail = BEGINS, "all hosts of the manifest are there and measured"
    elif patient(lacking, now_us):
        kind, detail = BEGINS, "all hosts of the manifest are there, and nothing needs a new place"
    else:
        kind, detail = BEGINS, f"nothing more came for {_patience_us(lacking.now) / 1e6:.0f} s: "
        detail += str(lacking.now)
    yield HistoryEvent(at_us=now_us, kind=kind, subject=after.settings.name, detail=detail)


def _queries(waiting: list[str]) -> str:
    one = len(waiting) == 1
    return f"{'query' if one else 'queries'} {names(waiting)} {'is' if one else 'are'}"


def _patience_us(now: Readiness) -> int:
    return HOSTS_PATIENCE_US if now.absent or now.unprobed else SETTLE_PATIENCE_US
