"""The real world of a host: sockets, clocks, ZooKeeper and a loop around `HostCore`.

Inside a Spark executor `run_host` is the whole of the node's one long task. A site runs the same
`HostProcess` as a process of its own (`orchestrator.deploy.site`).
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from orchestrator.clock import now_us
from orchestrator.errors import InvalidInput
from orchestrator.host.core import HostCore
from orchestrator.host.cpu_meter import CpuMeter
from orchestrator.host.events import (
    Command,
    CpuMeasured,
    Deliver,
    Event,
    MessageArrived,
    PeerLost,
    RecordTakeover,
    Report,
    Send,
    SetPeers,
)
from orchestrator.host.node_report import node_record, readiness
from orchestrator.host.parent_watchdog import ParentWatchdog
from orchestrator.host.store_link import StoreLink, StoreThread
from orchestrator.host.transport import ConnectionLost, FramesArrived, Keys, Transport
from orchestrator.host.warm_up import warm_up
from orchestrator.host.wire import UnknownStream, WireError, decode, encode
from orchestrator.records import HostSpec, NodeRecord, ReplicaId, SourceAssignment
from orchestrator.sources.replay import SourceDrivers
from orchestrator.store import CLUSTER, Store, ZooKeeperStore

PUBLISH_US = 1_000_000
"""Between two versions of a host's record, unless the role of a copy changes."""

LONGEST_WAIT_US = 100_000
"""The loop looks at least this often whether it should end."""

MESSAGES_PER_TURN = 64
"""Taken in before the host works and looks at its timers again: however much has piled up,
evaluation goes on and heartbeats leave in time."""

_log = logging.getLogger("vivace.host")


