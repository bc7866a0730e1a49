"""Sends two hosts random frames and mutated valid ones, under keys that they accept.

A site and a node run a query between them: real `HostProcess`es on loopback, with a store in
memory. Two more processes of the cluster go wrong and send whatever they can. `stranger` has
nothing to do with any stream; `partner` has the peer replicas of two further fragments on the node
and produces their input, so that its frames get past the first checks. Meanwhile the query's
output must go on, each tuple once.

`make fuzz SECONDS=60`, or `python -m scripts.fuzz SECONDS [SEED]`. The exit status is 1 if a host
ended, a message raised an error in one, the output stopped or was wrong, or memory grew.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import zmq
from pyarrow import parquet
from rich.console import Console

from orchestrator.clock import anchor_us, now_us
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.sink_drivers import HandingSink, SinkDrivers
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.host.shell.process import HostProcess
from orchestrator.host.shell.transport import KeyPair, Transport
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    HostSpec,
    NodeKind,
    Peer,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import ASSIGNMENTS, CLUSTER, NODES
from scripts.fuzz_messages import COLUMNS, Messages, fragment

EVERY_MS = 10
HOSTS = ("edge", "worker")
WRONG = ("stranger", "partner")

WARM_UP_S = 2.0
"""Time in which the hosts reach the memory that they need anyway."""

SILENCE_S = 10.0
"""Longest pause of the output that counts as service: machines may be busy."""

MORE_MEMORY_MB = 100
"""What allocators may keep, and what one message being joined may take."""

BURST = 50
"""Messages between two looks at the clock."""


class Host:
    """A host process on a thread; counts the tuples that its sink is handed."""

    def __init__(self, server: MemoryServer, node: str, kind: NodeKind) -> None:
        self.store = server.connect()
        self.numbers: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._ended = threading.Event()
        self._next = 0
        sinks = SinkDrivers(lambda _: HandingSink(self._deliver))
        spec = HostSpec(cluster="c", node=node, kind=kind, region="", zookeeper="", secret="")
        self._process = HostProcess(spec, self.store, sinks)
        self.thread = threading.Thread(target=self._run, name=node)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._process.run(self._ended.is_set)
        except BaseException as error:  # noqa: BLE001  It is reported as the finding.
            self.error = error

    def _deliver(self, delivery: Deliver) -> None:
        for number in delivery.chunk.rows.column("number").to_pylist():
            self.numbers["delivered"] += 1
            self.numbers["wrong"] += number != self._next
            self._next = number + 1

    def end(self) -> None:
        """End the host, unless it has ended."""
        self._ended.set()
        self._process.wake()
        self.thread.join(timeout=30)
        self.store.close()


class Wrong:
    """A process of the cluster that has gone wrong."""

    def __init__(self, node: str) -> None:
        self.keys = KeyPair.generate()
        self.transport = Transport(node, self.keys, "127.0.0.1", now_us)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []

    def connect(self, peers: tuple[Peer, ...]) -> None:
        """Be linked with all hosts, and able to send each of them anything."""
        self.transport.set_peers(peers)
        for peer in peers:
            if peer.node in HOSTS:
                dealer = self._context.socket(zmq.DEALER)
                dealer.setsockopt(zmq.LINGER, 0)
                dealer.setsockopt(zmq.SNDHWM, 100)
                dealer.curve_serverkey = peer.public_key.encode()
                dealer.curve_publickey = self.keys.public
                dealer.curve_secretkey = self.keys.secret
                dealer.connect(peer.endpoint)
                self._sockets.append(dealer)

    def send(self, rng: random.Random, bundle: list[bytes]) -> bool:
        """Send one of the hosts a bundle; returns False if it does not keep up."""
        try:
            rng.choice(self._sockets).send_multipart(bundle, flags=zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Close all sockets."""
        self.transport.close()
        self._context.destroy(0)


@dataclass(slots=True)
class Findings:
    """What fuzzing has shown."""

    seconds: float = 0.0
    frames: int = 0
    delivered: int = 0
    before_mb: float = 0.0
    after_mb: float = 0.0
    counters: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])

    @property
    def refusals(self) -> dict[str, int]:
        """What the hosts refused, by kind."""
        return {name: n for name, n in sorted(self.counters.items()) if name.endswith("_refused")}


def fuzz(seconds: float, seed: int = 0) -> Findings:
    """Send frames for some seconds; say what came of it."""
    rng = random.Random(seed)
    messages = Messages(rng)
    found = Findings()
    server = MemoryServer()
    store = server.connect()
    store.create(CLUSTER, ClusterRecord(name="c", delays_ms={}))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vivace-fuzz-")))
        edge = Host(server, "edge", NodeKind.SITE)
        stack.callback(edge.end)
        worker = Host(server, "worker", NodeKind.EXECUTOR)
        stack.callback(worker.end)
        wrong = [Wrong(node) for node in WRONG]
        for each in wrong:
            stack.callback(each.close)
        while not all(store.get(NODES.key(node)) for node in HOSTS):
            time.sleep(0.05)
        peers = _peers(store, wrong)
        for each in wrong:
            each.connect(peers)
        _assign(store, peers, folder, seconds + WARM_UP_S + 3 * SILENCE_S)
        _wait(lambda: edge.numbers["delivered"] > 0, found, "no output before the first frame")
        time.sleep(WARM_UP_S)
        found.before_mb = _memory_mb()
        began = heard = time.monotonic()
        delivered = 0
        while (now := time.monotonic()) - began < seconds:
            for _ in range(BURST):
                bundle = messages.bundle()
                if rng.choice(wrong).send(rng, bundle):
                    found.frames += len(bundle)
                else:
                    time.sleep(0.001)
            for each in wrong:
                each.transport.receive(0)
            if edge.numbers["delivered"] > delivered:
                delivered, heard = edge.numbers["delivered"], now
            elif now - heard > SILENCE_S:
                found.faults.append(f"no output for {SILENCE_S:g} s")
                break
            if not (edge.thread.is_alive() and worker.thread.is_alive()):
                break
        found.seconds = time.monotonic() - began
        delivered = edge.numbers["delivered"]
        _wait(lambda: edge.numbers["delivered"] > delivered, found, "no output afterwards")
        time.sleep(1.5)
        gc.collect()
        found.after_mb = _memory_mb()
        _judge(found, store, edge, worker)
    return found


