"""A simulated host: the product's `HostLoop` on virtual links, with a virtual clock.

A process can be killed, stopped for a while (SIGSTOP) and made slow. While it is stopped, what
arrives queues up and its session with the store ends when it times out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from ha.messages import Heartbeat, Message, Snapshot
from orchestrator.edges.sinks.sink_drivers import SinkDrivers
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.host.core.core import Worked
from orchestrator.host.core.events import Event, MessageArrived, Report
from orchestrator.host.core.hosted_streams import HostedSource
from orchestrator.host.shell.loop import HostLoop, Surroundings, host_identity
from orchestrator.host.shell.name_claim import Claimed
from orchestrator.host.shell.pace import StatePace
from orchestrator.host.shell.trial import run_trial
from orchestrator.host.shell.trial_responses import TrialResponses
from orchestrator.host.shell.wire import UnknownStream, decode
from orchestrator.records import HostSpec, NodeKind, Peer
from orchestrator.records.versions import Versions, this_version
from orchestrator.simulation.world.clocks import HostClock, ticking
from orchestrator.simulation.world.memory_store import MemoryStore, OutOfWrites
from orchestrator.store.protocol import ASSIGNMENTS, TRIALS, StoreError
from streams.vectors.chunk import Chunk, Position

if TYPE_CHECKING:
    from orchestrator.simulation.world.world import World

RETRY_US = 200_000
"""Time between two attempts while the store is unavailable."""

LOOK_US = 2_000_000
"""A host looks at the store this often even if no watch has fired."""

TRIAL_US = 1_000_000
"""How long a trial of statements lasts."""

Entered = Callable[["SimulatedHost", HostedSource, list[Chunk]], None]
"""Takes the chunks that a source has numbered in a turn of its host."""

MOST_TURNS = 1_000
"""A host that takes more turns at one moment never rests."""


class HostNeverRests(Exception):
    """A host always finds something to do, and does nothing."""


class SimulatedHost:
    """One life of one host: a `HostLoop` on virtual links.

    Attributes
    ----------
    peers
        The hosts that this host accepts messages from, and sends messages to.
    versions
        What the process understands.
    clock
        The host's own clock.
    alive
        False as soon as the process has ended, whatever the reason.
    paused
        True while the process is stopped.
    slowness
        Factor by which evaluation takes longer.
    wants
        Streams to ask for (observers only).
    counters
        Messages sent and turns taken.
    """

    def __init__(
        self,
        world: World,
        spec: HostSpec,
        store: MemoryStore,
        claimed: Claimed,
        wants: tuple[str, ...] = (),
        versions: Versions | None = None,
    ) -> None:
        self.spec = spec
        self.versions = versions or this_version()
        self.wants = wants
        self.incarnation = claimed.incarnation
        self.store = store
        self.peers: dict[str, Peer] = {}
        self.clock = HostClock(world.machine_of(spec.node))
        self.alive = True
        self.paused = False
        self.slowness = 1.0
        self.counters: Counter[str] = Counter()
        surroundings = Surroundings(
            clock_us=self.clock.now_us,
            anchor_us=self.clock.anchor_us,
            send=self._send,
            set_peers=self._set_peers,
            sinks=SinkDrivers(lambda assignment: world.open_sink(spec.node, assignment)),
            report=lambda report: world.log(spec.node, report),
            checkpoints=world.checkpoints.driver(
                lambda: self.alive, lambda: self.schedule(world.now_us)
            ),
            sources=SourceContext(
                site=spec.node,
                check_claim=world.disks.claim(spec.node, claimed.incarnation),
                save=world.checkpoints.folders[1].put,
            ),
            finish=self._finish,
            link_counters=self.counters,
        )
        identity = host_identity(
            spec,
            claimed.incarnation,
            f"sim://{spec.node}",
            machine=self.clock.boot,
            clock_ahead_us=self.clock.anchor_us,
            wants=wants,
        )
        identity = msgspec.structs.replace(identity, versions=self.versions)
        self._loop = HostLoop(surroundings, world.cluster, self.store, identity, claimed)
        self._world = world
        rate_bytes_s = world.cluster.state_rate_bytes_s
        self._paces = [] if rate_bytes_s is None else [StatePace(rate_bytes_s)]
        self._inbox: list[Event] = []
        self._results: list[Callable[[], None]] = []
        self._next_step_us = 0
        self._busy_until_us = self._next_check_us = 0
        self._next_run_us: int | None = None
        self._last_run_us = self._turns = 0
        self._entered: dict[str, Position] = {}
        self._next_exchange_us: int | None = None
        self.core = self._loop.core
        self.link = self._loop.link
        self._trials = TrialResponses(
            store, claimed.replica_of, lambda trial: run_trial(trial, ticking())
        )

    def start(self) -> None:
        """Begin to take turns, and to exchange with the store."""
        self.link.nudge = self._exchange_soon
        self.store.watch(ASSIGNMENTS.key(self.spec.node), self._exchange_soon)
        self.store.on_state(lambda _: self._exchange_soon())
        if self.spec.kind is NodeKind.EXECUTOR:
            self.store.watch(TRIALS, self._try_soon)
        self._exchange_at(self._world.now_us)
        self.schedule(self._world.now_us)

    @property
    def runs(self) -> bool:
        """Whether the process lives and is not stopped."""
        return self.alive and not self.paused

    def arrive(self, event: Event) -> None:
        """Have an event handled in the next turn, a heartbeat at once."""
        if self.alive:
            if isinstance(event, MessageArrived) and self.runs:
                self.core.heard(event.sender, self.clock.now_us())
                if isinstance(event.message, Heartbeat):
                    self.core.on_heartbeat(event.sender, event.message)
                    return
            self._inbox.append(event)
            pause_us = self.core.pause_us if self._world.gathers else 0
            self.schedule(self._world.now_us + pause_us)

    def arrive_frames(self, sender: str, frames: list[bytes]) -> None:
        """Decode a message, and have it handled in the next turn."""
        try:
            message = decode(frames, self.core.replica_manager.schema_of)
        except UnknownStream:
            self.core.counters["chunks_unasked"] += 1
        else:
            self.arrive(MessageArrived(sender=sender, message=message))

    def schedule(self, when_us: int) -> None:
        """Take a turn at `when_us`, or as soon after that as the host is not busy."""
        when_us = max(when_us, self._busy_until_us, self._world.now_us)
        if self._next_run_us is not None and self._next_run_us <= when_us:
            return
        self._next_run_us = when_us
        # Events that arrive at the same moment are handled in the same turn.
        self._world.at(when_us, lambda: self._run(when_us), last=True)

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does."""
        self.paused = True

    def resume(self) -> None:
        """Let the process go on."""
        self.paused = False
        results, self._results = self._results, []
        for then in results:
            then()
        self._next_run_us = None
        self.schedule(self._world.now_us)
        self._exchange_soon()
        self._try_soon()

    def reschedule(self) -> None:
        """Compute the next turn anew, after the clock's rate has changed."""
        self._next_run_us = None
        self.schedule(self._next_turn_us())

    def exchange(self) -> None:
        """Exchange records with the store."""
        if not self.runs:
            return
        next_us = self._world.now_us + LOOK_US
        try:
            self.link.exchange()
            if self.link.bug is not None:
                self._break(self.link.bug)
                return
            if self.link.retry_s:
                next_us = self._world.now_us + round(self.link.retry_s * 1e6)
        except StoreError as error:
            next_us = self._world.now_us + RETRY_US
            self._world.log(
                self.spec.node,
                Report(kind="store", subject=type(error).__name__, detail=str(error)),
            )
        except OutOfWrites:
            self._world.kill(self.spec.node)
            return
        if self.link.events:
            self.schedule(self._world.now_us)
        if self.link.superseded:
            self._leave()
            return
        self._exchange_at(next_us)

    def shut_down(self) -> None:
        """End in order."""
        if self.runs:
            self._loop.execute(self.core.shut_down())
            self._leave()

    def leave(self, within_us: int) -> None:
        """Have everything here go elsewhere, and end."""
        if self.runs:
            self._loop.leave(within_us)
            self._world.at(self._world.now_us + within_us, self._leave_in_order)

    def _leave_in_order(self) -> None:
        if self.runs and self._loop.has_left:
            self._world.on_kill(self)
            self.shut_down()

    def release(self) -> None:
        """Release the files of the process, as the operating system does at its end."""
        self._loop.close()

    def _leave(self) -> None:
        """End as `HostProcess.run` does when another process has claimed the host's name."""
        try:
            with suppress(StoreError):
                self.link.withdraw()
        except OutOfWrites:
            self._world.kill(self.spec.node)
            return
        self.alive = False
        self.store.close()
        self.release()
        self._world.log(self.spec.node, Report(kind="left", subject=self.spec.node, detail=""))

    def _try_soon(self) -> None:
        """Have the trials that are asked for done a moment later, beside all else."""
        self._world.at(self._world.now_us + TRIAL_US, self._try)

    def _try(self) -> None:
        if not self.runs:
            return
        try:
            self._trials.respond()
        except StoreError:
            # The watch calls again once the store is back.
            return
        except OutOfWrites:
            self._world.kill(self.spec.node)

    def _exchange_soon(self) -> None:
        self._exchange_at(self._world.now_us + self._world.watch_delay_us())

    def _exchange_at(self, when_us: int) -> None:
        if self._next_exchange_us is not None and self._next_exchange_us <= when_us:
            return
        self._next_exchange_us = when_us
        self._world.at(when_us, lambda: self._due_exchange(when_us))

    def _due_exchange(self, scheduled_us: int) -> None:
        if self._next_exchange_us == scheduled_us:
            self._next_exchange_us = None
            self.exchange()

    def _run(self, scheduled_us: int) -> None:
        # If an earlier turn has been scheduled since, that one counts.
        if not self.runs or self._next_run_us != scheduled_us:
            return
        self._next_run_us = None
        inbox, self._inbox = self._inbox, []
        self.counters["turns"] += 1
        try:
            self._count_turn()
            self._loop.turn(self._events(inbox))
            if self._world.on_entered is not None and self.core.replica_manager.sources:
                self._tell_entered(self._world.on_entered)
            if self._world.check_invariants and self._world.now_us >= self._next_check_us:
                self._next_check_us = self._world.now_us + self._world.check_every_us
                self.core.check_invariants()
        except Exception as error:  # noqa: BLE001  A bug may be anything.
            self._break(error)
            return
        if self._loop.has_left:
            self._leave_in_order()
        self.schedule(self._next_turn_us())

    def _tell_entered(
        self, tell: Callable[[SimulatedHost, HostedSource, list[Chunk]], None]
    ) -> None:
        """Tell what the sources have numbered in this turn."""
        for stream, source in self.core.replica_manager.sources.items():
            known = self._entered.get(stream)
            if source.log.end == known:
                continue
            self._entered[stream] = source.log.end
            fresh: list[Chunk] = []
            for chunk in reversed(source.log.chunks()):
                if known is not None and chunk.watermark_ms <= known.watermark_ms:
                    break
                fresh.insert(0, chunk)
            tell(self, source, fresh)

    def _count_turn(self) -> None:
        now_us = self._world.now_us
        self._turns = self._turns + 1 if now_us == self._last_run_us else 0
        self._last_run_us = now_us
        if self._turns > MOST_TURNS:
            raise HostNeverRests(f"{self._turns} turns at {now_us} µs")

    def _next_turn_us(self) -> int:
        due_us = self.clock.world_time_us(self._loop.next_due_us)
        return min(due_us, self._next_step_us) if self._loop.reads_snapshots else due_us

    def _events(self, inbox: list[Event]) -> Iterator[Event]:
        """What has arrived; the states of snapshots are read in steps, as `HostProcess` does."""
        if self._loop.reads_snapshots and self._world.now_us >= self._next_step_us:
            self._next_step_us = self._world.now_us + self._world.step_us
            if (prepared := self._loop.read_snapshots()) is not None:
                yield prepared
        for event in inbox:
            if isinstance(event, MessageArrived) and isinstance(event.message, Snapshot):
                self._loop.prepare(event.sender, event.message)
            else:
                yield event

    def _break(self, error: Exception) -> None:
        """Tell of a bug; in the real world most bugs end the process."""
        if self._world.on_broken is None:
            raise error
        self._world.on_broken(self, error)

    def _send(self, to: str, message: Message) -> None:
        self.counters["messages_sent"] += 1
        if isinstance(message, Snapshot):
            rate_bytes_s = self.core.state_rate_bytes_s(message.fragment)
            own = [] if rate_bytes_s is None else [StatePace(rate_bytes_s)]
            self._world.transmit_bulk(self, to, message, [*self._paces, *own])
        else:
            self._world.transmit(self, to, message)

    def _set_peers(self, peers: tuple[Peer, ...]) -> None:
        self.peers = {peer.node: peer for peer in peers}

    def _finish(self, worked: Worked, began_us: int, then: Callable[[], None]) -> float:
        """Draw how long a batch takes; until then the host is busy and holds its output back."""
        if not worked.commands and worked.fragment is None:
            return 0.0
        took_us = self._world.costs.of(worked, self._world.cost_rng)
        took_us = round(took_us * self.slowness)
        self._busy_until_us = self._world.now_us + took_us
        self._world.at(self._busy_until_us, lambda: self._finished(then))
        return took_us

    def _finished(self, then: Callable[[], None]) -> None:
        if self.paused:
            self._results.append(then)
        elif self.alive:
            then()