class HostProcess:
    """A host, connected.

    Parameters
    ----------
    spec
        What it is.
    store
        An open store of its cluster.
    deliver
        Takes what sinks here receive.
    wants
        Streams to ask for (observers only).
    """

    def __init__(
        self,
        spec: HostSpec,
        store: Store,
        deliver: Callable[[Deliver], None],
        wants: tuple[str, ...] = (),
    ) -> None:
        found = store.get(CLUSTER)
        if found is None:
            raise InvalidInput(
                "store", "cluster", spec.cluster, "does not exist", "Start it with `vivace up`."
            )
        self._spec = spec
        self._deliver = deliver
        self._wants = wants
        self._keys = Keys.generate()
        self._identity = ReplicaId(node=spec.node, incarnation=secrets.token_hex(8))
        self._transport = Transport(spec.node, self._keys, spec.bind, now_us)
        rng = np.random.default_rng(int(self._identity.incarnation, 16))
        self._core = HostCore(spec.node, found.record, rng, now_us())
        self._arrived: deque[FramesArrived | ConnectionLost] = deque()
        self._source_drivers = SourceDrivers(round(found.record.batch_ms * 1000))
        self._replicas: object = None
        self._next_publish_us = 0
        self._busy_until_us = 0
        self._is_busy = False
        self._cpu = CpuMeter(now_us(), least_us=PUBLISH_US // 2)
        self._link = StoreLink(store, self._identity)
        self._store_thread = StoreThread(self._link, self._transport.wake)

    def run(self, ended: Callable[[], bool]) -> None:
        """Serve until `ended` says so or another process takes the host's name."""
        self._link.publish(self._record())
        self._store_thread.start()
        try:
            while not ended() and not self._link.superseded:
                self._turn()
            self._execute(self._core.shut_down())
            self._transport.flush()
        finally:
            self._store_thread.stop()
            self._transport.close()

    def wake(self) -> None:
        """Make a waiting `run` look whether it should end."""
        self._transport.wake()

    def _turn(self) -> None:
        """One turn of the loop: listen, feed, do what is due, work once."""
        core, now = self._core, now_us()
        waits_us = min(max(self._next_due_us() - now, 0), LONGEST_WAIT_US)
        timeout_us = 0 if self._arrived else waits_us
        self._arrived.extend(self._transport.receive(timeout_us))
        for _ in range(min(len(self._arrived), MESSAGES_PER_TURN)):
            self._take(self._arrived.popleft())
        while self._link.events:
            self._dispatch(self._link.events.popleft())
        for emitted in self._source_drivers.feed(self._assigned_sources(), now_us()):
            self._dispatch(emitted)
        if now_us() >= core.next_tick_us:
            self._execute(core.tick(now_us()))
        # What is sent must not wait for a batch to be done.
        self._transport.flush()
        self._work()
        self._publish()

    def _work(self) -> None:
        began_us = now_us()
        worked = self._core.work(began_us)
        if worked.emulated_us is None:
            took_us = now_us() - began_us
        else:
            took_us = worked.emulated_us
            self._pretend(began_us, took_us)
        self._core.charge(worked, took_us)
        next_us = self._core.next_work_us
        self._is_busy = next_us is not None and next_us <= self._busy_until_us
        self._execute(worked.commands)

    def _pretend(self, began_us: int, lasts_us: float) -> None:
        """Be busy for as long as a batch is to last.

        Turns of the loop take time of their own; a batch that has waited for the one before it is
        taken to have begun when that ended.
        """
        if self._is_busy:
            began_us = self._busy_until_us
        self._busy_until_us = began_us + round(lasts_us)
        time.sleep(max(self._busy_until_us - now_us(), 0) / 1e6)

    def _take(self, item: FramesArrived | ConnectionLost) -> None:
        match item:
            case ConnectionLost(node=node):
                self._dispatch(PeerLost(node=node))
            case FramesArrived(sender=sender, frames=frames):
                try:
                    message = decode(frames, self._core.replica_manager.schema_of)
                except UnknownStream:
                    # It was under way when the stream was unassigned.
                    self._core.counters["chunks_unasked"] += 1
                    return
                except WireError as error:
                    self._core.counters["frames_refused"] += 1
                    _log.debug("frames from %s refused: %s", sender, error)
                    return
                self._dispatch(MessageArrived(sender=sender, message=message))

    def _dispatch(self, event: Event) -> None:
        self._execute(self._core.handle(event, now_us()))

    def _execute(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Send(to=to, message=message):
                    self._transport.send(to, encode(message))
                case Deliver():
                    self._deliver(command)
                case SetPeers(peers=peers):
                    self._transport.set_peers(peers)
                case RecordTakeover():
                    self._link.record_takeover(command)
                    self._store_thread.nudge()
                case Report(kind=kind, subject=subject, detail=detail):
                    _log.info("%s: %s %s", subject, kind, detail)

    def _next_due_us(self) -> int:
        due = [self._core.next_tick_us, self._next_publish_us]
        if (work_us := self._core.next_work_us) is not None:
            due.append(work_us)
        if (emission_us := self._source_drivers.next_due_us(self._assigned_sources())) is not None:
            due.append(emission_us)
        return min(due)

    def _assigned_sources(self) -> list[SourceAssignment]:
        return [source.assignment for source in self._core.replica_manager.sources.values()]

    def _publish(self) -> None:
        now = now_us()
        running = readiness(self._core)
        if now < self._next_publish_us and running == self._replicas:
            return
        self._replicas = running
        self._next_publish_us = now + PUBLISH_US
        if (load := self._cpu.load(now)) is not None:
            self._dispatch(CpuMeasured(load=load))
        self._link.publish(self._record())
        self._store_thread.nudge()

    def _record(self) -> NodeRecord:
        return node_record(
            self._core,
            self._spec,
            incarnation=self._identity.incarnation,
            endpoint=self._transport.endpoint,
            public_key=self._keys.public.decode(),
            pid=os.getpid(),
            machine=socket.gethostname(),
            now_us=now_us(),
            wants=self._wants,
            link_counters=self._transport.counters,
        )


def run_host(spec: HostSpec) -> None:
    """Be the host of a Spark executor's node until the executor ends.

    The store may be away when a host starts; it is looked for until the executor ends.
    """
    parent_watchdog = ParentWatchdog()
    warm_up()
    store = ZooKeeperStore(spec.zookeeper, spec.cluster, spec.secret)
    try:
        HostProcess(spec, store, _nobody).run(parent_watchdog.parent_is_gone)
    finally:
        store.close()


def _nobody(delivery: Deliver) -> None:
    raise AssertionError(f"an executor was delivered {delivery.stream}")
