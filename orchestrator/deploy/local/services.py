"""Measures what the processes of a local cluster that are no hosts take of the machine.

Coordinators, Spark and ZooKeeper share the machine's processors with the hosts. What they take
grows with the replicas, so admission has to know it. Hosts measure themselves and are left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import psutil

from orchestrator.host.shell.processors import own_processors
from orchestrator.records import ServicesRecord
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import NODES, SERVICES, Store, StoreUnavailable
from streams.scheduling.recent_rates import RecentRates

STARTING_S = 20.0
"""A process counts once it has been seen for so long. Starting an executor takes its Java process
seconds of processor time within ten seconds or so, more on a slow machine; that is no load which
stays, and it would refuse every move of a rolling restart."""

MEASURE_EVERY_S = 2.0
"""Interval between two measurements. Each looks at every process of the machine."""

Processes = Mapping[str, Mapping[int, float]]
"""Kind → process → the processor time that it has used, seconds."""


class ServiceMeter:
    """Publishes what services have taken lately.

    Measuring begins with the first call of `attend`: what starting the cluster took is no part, nor
    is what a process takes that has just been started.

    Parameters
    ----------
    store
        The record lasts as long as its session.
    parents
        Reads the parents of the services that run, by kind.
    now_s
        A clock that never goes back.
    used
        Reads what processes have used, from the parents and the hosts among them.
    """

    def __init__(
        self,
        store: Store,
        parents: Callable[[], Mapping[str, Sequence[int]]],
        *,
        now_s: Callable[[], float] = time.monotonic,
        used: Callable[[Mapping[str, Sequence[int]], Collection[int]], Processes] | None = None,
    ) -> None:
        self._store = store
        self._parents = parents
        self._now_s = now_s
        self._used = used or _used
        self._record = EphemeralRecord(store, SERVICES.key(f"local-{os.getpid()}"))
        self._processors = own_processors()
        self._before: Processes | None = None
        self._due_s = 0.0
        self._counts_s: dict[int, float] = {}
        self._rates: dict[str, RecentRates] = {}

    def attend(self) -> None:
        """Measure and publish if it is due; call it often."""
        now_s = self._now_s()
        if self._before is not None and now_s < self._due_s:
            return
        self._due_s = now_s + MEASURE_EVERY_S
        try:
            hosts = {found.record.pid for found in self._store.list(NODES).records.values()}
            used = self._used(self._parents(), hosts)
            self._note_new(used, now_s)
            if self._before is not None:
                self._record.publish(
                    ServicesRecord(
                        processors=self._processors,
                        cores=self._cores(used, self._before, round(now_s * 1e6)),
                    )
                )
            else:
                now_us = round(now_s * 1e6)
                self._rates = {kind: RecentRates(1, now_us) for kind in used}
            self._before = used
        except StoreUnavailable:
            # The next measurement covers this interval too.
            return

    def _note_new(self, used: Processes, now_s: float) -> None:
        """Note from when on each process counts; those of the first measurement do at once."""
        counts_s = now_s if self._before is None else now_s + STARTING_S
        running = [pid for processes in used.values() for pid in processes]
        self._counts_s = {pid: self._counts_s.get(pid, counts_s) for pid in running}

    def _cores(self, used: Processes, before: Processes, now_us: int) -> dict[str, float]:
        """What each kind has taken lately, without processes that are starting."""
        cores: dict[str, float] = {}
        for kind, processes in used.items():
            known = before.get(kind, {})
            rates = self._rates.setdefault(kind, RecentRates(1, now_us))
            rates.add(
                sum(
                    max(used_s - known[pid], 0.0)
                    for pid, used_s in processes.items()
                    if pid in known and self._counts_s[pid] * 1e6 < now_us
                )
            )
            (cores[kind],) = rates.read(now_us)
        return cores


def _used(parents: Mapping[str, Sequence[int]], hosts: Collection[int]) -> Processes:
    return {
        kind: {p.pid: s for pid in pids for p in _family(pid) if (s := _used_s(p, hosts))}
        for kind, pids in parents.items()
    }


def _family(pid: int) -> Iterator[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        yield parent
        yield from parent.children(recursive=True)
    except psutil.Error:
        return


def _used_s(process: psutil.Process, hosts: Collection[int]) -> float:
    if process.pid in hosts:
        return 0.0
    try:
        used = process.cpu_times()
    except psutil.Error:
        return 0.0
    return used.user + used.system
