"""A host in the real world: sockets, the machine's clock and ZooKeeper around a `HostLoop`.

Inside a Spark executor, `run_host` is the one long task of a node. A site runs the same
`HostProcess` in a process of its own (`orchestrator.deploy.site`).
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

from ha.memory import MemoryBudget
from ha.messages import Data, Heartbeat, Message, Snapshot, SnapshotRequest
from orchestrator.clock import anchor_us, machine, monotonic_us, now_us, thread_us
from orchestrator.edges import http_server
from orchestrator.edges.open_folders import FolderClaim
from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.edges.sinks.sink_drivers import SinkDrivers
from orchestrator.edges.sources.driver import SourceContext, nobody_else
from orchestrator.embedded.struck_process import EXECUTOR, obeying_drills
from orchestrator.errors import InvalidInput, Unreachable
from orchestrator.health import Health, served
from orchestrator.host.core.core import Worked
from orchestrator.host.core.events import Event, MessageArrived, PeerLost
from orchestrator.host.shell.addresses import advertised_address
from orchestrator.host.shell.checkpoint_driver import CheckpointThreads, saver
from orchestrator.host.shell.garbage import FullCollections
from orchestrator.host.shell.kernels import KernelLoader
from orchestrator.host.shell.leave_order import LeaveOrder
from orchestrator.host.shell.loop import LATE_US, PUBLISH_US, HostLoop, Surroundings, host_identity
from orchestrator.host.shell.name_claim import TOKEN_BITS, claim_name
from orchestrator.host.shell.own_environment import in_its_environment
from orchestrator.host.shell.own_process import (
    CpuMeter,
    ParentWatchdog,
    begin_session,
    process_cpu_s,
)
from orchestrator.host.shell.pace import StatePace
from orchestrator.host.shell.processor_speed import SpeedMeter
from orchestrator.host.shell.processors import own_processors
from orchestrator.host.shell.store_link import StoreThread
from orchestrator.host.shell.transport import FramesArrived, KeyPair, Transport
from orchestrator.host.shell.trial_responses import responding_to_trials
from orchestrator.host.shell.warm_up import warm_up
from orchestrator.host.shell.wire import (
    CompressedRows,
    UnknownStream,
    UnreadSnapshot,
    WireError,
    begin_decoding,
    decode,
    encode,
    encode_frames,
    is_heartbeat,
    measured,
)
from orchestrator.records import HostSpec, ReplicaId, SinkAssignment, StrikeKind
from orchestrator.store.protocol import CLUSTER, Store
from orchestrator.store.zookeeper import ZooKeeperStore

MOST_ENCODED = 16
"""Data of which frames are kept for further receivers: they are sent one after the other."""

LONGEST_WAIT_US = 100_000
"""The loop checks at least this often whether it should end."""

FAREWELL_MS = 100
"""Time for the last messages to leave when a host ends in order."""

MESSAGES_PER_TURN = 64
"""Messages handled before the host evaluates and looks at its timers again: evaluation goes on and
heartbeats leave in time, however many messages wait."""

HANDLED_US = 15_000
"""Processor time of a turn after which no further message is handled."""

PREPARED_US = 10_000
"""Processor time of a turn that is spent on reading snapshots; the last piece may take a little
longer."""

LONG_TURN_US = 50_000
"""Processor time of a turn that is counted and logged: a third of the silence that makes a host
suspected. Processor time, because a machine that is too busy makes every turn last."""

EXECUTOR_ENDS_S = 600.0
"""How long after its host has left an executor may take to end."""

EVALUATES_FOR_US = 3_000
"""How long a turn goes on evaluating, if deadlines allow it: long enough for dozens of batches of
little data, which often become due together."""

_log = logging.getLogger("vivace.host")


class HostProcess:
    """A `HostLoop` on real sockets.

    Parameters
    ----------
    spec
        Name, kind and place of the host.
    store
        An open store of its cluster.
    sinks
        The sinks here.
    wants
        Streams to ask for (observers only).
    source_folder
        For sources and sinks that keep files.
    """

    def __init__(
        self,
        spec: HostSpec,
        store: Store,
        sinks: SinkDrivers,
        wants: tuple[str, ...] = (),
        source_folder: Path | None = None,
    ) -> None:
        found = store.get(CLUSTER)
        if found is None:
            raise InvalidInput(
                "store", "cluster", spec.cluster, "does not exist", "Start it with `vivace up`."
            )
        claimed = claim_name(store, spec, secrets.randbits(TOKEN_BITS))
        check_claim = nobody_else
        if source_folder is not None:
            check_claim = FolderClaim(source_folder, spec.node, claimed.incarnation).check
        keys = KeyPair.generate()
        # Bundles are stamped for the link shaper, which only delays what stays on one machine.
        budget = MemoryBudget(found.record.memory_bytes)
        http_server.bound(body_bytes=budget.body_bytes, reader_bytes=budget.reader_bytes)
        advertised = advertised_address(spec.bind, spec.advertise, spec.zookeeper)
        pace = StatePace(found.record.state_rate_bytes_s)
        self._transport = Transport(
            spec.node, keys, spec.bind, monotonic_us, port=spec.port,
            budget=budget, advertised=advertised, pace=pace,
        )  # fmt: skip
        self._arrived: deque[FramesArrived | PeerLost] = deque()
        self._full_collections = FullCollections(now_us())
        self._kernels = KernelLoader()
        self._busy_until_us = 0
        self._is_busy = False
        self._used_us = 0
        """Processor time of the thread when its turn began."""
        self._encoded: dict[tuple[int, int], tuple[Data, list[bytes]]] = {}
        """The newest data of this turn, by its identity and the wire, with its frames."""
        identity = host_identity(
            spec,
            claimed.incarnation,
            self._transport.endpoint,
            public_key=keys.public.decode(),
            pid=os.getpid(),
            machine=machine(),
            clock_ahead_us=anchor_us(),
            processors=own_processors(),
            wants=wants,
        )
        surroundings = Surroundings(
            clock_us=now_us,
            anchor_us=anchor_us(),
            send=self._send,
            flush=self._transport.flush,
            transit_bytes=lambda: self._transport.transit_bytes,
            set_peers=self._transport.set_peers,
            checkpoints=CheckpointThreads(found.record, self._transport.wake),
            link_counters=self._transport.counters,
            sinks=sinks,
            sources=SourceContext(
                folder=source_folder,
                wake=self._transport.wake,
                check_claim=check_claim,
                save=saver(found.record.state),
                opens_aside=True,
            ),
            report=lambda r: _log.info("%s: %s %s", r.subject, r.kind, r.detail),
            finish=self._finish,
            evaluates_for_us=EVALUATES_FOR_US,
            cpu_load=CpuMeter(
                now_us(),
                least_us=PUBLISH_US // 2,
                used_s=lambda: process_cpu_s() - self._kernels.used_s(),
            ).load,
            speed=SpeedMeter(now_us()).read,
            processor_us=thread_us,
            message_failed=_log_failure,
        )
        self._loop = HostLoop(surroundings, found.record, store, identity, claimed)
        self._store_thread = StoreThread(self._loop.link, self._transport.wake)

    def run(
        self,
        ended: Callable[[], bool],
        health: Health | None = None,
        order: LeaveOrder | None = None,
    ) -> bool:
        """Serve until `ended` says so or another process takes the host's name; or until the host
        has left, as it was told to: only then it returns True.

        Parameters
        ----------
        health
            Is told of each turn.
        order
            Tells that the host is to leave.
        """
        health, order = health or Health(), order or LeaveOrder(None)
        stays: list[str] = []
        self._loop.publish()
        self._store_thread.start()
        try:
            while not (ended() or self._loop.link.superseded or self._loop.has_left):
                self._turn()
                health.turned(ready=self._loop.is_ready)
                if (within_s := order.within_s()) is not None:
                    self._loop.leave(round(within_s * 1e6))
            stays = self._loop.runs_here
            if not self._loop.link.superseded:
                self._loop.execute(self._loop.core.shut_down())
                self._transport.flush()
        finally:
            # Peers notice the end by their broken connections. The store may take seconds to
            # answer, and a host that is silent meanwhile would keep them waiting.
            self._transport.close(FAREWELL_MS)
            self._store_thread.stop()
            self._loop.close()
        if self._loop.has_left:
            _log.info("the host has left; what ends with it: %s", ", ".join(stays) or "nothing")
            order.done(stays)
        return self._loop.has_left

    @property
    def replica_of(self) -> ReplicaId:
        """The host in its incarnation."""
        return self._loop.link.replica_of

    def obeying_drills(self, kinds: frozenset[StrikeKind]) -> AbstractContextManager[None]:
        """While it fails in one of these ways if a drill asks for that."""
        of, clock = self.replica_of, self._loop.core.clock
        return obeying_drills(
            self._loop.link.store,
            {of.node: lambda: of.incarnation},
            lambda: clock.at(now_us()),
            kinds,
        )

    def wake(self) -> None:
        """Make a waiting `run` check whether it should end."""
        self._transport.wake()

    def _send(self, to: str, message: Message) -> None:
        if isinstance(message, Snapshot):
            # Nothing depends on the order of snapshots among other messages, and they are large.
            frames = measured(
                encode_frames(message, self._transport.wire_to(to)),
                thread_us,
                partial(self._loop.core.snapshot_was_written, message.fragment),
            )
            rate_bytes_s = self._loop.core.state_rate_bytes_s(message.fragment)
            self._transport.send_bulk(to, message.fragment, frames, StatePace(rate_bytes_s))
            return
        frames = self._frames(message, self._transport.wire_to(to))
        if (counter := self._loop.core.replica_manager.sent_for_standbys(to, message)) is not None:
            self._transport.counters[counter] += sum(map(len, frames))
        self._transport.send(to, frames, is_data=isinstance(message, Data))

    def _frames(self, message: Message, wire: int) -> list[bytes]:
        """Frames of a message; data that goes to several hosts is encoded once."""
        if not isinstance(message, Data):
            return encode(message, wire)
        key = id(message), wire
        if (known := self._encoded.get(key)) is None:
            if len(self._encoded) >= MOST_ENCODED:
                self._encoded.clear()
            known = self._encoded[key] = message, encode(message, wire)
        return known[1]

    def _finish(self, worked: Worked, began_us: int, then: Callable[[], None]) -> float:
        """Return how long a batch took; sleep until its end if costs are emulated."""
        took_us = worked.emulated_us
        if took_us is None:
            took_us = now_us() - began_us
        else:
            self._emulate(began_us, took_us)
        then()
        return took_us

    def _emulate(self, began_us: int, lasts_us: float) -> None:
        """Sleep until a batch of this length would have ended.

        The turns of the loop take time of their own. A batch that was already waiting when the
        previous one ended is therefore taken to have begun at that moment.
        """
        if self._is_busy:
            began_us = self._busy_until_us
        self._busy_until_us = began_us + round(lasts_us)
        time.sleep(max(self._busy_until_us - now_us(), 0) / 1e6)
        next_us = self._loop.core.next_work_us
        self._is_busy = next_us is not None and next_us <= self._busy_until_us

    def _turn(self) -> None:
        """Wait until a message arrives or something is due, then let the loop take a turn."""
        self._used_us, began_us = thread_us(), monotonic_us()
        self._encoded.clear()
        due_us, late_us = self._loop.next_due()
        waits_us = min(max(due_us - now_us(), 0), LONGEST_WAIT_US)
        has_more = bool(self._arrived or self._loop.reads_snapshots)
        pause_us = self._loop.core.pause_us
        arrived = self._transport.receive(
            0 if has_more else waits_us,
            self._take_heartbeat,
            pause_us=pause_us,
            late_us=max(late_us, min(pause_us, LATE_US)),
        )
        for sender in {each.sender for each in arrived if isinstance(each, FramesArrived)}:
            self._loop.core.heard(sender, now_us())
        self._arrived.extend(arrived)
        self._loop.turn(self._events())
        self._full_collections.attend(now_us())
        self._kernels.attend()
        # The clock of a thread's processor time takes long to read.
        if monotonic_us() - began_us < LONG_TURN_US:
            return
        took_us = thread_us() - self._used_us
        if took_us > LONG_TURN_US:
            self._loop.core.counters["long_turns"] += 1
            _log.info("a turn took %.0f ms of processor time", took_us / 1000)

    def _take_heartbeat(self, arrived: FramesArrived) -> bool:
        """Take a heartbeat, which needs no turn of the loop; returns whether it was one."""
        if not is_heartbeat(arrived.frames):
            return False
        core = self._loop.core
        core.heard(arrived.sender, now_us())
        try:
            heartbeat = decode(arrived.frames, core.replica_manager.schema_of)
        except WireError as error:
            self._refuse(f"a heartbeat of {arrived.sender}", error)
        else:
            assert isinstance(heartbeat, Heartbeat)
            core.on_heartbeat(arrived.sender, heartbeat)
        return True

    def _events(self) -> Iterator[Event]:
        """Decode what has arrived, one message at a time, `MESSAGES_PER_TURN` at most."""
        core = self._loop.core
        if self._loop.reads_snapshots:
            try:
                until_us = thread_us() + PREPARED_US
                prepared = self._loop.read_snapshots(lambda: thread_us() < until_us)
            except WireError as error:
                self._refuse("a snapshot", error)
            else:
                if prepared is not None:
                    yield prepared
        began_us = monotonic_us()
        for _ in range(min(len(self._arrived), MESSAGES_PER_TURN)):
            # The clock of a thread's processor time takes long to read.
            has_taken_long = monotonic_us() - began_us >= HANDLED_US
            if has_taken_long and thread_us() - self._used_us >= HANDLED_US:
                break
            arrived = self._arrived.popleft()
            if isinstance(arrived, PeerLost):
                yield arrived
                continue
            self._transport.handled(arrived)
            try:
                message = begin_decoding(arrived.frames, core.replica_manager.schema_of)
            except UnknownStream:
                # The message was under way when the stream was unassigned.
                core.counters["chunks_unasked"] += 1
            except WireError as error:
                self._refuse(f"frames from {arrived.sender}", error)
            else:
                if isinstance(message, UnreadSnapshot):
                    self._loop.prepare(arrived.sender, message.snapshot, message.log)
                elif not self._is_answered(arrived.sender, message):
                    yield MessageArrived(sender=arrived.sender, message=message)

    def _refuse(self, refused: str, error: WireError) -> None:
        kind = "compressed" if isinstance(error, CompressedRows) else "frames"
        self._loop.core.counters[f"{kind}_refused"] += 1
        _log.debug("%s refused: %s", refused, error)

    def _is_answered(self, sender: str, message: Message) -> bool:
        """Whether the answer is on its way already: taking a snapshot is not cheap."""
        return isinstance(message, SnapshotRequest) and self._transport.is_sending(
            sender, message.fragment
        )


def _log_failure(event: MessageArrived, error: Exception) -> None:
    kind = type(event.message).__name__
    _log.error("a %s from %s could not be handled", kind, event.sender, exc_info=error)


def run_host(spec: HostSpec) -> None:
    """Be the host of a Spark executor's node until the executor ends.

    The store may be away when a host starts; it is looked for until the executor ends.
    """
    spec = in_its_environment(spec)
    parent_watchdog, health = ParentWatchdog(), Health()
    with served(health):
        warm_up()
        begin_session()
        with closing(open_store(spec, parent_watchdog.parent_is_gone, health)) as store:
            host = HostProcess(spec, store, SinkDrivers(_no_sink))
            with responding_to_trials(store, host.replica_of), host.obeying_drills(EXECUTOR):
                has_left = host.run(
                    parent_watchdog.parent_is_gone, health, LeaveOrder.of_environment()
                )
        # Spark would at once start another host on the executor, which is about to end.
        give_up_s = time.monotonic() + EXECUTOR_ENDS_S
        while has_left and not parent_watchdog.parent_is_gone():
            if time.monotonic() >= give_up_s:
                return
            health.turned()
            time.sleep(LONGEST_WAIT_US / 1e6)


def open_store(spec: HostSpec, ended: Callable[[], bool], health: Health) -> ZooKeeperStore:
    """A session with the cluster's store, once ZooKeeper serves.

    Raises
    ------
    Unreachable
        It did not before `ended` said so.
    """
    while True:
        try:
            return ZooKeeperStore(spec.zookeeper, spec.cluster, spec.secret)
        except Unreachable as error:
            if ended():
                raise
            _log.info("waiting for ZooKeeper: %s", error)
            health.waits()
            time.sleep(LONGEST_WAIT_US / 1e6)


def _no_sink(assignment: SinkAssignment) -> OpenSink:
    raise AssertionError(f"an executor was assigned the sink of {assignment.stream}")
