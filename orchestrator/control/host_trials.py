"""Has statements tried on hosts that would run them (`orchestrator.control.planning.trying`).

The leader leaves a record in the store (`HostTrial`) that names a host in its incarnation, and
waits until the host has written into it what it has found. Of the hosts that new queries may be
placed on, that is the least busy one of those that are not slow: a trial there takes nobody's turn,
and is soon done. It is the one that ran the last trial, as long as it may: its process for trials
runs already.

A host that ends, or does not respond in time, is asked nothing more in this request, and another
one is. If none responds, nothing is tried: statements stay as they were written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from orchestrator.control.observe.measured_load import measured_places, speed_of
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.trying import Tries
from orchestrator.records import HostTrial, ReplicaId, Trial, TrialResult
from orchestrator.records.host_trials import LONGEST_S
from orchestrator.store.protocol import MOST_BYTES, NODES, TRIALS, Key, Store, StoreError, encode

TIMEOUT_S = LONGEST_S + 5.0
"""How long a host may take to respond: as long as it lets a trial last, and a little more."""

MOST_HOSTS = 2
"""Hosts that are asked for one request."""

LOOK_EVERY_S = 1.0
"""How often the leader looks whether the host is still there."""

SLOW_SHARE = 0.5
"""Share of the fastest host's speed below which a host is slow."""

Waits = Callable[[threading.Event, float], object]
"""Waits for an event, for so many seconds at most."""


class HostTrials:
    """The trials of one leader.

    Parameters
    ----------
    store
        Of its session.
    now_us
        Its own clock.
    """

    def __init__(
        self, store: Store, now_us: Callable[[], int], waits: Waits = threading.Event.wait
    ) -> None:
        self._store = store
        self._now_us = now_us
        self._waits = waits
        self._changed = threading.Event()
        self._numbers = count()
        self._last: ReplicaId | None = None
        store.watch(TRIALS, self._changed.set)
        store.on_state(lambda _: self._changed.set())

    def among(self, view: ClusterView) -> Tries:
        """Runs the trials of one request on hosts that are seen."""
        left = usable_hosts(view, self._last)[:MOST_HOSTS]

        def tries(trial: Trial) -> TrialResult:
            began_us = self._now_us()
            while left:
                result = self._asked(left[0], trial)
                if result is not None:
                    self._last = left[0]
                    return result
                del left[0]
            return TrialResult(tried={}, recorded=(), took_us=self._now_us() - began_us)

        return tries

    def _asked(self, host: ReplicaId, trial: Trial) -> TrialResult | None:
        """What a host responds; None if it does not."""
        record = HostTrial(host=host, trial=trial)
        if len(encode(record)) > MOST_BYTES:
            return None
        key = TRIALS.key(f"{host.node}-{self._store.session}-{next(self._numbers)}")
        # What cannot be withdrawn goes with the session.
        with suppress(StoreError):
            self._store.create(key, record, ephemeral=True)
            try:
                return self._awaited(key, host)
            finally:
                if (found := self._store.get(key)) is not None:
                    self._store.delete(key, found.version)
        return None

    def _awaited(self, key: Key[HostTrial], host: ReplicaId) -> TrialResult | None:
        give_up_us = self._now_us() + round(TIMEOUT_S * 1e6)
        while self._now_us() < give_up_us and self._runs(host):
            self._changed.clear()
            found = self._store.get(key)
            if found is None:
                # The session was lost.
                return None
            if found.record.result is not None:
                return found.record.result
            self._waits(self._changed, LOOK_EVERY_S)
        return None

    def _runs(self, host: ReplicaId) -> bool:
        node = self._store.get(NODES.key(host.node))
        return node is not None and node.record.incarnation == host.incarnation


def usable_hosts(view: ClusterView, last: ReplicaId | None = None) -> list[ReplicaId]:
    """The hosts that may run a trial, the best one first.

    Parameters
    ----------
    last
        Which ran the last one.
    """
    places = measured_places(view.hosts, view.service_records, emulated=False)
    usable = {
        name: node
        for name, node in view.executors.items()
        if name in view.trusted and name not in view.closed
    }
    fastest = max(map(speed_of, usable.values()), default=1.0)

    def rank(name: str) -> tuple[bool, bool, float, float, str]:
        shares = [p.busy_cores / p.limit_cores for p in places if name in p.hosts]
        busy = max(shares, default=0.0)
        node = usable[name]
        own = 0.0 if node.load is None else node.load.cores
        is_bad = busy > 1 or speed_of(node) < SLOW_SHARE * fastest
        return is_bad, view.replica(name) != last, busy, own, name

    return [view.replica(name) for name in sorted(usable, key=rank)]
