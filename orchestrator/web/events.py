"""Server-sent events: how they are written, and which follow which."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from orchestrator.results.operations import OperationStatus
from orchestrator.results.status import EventDocument
from orchestrator.results.streams import TailEvent
from orchestrator.store.protocol import HistoryEntry
from orchestrator.web.bell import Bell, heard

LOOK_EVERY_S = 1.0
"""How often a follower looks although nothing has rung."""

QUIET_S = 15.0
"""After so long without an event a comment is sent: proxies end connections that are silent."""

PAUSE_S = 0.2
"""Between a ring and a look: what happens meanwhile is read together."""

PERMITTED_S = 0.3
"""How often it is asked whether a client may still follow."""

AHEAD_S = 3.0
"""After so long it is known whether a number is ahead of the history: what was written before a
client came has been read by then, if the store is there."""

COMMENT = b": \n\n"


def written(event: str, data: object, id: int | str | None = None) -> bytes:
    """An event as it is sent."""
    number = f"id: {id}\n" if id is not None else ""
    return f"event: {event}\n{number}data: ".encode() + msgspec.json.encode(data) + b"\n\n"


async def rounds(bell: Bell) -> AsyncGenerator[None]:
    """A round for each look: at once, then after rings, and now and then."""
    while True:
        rung = bell.listen()
        yield
        await heard(rung, LOOK_EVERY_S)
        if rung.is_set():
            await asyncio.sleep(PAUSE_S)


def whole_from(entries: Sequence[HistoryEntry]) -> int:
    """The number from which on no event has been dropped, of entries in order.

    Reports of drills are kept for longer than what happened before and after them.
    """
    known = {each.sequence for each in entries}
    oldest = next((each.sequence for each in entries if each.event.report is None), 0)
    while oldest - 1 in known:
        oldest -= 1
    return oldest


async def history_events(
    read: Callable[[], Awaitable[tuple[Sequence[EventDocument], int]]],
    bell: Bell,
    after: int | None,
    age_s: Callable[[], float] = lambda: 0.0,
) -> AsyncGenerator[bytes]:
    """The history after an event, as it goes on; what is no longer kept is a `reset`.

    So is a number that no event has had, as after a cluster has begun anew. Another process may be
    ahead of this one by a moment, and by longer while the store is away.

    Parameters
    ----------
    read
        The events that are kept, in order, and the number from which on none is missing.
    age_s
        How old that may be.
    """
    last, sent_s = after, time.monotonic()
    began_s = sent_s
    async for _ in rounds(bell):
        events, whole_from = await read()
        numbers = [each.sequence for each in events]
        newest = numbers[-1] if numbers else -1
        is_known = age_s() + AHEAD_S < time.monotonic() - began_s
        if last is None:
            last = newest
            # Without data it is no event, but a client that comes again knows where it was.
            yield f"id: {last}\n\n".encode()
        elif (numbers and last + 1 < whole_from) or (last > newest and is_known):
            oldest = numbers[0] if numbers else 0
            last = oldest - 1
            yield written("reset", {"oldest": oldest})
        for event in events[bisect_right(numbers, last) :]:
            yield written(event.kind.replace(" ", "-"), event, event.sequence)
            last, sent_s = event.sequence, time.monotonic()
        if time.monotonic() - sent_s >= QUIET_S:
            yield COMMENT
            sent_s = time.monotonic()


async def while_permitted(
    events: AsyncGenerator[bytes], permitted: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes]:
    """Events, for as long as their client may have them."""
    getting: asyncio.Future[bytes] | None = None
    try:
        while True:
            getting = getting or asyncio.ensure_future(anext(events))
            await asyncio.wait({getting}, timeout=PERMITTED_S)
            if not await permitted():
                return
            if getting.done():
                with suppress(StopAsyncIteration):
                    event, getting = getting.result(), None
                    yield event
                    continue
                return
    finally:
        if getting is not None:
            getting.cancel()
            await asyncio.wait({getting})
        await events.aclose()


async def operation_events(
    read: Callable[[], Awaitable[OperationStatus]], bell: Bell
) -> AsyncGenerator[bytes]:
    """The progress of a long operation, and at last its end: the status, each time."""
    told: OperationStatus | None = None
    sent_s = time.monotonic()
    async for _ in rounds(bell):
        status = await read()
        if status.state != "running":
            yield written(status.state, status)
            return
        if told is None or (told.step, told.detail) != (status.step, status.detail):
            told, sent_s = status, time.monotonic()
            yield written("progress", status)
        elif time.monotonic() - sent_s >= QUIET_S:
            yield COMMENT
            sent_s = time.monotonic()


class Followed:
    """A stream that a thread follows: it waits while its client is slow.

    Parameters
    ----------
    follow
        Runs in a thread: tells events until the function that it is given says that it has ended.
    run
        Runs a function in a thread.
    """

    MOST_WAITING = 64

    def __init__(
        self,
        follow: Callable[[Callable[[TailEvent], None], Callable[[], bool]], None],
        run: Callable[[Callable[[], None]], asyncio.Future[None]],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[TailEvent] = asyncio.Queue(self.MOST_WAITING)
        self._ended = False
        self.thread = run(lambda: follow(self._tell, lambda: self._ended))

    async def events(self) -> AsyncGenerator[bytes]:
        """What the thread tells; raises what it raises."""
        getting: asyncio.Task[TailEvent] | None = None
        try:
            while True:
                getting = asyncio.create_task(self._waiting.get())
                await asyncio.wait(
                    {getting, self.thread},
                    timeout=QUIET_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if getting.done():
                    event = getting.result()
                    yield written("tuples", event, None if event.batch is None else event.batch.id)
                    continue
                getting.cancel()
                if self.thread.done() and self._waiting.empty():
                    self.thread.result()
                    return
                if not self.thread.done():
                    yield COMMENT
        finally:
            self._ended = True
            if getting is not None:
                getting.cancel()
            while not self._waiting.empty():
                self._waiting.get_nowait()

    def _tell(self, event: TailEvent) -> None:
        """In the thread: have an event sent, once there is room for it."""
        putting = asyncio.run_coroutine_threadsafe(self._waiting.put(event), self._loop)
        while not self._ended:
            try:
                putting.result(LOOK_EVERY_S)
                return
            except TimeoutError:
                continue
        putting.cancel()
