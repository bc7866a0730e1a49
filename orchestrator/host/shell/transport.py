"""Links between hosts: ZeroMQ sockets, authenticated by CURVE, with the delays of a WAN.

Every host binds one ROUTER socket, on which it only receives, and connects one DEALER socket to
each peer, on which it only sends. The peers, their keys and endpoints come from the store
(`SetPeers`). A connection with any other key is refused (RFC 27, ZAP). Messages are attributed to
the owner of the key they arrived under.

*Bundles.* All messages sent to a peer between two calls of `flush` (`receive` calls it first)
travel together, in one multipart message (`orchestrator.host.shell.bundles`).

*Parts.* A message of more than `PART_BYTES` travels in numbered parts
(`orchestrator.host.shell.parts`), which the receiver joins. A bulky message that nothing depends on
the order of, a snapshot, is sent at the receiver's pace, a few parts at a time, so that it delays
no other message (`send_bulk`).

*Bounds.* Credit bounds the data that a peer may send (`ha.messages`). Faults may bring more: what
was sent before a connection broke is sent again, and a peer that has stopped takes nothing. Data is
therefore dropped and counted beyond `unheard_bytes` for a peer that is not heard meanwhile, and
beyond `transit_bytes` of messages that have arrived and are not handled. Whoever lacks it asks
again. Other messages are never dropped for that; they are small, and heartbeats among them.

*Delays.* What arrives is held back until it would arrive over the links that one machine stands for
(`orchestrator.host.shell.link_shaper`). A broken connection is reported with the same delay, as it
would be over a real link. A drill may cut a link for a while: then the receiver drops whatever
comes over it (`orchestrator.host.core.link_faults`).
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from ha.memory import MemoryBudget
from orchestrator.clock import thread_us
from orchestrator.host.core.events import PeerLost
from orchestrator.host.core.link_faults import link_delay_us
from orchestrator.host.shell.addresses import endpoint
from orchestrator.host.shell.bundles import PART_FLAG, head, opened
from orchestrator.host.shell.link_shaper import LinkShaper
from orchestrator.host.shell.pace import StatePace
from orchestrator.host.shell.parts import IN_ORDER, PART_BYTES, BulkLane, Joiner, parts
from orchestrator.host.shell.wire import is_data
from orchestrator.records import DEFAULT_MEMORY_BYTES, Peer
from orchestrator.records.versions import WIRE_VERSION

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Larger frames are refused. Legitimate ones are far smaller, and memory is finite."""

PARTS_PER_FLUSH = 4
"""Most parts of a bulky message that are made at once."""

FLUSHED_US = 5_000
"""Processor time after which a flush makes no second part of a bulky message for a peer. Making a
part takes a millisecond, and several if it contains groups or texts. Time in which other processes
have the processor does not count: a state would hardly move on a machine that is too busy."""

HIGH_WATER_MARK = 50_000
"""Most bundles queued for one peer, then bundles are dropped. Data is bounded in bytes before: this
bounds the control messages for a peer that has stopped, of many minutes."""

HANDSHAKE_MS = 300
"""A connection that is not authenticated after this time is tried again. A peer that connects
before this host knows its key is refused silently, and would otherwise wait for libzmq's 30 s."""

ZAP_ENDPOINT = "inproc://zeromq.zap.01"

DEFAULT_BUDGET = MemoryBudget(DEFAULT_MEMORY_BYTES)

_log = logging.getLogger("vivace.host")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A host's CURVE key pair, Z85."""

    public: bytes
    secret: bytes = field(repr=False)

    @staticmethod
    def generate() -> KeyPair:
        """A new pair: every process creates its own and publishes only the public half."""
        return KeyPair(*zmq.curve_keypair())


@dataclass(frozen=True, slots=True)
class FramesArrived:
    """Frames that a peer sent.

    Attributes
    ----------
    data_bytes
        Length of all frames if they are data, else 0: states are no part of the budget.
    """

    sender: str
    frames: list[bytes]
    data_bytes: int = 0


