"""Messages in parts: cut by the sender, joined by the receiver.

A frame beyond `MAX_FRAME_BYTES` would be refused by the socket, and one message of many megabytes
would hold up all that follow it on the link. A large message is therefore cut into parts of about
`PART_BYTES`. A part holds frames of the message, or a piece of one: its last frame may continue in
the next part. Two *lanes* lead to each peer:

- `IN_ORDER`: the parts follow each other at once, between the messages sent before and after.
- `BULK`: the message may arrive later than messages sent after it. The receiver confirms each part,
  and at most `PARTS_UNDER_WAY` are under way. Other messages wait for no more than these.

Each lane carries one message at a time, and its parts arrive in order or not at all. The receiver
joins at most one message a lane and peer, of at most `MAX_MESSAGE_BYTES`. A part that does not
continue the last one ends the message that is being joined; it is dropped and counted.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from orchestrator.host.shell.pace import StatePace

PART_BYTES = 256 * 1024
"""A millisecond on a link of 2 Gbit/s, and cheap compared with the handling of a message."""

PART_FRAMES = 4
"""Most frames of a part: some are small and take long to make, such as those of many groups."""

PARTS_UNDER_WAY = 16
"""4 MiB under way: 40 MB/s at a round trip of 100 ms."""

MAX_MESSAGE_BYTES = 1024 * 1024 * 1024
"""Larger messages are not sent, and not joined."""

STALLED_US = 5_000_000
"""A bulky message of which no part is confirmed for so long is given up."""

IN_ORDER, BULK = 0, 1
_CONTINUES, _LAST, _CONFIRMS = 1, 2, 4
_header = struct.Struct("<BBQI")

_log = logging.getLogger("vivace.host")


def cut(frames: Iterable[bytes]) -> Iterator[tuple[list[bytes], bool]]:
    """Frames in portions of at most `PART_BYTES`, each with whether its last frame continues.

    Takes frames from the iterable only as they are needed.
    """
    portion: list[bytes] = []
    size = 0
    for frame in frames:
        view = memoryview(frame)
        if len(portion) == PART_FRAMES:
            yield portion, False
            portion, size = [], 0
        while size + len(view) > PART_BYTES and len(view) > PART_BYTES - size:
            taken = PART_BYTES - size
            portion.append(bytes(view[:taken]))
            view = view[taken:]
            yield portion, True
            portion, size = [], 0
        portion.append(bytes(view))
        size += len(view)
    yield portion, False


def part(lane: int, message: int, number: int, frames: list[bytes], flags: int) -> list[bytes]:
    """The frames of a part."""
    return [_header.pack(lane, flags, message, number), *frames]


def parts(lane: int, message: int, frames: Iterable[bytes]) -> Iterator[list[bytes]]:
    """A message in parts; each is made when it is asked for."""
    number = 0
    waiting: tuple[list[bytes], bool] | None = None
    for portion in cut(frames):
        if waiting is not None:
            taken, continues = waiting
            yield part(lane, message, number, taken, _CONTINUES if continues else 0)
            number += 1
        waiting = portion
    assert waiting is not None
    yield part(lane, message, number, waiting[0], _LAST)


@dataclass(slots=True)
class PartialMessage:
    """A message of which parts have arrived."""

    message: int
    frames: list[bytes] = field(default_factory=list[bytes])
    unfinished: list[bytes] = field(default_factory=list[bytes])
    parts: int = 0
    size: int = 0
    moved_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOutcome:
    """What follows from a part.

    Attributes
    ----------
    message
        The frames of the message that it completes.
    answer
        The part to answer with.
    confirms
        The number of the bulky message of which the peer confirms a part.
    """

    message: list[bytes] | None = None
    answer: list[bytes] | None = None
    confirms: int | None = None


class Joiner:
    """Joins the parts that one peer sends.

    Parameters
    ----------
    counters
        Counts `parts_refused` and `messages_cut_short`.
    """

    def __init__(self, counters: Counter[str], max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._counters = counters
        self._max_bytes = max_bytes
        self._joins: dict[int, PartialMessage] = {}

    def take(self, frames: list[bytes], now_us: int) -> PartOutcome:
        """Take a part."""
        if len(frames[0]) != _header.size or frames[0][0] not in (IN_ORDER, BULK):
            self._counters["parts_refused"] += 1
            return PartOutcome()
        lane, flags, message, number = _header.unpack(frames[0])
        if flags & _CONFIRMS:
            return PartOutcome(confirms=message)
        answer = part(lane, message, number, [], _CONFIRMS) if lane == BULK else None
        joined = self._joined(lane, flags, message, number, frames[1:], now_us)
        return PartOutcome(message=joined, answer=answer)

    def drop_stalled(self, now_us: int) -> None:
        """Drop messages of which no part has come for long: the rest was lost."""
        for lane, join in list(self._joins.items()):
            if now_us - join.moved_us > STALLED_US:
                self._counters["messages_cut_short"] += 1
                del self._joins[lane]

    def _joined(
        self, lane: int, flags: int, message: int, number: int, frames: list[bytes], now_us: int
    ) -> list[bytes] | None:
        join = self._joins.get(lane)
        if join is not None and (join.message, join.parts) != (message, number):
            self._counters["messages_cut_short"] += 1
            del self._joins[lane]
            join = None
        if join is None:
            if number:
                self._counters["parts_refused"] += 1
                return None
            join = self._joins[lane] = PartialMessage(message)
        join.parts += 1
        join.moved_us = now_us
        join.size += sum(map(len, frames))
        if join.size > self._max_bytes:
            self._counters["messages_cut_short"] += 1
            del self._joins[lane]
            return None
        for frame in frames[:-1] if flags & _CONTINUES else frames:
            join.unfinished.append(frame)
            join.frames.append(b"".join(join.unfinished))
            join.unfinished = []
        if flags & _CONTINUES and frames:
            join.unfinished.append(frames[-1])
        if not flags & _LAST:
            return None
        del self._joins[lane]
        return join.frames


@dataclass(slots=True)
class BulkMessage:
    """A bulky message on its way to a peer."""

    key: str
    parts: Iterator[list[bytes]]
    sent: int = 0
    confirmed: int = 0
    moved_us: int = 0
    size: int = 0
    pace: StatePace = field(default_factory=StatePace)


class BulkLane:
    """The bulky messages for one peer, sent one after the other at the peer's pace."""

    def __init__(self, counters: Counter[str]) -> None:
        self._sent_us = 0
        self._counters = counters
        self._waiting: deque[tuple[str, Iterable[bytes], StatePace]] = deque()
        self._active: BulkMessage | None = None
        self._number = 0

    def is_sending(self, key: str) -> bool:
        """Whether a message of this key is on its way."""
        is_active = self._active is not None and self._active.key == key
        return is_active or any(waiting == key for waiting, *_ in self._waiting)

    def send(self, key: str, frames: Iterable[bytes], pace: StatePace | None = None) -> None:
        """Send a message after those before it; if one of this key is still on its way, drop it.

        Parameters
        ----------
        pace
            Of this message alone.
        """
        if self.is_sending(key):
            self._counters["bulk_messages_repeated"] += 1
            return
        self._waiting.append((key, frames, pace or StatePace()))

    def give_up(self) -> None:
        """Drop the message on its way: parts of it were lost."""
        if self._active is not None:
            self._counters["bulk_messages_given_up"] += 1
            self._active = None

    def confirm(self, message: int, now_us: int) -> None:
        """Note that the peer has a further part."""
        active = self._active
        if active is not None and message == self._number:
            active.confirmed += 1
            active.moved_us = now_us

    def due(self, now_us: int, most: int) -> Iterator[list[bytes]]:
        """The next parts to send, `most` at the most."""
        if self._active is not None and now_us - self._active.moved_us > STALLED_US:
            self.give_up()
        active = self._active
        if active is None:
            if not self._waiting:
                return
            key, frames, pace = self._waiting.popleft()
            self._number += 1
            made = parts(BULK, self._number, frames)
            active = self._active = BulkMessage(key=key, parts=made, moved_us=now_us, pace=pace)
        for _ in range(min(most, PARTS_UNDER_WAY - (active.sent - active.confirmed))):
            if not active.pace.allows(now_us):
                return
            try:
                following = next(active.parts, None)
            except Exception:  # noqa: BLE001  A state that cannot be written must not end its host.
                _log.exception("%s cannot be written", active.key)
                self.give_up()
                return
            if following is None:
                # The last part needs no confirmation: the next message may begin.
                self._counters["bulk_bytes_sent"] += active.size
                self._active = None
                return
            active.sent += 1
            size = sum(map(len, following))
            active.size += size
            active.pace.spend(size, now_us)
            if active.size > MAX_MESSAGE_BYTES:
                self._counters["messages_too_large"] += 1
                self._active = None
                return
            self._sent_us = now_us
            yield following

    @property
    def turn(self) -> tuple[bool, int]:
        """Sorts the lanes that share a pace: those amid a message first, which take turns.

        A message that is begun ends before others begin, and none waits so long that it counts
        as stalled.
        """
        return self._active is None, self._sent_us

    @property
    def free_us(self) -> int:
        """When the message on its way may send its next part."""
        return 0 if self._active is None else self._active.pace.free_us

    @property
    def ready(self) -> bool:
        """Whether `due` may have a part to send once the pace allows it."""
        active = self._active
        if active is None:
            return bool(self._waiting)
        return active.sent - active.confirmed < PARTS_UNDER_WAY