def _judge(found: Findings, store: MemoryStore, edge: Host, worker: Host) -> None:
    for node, host in zip(HOSTS, (edge, worker), strict=True):
        record = store.get(NODES.key(node))
        if not host.thread.is_alive():
            found.faults.append(f"{node} ended: {host.error!r}")
        if record is not None:
            found.counters.update(record.record.counters)
    found.delivered = edge.numbers["delivered"]
    if edge.numbers["wrong"]:
        found.faults.append(f"{edge.numbers['wrong']} tuples lost, repeated or out of order")
    if found.counters["messages_failed"]:
        found.faults.append(f"{found.counters['messages_failed']} messages raised errors")
    if found.after_mb - found.before_mb > MORE_MEMORY_MB:
        found.faults.append(f"memory grew by more than {MORE_MEMORY_MB} MB")


def _wait(until: Callable[[], bool], found: Findings, fault: str) -> None:
    deadline = time.monotonic() + SILENCE_S
    while not until():
        if time.monotonic() > deadline:
            found.faults.append(fault)
            return
        time.sleep(0.05)


def _memory_mb() -> float:
    return psutil.Process().memory_info().rss / 1e6


def _peers(store: MemoryStore, wrong: list[Wrong]) -> tuple[Peer, ...]:
    made: list[Peer] = []
    for node in HOSTS:
        found = store.get(NODES.key(node))
        assert found is not None
        record = found.record
        made.append(
            Peer(
                node=node,
                incarnation=record.incarnation,
                endpoint=record.endpoint,
                public_key=record.public_key,
                delay_ms=0.0,
            )
        )
    made += [
        Peer(
            node=each.transport.node,
            incarnation="1",
            endpoint=each.transport.endpoint,
            public_key=each.keys.public.decode(),
            delay_ms=0.0,
        )
        for each in wrong
    ]
    return tuple(made)


def _assign(store: MemoryStore, peers: tuple[Peer, ...], folder: Path, lasts_s: float) -> None:
    """`f` passes on `s`, undisturbed; `g` and `h` have their peer replicas at `partner`."""
    path = folder / "s.parquet"
    timestamps = list(range(EVERY_MS, round(lasts_s * 1000), EVERY_MS))
    columns = {
        "timestamp": timestamps,
        "number": list(range(len(timestamps))),
        "name": [str(timestamp) for timestamp in timestamps],
    }
    parquet.write_table(pa.Table.from_pydict(columns), path)
    replay = Replay(path=str(path), begin_ms=0, end_ms=timestamps[-1], interval_ms=EVERY_MS)
    source = SourceAssignment(
        stream="s",
        columns=COLUMNS,
        source=spec_of("replay", replay),
        start_at_us=now_us() + 500_000,
    )
    sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100.0)
    for peer in peers[:2]:
        at_edge = peer.node == "edge"
        fragments = (
            fragment("f", "s", "primary"),
            fragment("g", "t", "primary"),
            fragment("h", "t", "secondary"),
        )
        assignment = Assignment(
            incarnation=peer.incarnation,
            clock_ahead_us=anchor_us(),
            fragments=() if at_edge else fragments,
            sources=(source,) if at_edge else (),
            sinks=(sink,) if at_edge else (),
            producers={"f": ("worker",)} if at_edge else {"s": ("edge",), "t": ("partner",)},
            consumers={"s": ("worker",)}
            if at_edge
            else {"f": ("edge",), "g": ("partner",), "h": ("partner",)},
            peers=peers,
        )
        store.create(ASSIGNMENTS.key(peer.node), assignment)


def main() -> int:
    """Run it from the command line."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
    console = Console(soft_wrap=True)
    console.print(f"Sending frames for {seconds:g} s, seed {seed}")
    found = fuzz(seconds, seed)
    console.print(
        f"{found.frames / max(found.seconds, 1e-3):,.0f} frames a second, "
        f"{found.delivered} tuples delivered meanwhile, "
        f"memory {found.before_mb:.0f} MB before, {found.after_mb:.0f} MB after"
    )
    for name, times in found.refusals.items():
        console.print(f"  {times:9,} {name}")
    for fault in found.faults:
        console.print(f"! {fault}", style="bold red")
    if not found.faults:
        console.print("✓ no host ended, the output went on, memory stayed")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