@dataclass(slots=True)
class Outlet:
    """The sending side of a link.

    Attributes
    ----------
    frames, lengths, size
        Frames of all messages that `flush` will send, the number of frames of each message, and the
        length of all frames together.
    bulk, joiner
        Bulky messages to the peer; parts of messages from it.
    in_parts
        Number of messages sent in parts so far.
    unheard_bytes
        What was sent since a message came from the peer: it may have stopped, and queue all of it.
    last_due_us
        When the last message from the peer was, or will be, delivered.
    """

    peer: Peer
    socket: zmq.Socket[bytes]
    monitor: zmq.Socket[bytes]
    bulk: BulkLane
    joiner: Joiner
    established: bool = False
    frames: list[bytes] = field(default_factory=list[bytes])
    lengths: list[int] = field(default_factory=list[int])
    size: int = 0
    in_parts: int = 0
    unheard_bytes: int = 0
    last_due_us: int = 0


class Transport:
    """All links of one host. Not thread-safe, except for `wake`.

    Parameters
    ----------
    node
        The host's name.
    keys
        Its key pair.
    address
        Interface to bind to.
    clock_us
        The machine's monotonic clock. Emulated links lead to hosts of the same machine.
    used_us
        The processor time that this thread has used, µs.
    budget
        Of the host's queues.
    advertised
        The address that peers are told (`orchestrator.host.shell.addresses`); by default `address`.
    pace
        Of bulky messages; by default that of their receivers.

    Attributes
    ----------
    transit_bytes
        Data that has arrived and is not handled yet.
    """

    def __init__(
        self,
        node: str,
        keys: KeyPair,
        address: str,
        clock_us: Callable[[], int],
        used_us: Callable[[], int] = thread_us,
        budget: MemoryBudget = DEFAULT_BUDGET,
        advertised: str | None = None,
        pace: StatePace | None = None,
        port: int = 0,
    ) -> None:
        self.node = node
        self.transit_bytes = 0
        self._pace = pace or StatePace()
        self._budget = budget
        self.counters: Counter[str] = Counter()
        self._keys = keys
        self._clock_us = clock_us
        self._used_us = used_us
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._outlets: dict[str, Outlet] = {}
        self._owners: dict[bytes, str] = {}
        self._shaper = LinkShaper[FramesArrived | PeerLost]()
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        # The authenticator must be there before the first socket that asks it.
        self._zap = self._context.socket(zmq.REP)
        self._zap.bind(ZAP_ENDPOINT)
        self._router = self._context.socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.setsockopt(zmq.RCVHWM, HIGH_WATER_MARK)
        self._router.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME_BYTES)
        self._router.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        self._router.setsockopt(zmq.ZAP_DOMAIN, b"vivace")
        self._router.curve_server = True
        self._router.curve_publickey = keys.public
        self._router.curve_secretkey = keys.secret
        self._router.ipv6 = ":" in address
        self._router.bind(endpoint(address, port or "*"))
        bound = self._router.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2]
        self.endpoint = endpoint(advertised or address, bound)
        self._poll = select.poll()
        self._ears: dict[int, Callable[[], None]] = {}
        self._listen_to(self._zap.fileno(), self._authenticate)
        self._listen_to(self._router.fileno(), self._drain_router)
        self._listen_to(self._woken.fileno(), self._drain_waker)

    def set_peers(self, peers: Sequence[Peer]) -> None:
        """Keep links to exactly these hosts."""
        wanted = {peer.node: peer for peer in peers if peer.node != self.node}
        for node, outlet in list(self._outlets.items()):
            peer = wanted.get(node)
            if peer is None or peer.incarnation != outlet.peer.incarnation:
                self._close(self._outlets.pop(node))
            else:
                outlet.peer = peer
        self._owners = {peer.public_key.encode(): node for node, peer in wanted.items()}
        for node, peer in wanted.items():
            if node not in self._outlets:
                try:
                    self._outlets[node] = self._open(peer)
                except zmq.ZMQError:
                    # Its record is of its own making. Nobody else may suffer from that.
                    self.counters["unusable_addresses"] += 1
                    _log.warning("%s cannot be reached at %r", node, peer.endpoint)

    def wire_to(self, to: str) -> int:
        """The wire that the link to a peer speaks; of unknown peers, of which nothing is sent."""
        outlet = self._outlets.get(to)
        return WIRE_VERSION if outlet is None else outlet.peer.wire

    def send(self, to: str, frames: list[bytes], *, is_data: bool = False) -> None:
        """Have the next `flush` send a message to a peer, unless it is data and too much waits.

        Messages to unknown peers are dropped and counted: the peer has just left, and requests are
        repeated.
        """
        outlet = self._outlets.get(to)
        if outlet is None:
            self.counters["sends_to_unknown_peer"] += 1
            return
        size = sum(map(len, frames))
        waiting_bytes = outlet.unheard_bytes + outlet.size
        if is_data and not _has_room(size, waiting_bytes, self._budget.unheard_bytes):
            self.counters["sends_to_full_queue"] += 1
            return
        self.counters["link_bytes_sent"] += size
        if outlet.size + size > PART_BYTES:
            self._flush(outlet)
        if size <= PART_BYTES:
            outlet.frames += frames
            outlet.lengths.append(len(frames))
            outlet.size += size
            return
        outlet.in_parts += 1
        for part in parts(IN_ORDER, outlet.in_parts, frames):
            self._send_part(outlet, part)

    def send_bulk(
        self, to: str, key: str, frames: Iterable[bytes], pace: StatePace | None = None
    ) -> None:
        """Send a message at the peer's pace, while others overtake it.

        Parameters
        ----------
        to
            The peer.
        key
            While a message of the same key is on its way to the peer, another is dropped.
        frames
            Taken one after the other, when they are sent.
        pace
            Of this message, beside that of all.
        """
        outlet = self._outlets.get(to)
        if outlet is None:
            self.counters["sends_to_unknown_peer"] += 1
            return
        outlet.bulk.send(key, frames, pace)

    def is_sending(self, to: str, key: str) -> bool:
        """Whether a bulky message of this key is on its way to a peer."""
        outlet = self._outlets.get(to)
        return outlet is not None and outlet.bulk.is_sending(key)

    def flush(self) -> None:
        """Send all waiting messages, and some parts of bulky ones."""
        for outlet in self._outlets.values():
            self._flush(outlet)
        ready = (outlet for outlet in self._outlets.values() if outlet.bulk.ready)
        bulky = sorted(ready, key=lambda outlet: outlet.bulk.turn)
        until_us = self._used_us() + FLUSHED_US if bulky else 0
        for outlet in bulky:
            now_us = self._clock_us()
            if not self._pace.allows(now_us):
                break
            for part in outlet.bulk.due(now_us, PARTS_PER_FLUSH):
                self._send_part(outlet, part)
                self._pace.spend(sum(map(len, part)), now_us)
                if self._used_us() >= until_us or not self._pace.allows(now_us):
                    break

    def _bulk_due_us(self) -> int | None:
        """When a part of a bulky message may be sent; None: none waits."""
        lanes = [outlet.bulk for outlet in self._outlets.values() if outlet.bulk.ready]
        return min((max(lane.free_us, self._pace.free_us) for lane in lanes), default=None)

    def _flush(self, outlet: Outlet) -> None:
        if outlet.lengths:
            self._send_bundle(outlet, outlet.lengths, outlet.frames)
            outlet.frames, outlet.lengths, outlet.size = [], [], 0

    def _send_part(self, outlet: Outlet, part: list[bytes]) -> None:
        if not self._send_bundle(outlet, [len(part) | PART_FLAG], part):
            outlet.bulk.give_up()

    def _send_bundle(self, outlet: Outlet, lengths: list[int], frames: list[bytes]) -> bool:
        first = head(self._clock_us(), lengths)
        try:
            outlet.socket.send_multipart([first, *frames], flags=zmq.DONTWAIT)
        except zmq.Again:
            self.counters["sends_to_full_queue"] += len(lengths)
            return False
        size = sum(map(len, frames))
        outlet.unheard_bytes += size
        self.counters["messages_sent"] += len(lengths)
        self.counters["bytes_sent"] += size
        return True

    def receive(
        self,
        timeout_us: int,
        take: Callable[[FramesArrived], bool] = lambda _: False,
        *,
        pause_us: int = 0,
        late_us: int = 0,
    ) -> list[FramesArrived | PeerLost]:
        """Messages due now, in order of arrival; waits at most `timeout_us` for the first.

        Parameters
        ----------
        take
            Called with each message; returns whether it has dealt with it. Then waiting goes on.
        pause_us
            How long messages may gather before it looks for them; `wake` does not end that. Looking
            costs as much as taking several messages.
        late_us
            How much longer than `timeout_us` it may wait: with a millisecond, it waits once where
            it would otherwise wait again for the part that is less than one.
        """
        self.flush()
        until_us = self._clock_us() + timeout_us
        while True:
            bulky_us = self._bulk_due_us()
            if bulky_us is not None and bulky_us <= self._clock_us():
                latest_us = 0
            else:
                gathers_us = min(pause_us, until_us - self._clock_us())
                if gathers_us > 0:
                    time.sleep(gathers_us / 1e6)
                due_us = self._shaper.next_due_us
                latest_us = until_us + late_us
                if due_us is not None:
                    latest_us = min(latest_us, due_us)
                if bulky_us is not None:
                    latest_us = min(latest_us, bulky_us)
            next_us = min(until_us, latest_us)
            woken = self._listen(next_us - self._clock_us(), latest_us - next_us)
            due = self._shaper.due(self._clock_us())
            items = [each for each in due if isinstance(each, PeerLost) or not take(each)]
            if items or woken or self._clock_us() >= until_us:
                return items
            self.flush()

    def wake(self) -> None:
        """Make a waiting `receive` return at once; may be called from any thread."""
        # If the pipe is full, `receive` has been woken already. After `close` nobody waits.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def close(self, linger_ms: int = 0) -> None:
        """Close every link; what was flushed may take `linger_ms` to leave."""
        for outlet in self._outlets.values():
            self._close(outlet, linger_ms)
        self._outlets.clear()
        self._router.close(0)
        self._zap.close(0)
        self._context.destroy()
        self._waker.close()
        self._woken.close()

    def _open(self, peer: Peer) -> Outlet:
        dealer = self._context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
        dealer.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        dealer.setsockopt(zmq.IPV6, 1)
        dealer.setsockopt(zmq.RECONNECT_IVL, 20)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        dealer.curve_publickey = self._keys.public
        dealer.curve_secretkey = self._keys.secret
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        monitor = dealer.get_monitor_socket(events)
        try:
            dealer.curve_serverkey = peer.public_key.encode()
            dealer.connect(peer.endpoint)
        except zmq.ZMQError:
            dealer.disable_monitor()
            monitor.close(0)
            dealer.close(0)
            raise
        outlet = Outlet(
            peer=peer,
            socket=dealer,
            monitor=monitor,
            bulk=BulkLane(self.counters),
            joiner=Joiner(self.counters),
        )
        self._listen_to(monitor.fileno(), lambda: self._drain_monitor(outlet))
        return outlet

    def _close(self, outlet: Outlet, linger_ms: int = 0) -> None:
        self.counters["sends_to_unknown_peer"] += len(outlet.lengths)
        monitor = outlet.monitor.fileno()
        self._poll.unregister(monitor)
        del self._ears[monitor]
        outlet.socket.disable_monitor()
        outlet.monitor.close(0)
        outlet.socket.close(linger_ms)

    def _listen_to(self, ear: int, drain: Callable[[], None]) -> None:
        """Have `drain` called when a file descriptor is readable.

        A ZeroMQ socket's descriptor only becomes readable if the socket was found empty before. So
        `drain` takes all there is, at once to begin with, and nobody else uses the socket.
        """
        self._poll.register(ear, select.POLLIN)
        self._ears[ear] = drain
        drain()

    def _listen(self, timeout_us: int, late_us: int) -> bool:
        """Take what arrives within `timeout_us`; returns whether `wake` was called."""
        wait_ms = (timeout_us + late_us) // 1000 if timeout_us > 0 else 0
        if timeout_us > 0 and not wait_ms:
            # Polling waits for whole milliseconds only, so sleep and look at the sockets then.
            time.sleep(timeout_us / 1e6)
        readable = [ear for ear, _ in self._poll.poll(wait_ms)]
        for ear in readable:
            self._ears[ear]()
        return self._woken.fileno() in readable

    def _drain_waker(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    def _authenticate(self) -> None:
        while self._zap.poll(0):
            _, request, _, _, _, _, key = self._zap.recv_multipart()
            public_key = z85.encode(key)
            if public_key not in self._owners:
                # 300 asks the peer to try again later: this host may not know of the peer yet.
                self.counters["connections_refused"] += 1
                receipt = [b"300", b"unknown key", b"", b""]
            else:
                # Messages tell their key: its owner may change while the connection lasts.
                receipt = [b"200", b"OK", public_key, b""]
            self._zap.send_multipart([b"1.0", request, *receipt])

    def _drain_router(self) -> None:
        while True:
            try:
                # Only a frame object tells the key it came under; the others are cheaper as bytes.
                routing = self._router.recv(flags=zmq.DONTWAIT, copy=False)
            except zmq.Again:
                return
            bundle = self._router.recv_multipart() if routing.more else []
            # A process that was replaced sends under a key that is nobody's any more.
            sender = self._owners.get(str(routing.get("User-Id")).encode(), "")
            outlet = self._outlets.get(sender)
            if outlet is None:
                self.counters["frames_from_strangers"] += 1
                continue
            if link_delay_us(outlet.peer, self._clock_us()) is None:
                self.counters["bundles_cut"] += 1
                continue
            if (found := opened(bundle)) is None:
                self.counters["bundles_refused"] += 1
                continue
            outlet.unheard_bytes = 0
            sent_us, messages = found
            outlet.joiner.drop_stalled(self._clock_us())
            for is_part, frames in messages:
                message = self._joined(outlet, frames) if is_part else frames
                if message is not None:
                    self._take(outlet, sent_us, message)

    def _take(self, outlet: Outlet, sent_us: int, frames: list[bytes]) -> None:
        """Hold a message back until it is due, unless it is data and too much waits."""
        data_bytes = sum(map(len, frames)) if is_data(frames) else 0
        most_bytes = self._budget.transit_bytes
        if data_bytes and not _has_room(data_bytes, self.transit_bytes, most_bytes):
            self.counters["arrivals_dropped"] += 1
            return
        self.transit_bytes += data_bytes
        self._hold(outlet, sent_us, FramesArrived(outlet.peer.node, frames, data_bytes))

    def handled(self, arrived: FramesArrived) -> None:
        """Note that a message which was received waits no longer."""
        self.transit_bytes -= arrived.data_bytes

    def _joined(self, outlet: Outlet, part: list[bytes]) -> list[bytes] | None:
        """Take a part; return the message that it completes."""
        now_us = self._clock_us()
        taken = outlet.joiner.take(part, now_us)
        if taken.confirms is not None:
            outlet.bulk.confirm(taken.confirms, now_us)
        if taken.answer is not None:
            outlet.frames += taken.answer
            outlet.lengths.append(len(taken.answer) | PART_FLAG)
        return taken.message

    def _drain_monitor(self, outlet: Outlet) -> None:
        while outlet.monitor.poll(0):
            event = recv_monitor_message(outlet.monitor)["event"]
            # A connection that was never established, since the peer did not know this host yet, is
            # not lost.
            if event == zmq.EVENT_DISCONNECTED and outlet.established:
                outlet.bulk.give_up()
                self._hold(outlet, self._clock_us(), PeerLost(node=outlet.peer.node))
            outlet.established = event == zmq.EVENT_HANDSHAKE_SUCCEEDED

    def _hold(self, outlet: Outlet, sent_us: int, item: FramesArrived | PeerLost) -> None:
        outlet.last_due_us = self._shaper.hold(
            item, outlet.peer, sent_us, self._clock_us(), after_us=outlet.last_due_us
        )


def _has_room(size: int, waiting_bytes: int, budget_bytes: int) -> bool:
    """Whether a message may wait besides others.

    A timestamp group cannot be divided, so one message may exceed the budget. It has room if half
    of the budget is free; else it would be dropped however often it is asked for.
    """
    return waiting_bytes + min(size, budget_bytes // 2) <= budget_bytes
