"""What the HTTP API does, whatever serves it: operations in threads, on one view of the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar, cast

import msgspec

from orchestrator import api
from orchestrator.api.carrying import carry_out, follow
from orchestrator.api.cluster_status import event_documents
from orchestrator.api.connection import Cluster
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import (
    EventsParameters,
    FollowParameters,
    Parameters,
    TailParameters,
    VerifyParameters,
)
from orchestrator.records import ClocksRecord, HistoryEvent, TokenRecord
from orchestrator.results.operations import OperationStatus
from orchestrator.results.status import EventDocument
from orchestrator.store.cached import CachedStore
from orchestrator.store.protocol import CLOCKS, HISTORY, OPERATIONS, TOKENS, StoreError
from orchestrator.web.access import Author
from orchestrator.web.bell import Bell
from orchestrator.web.events import (
    Followed,
    history_events,
    operation_events,
    while_permitted,
    whole_from,
)
from orchestrator.web.limits import REQUEST_S, CallThreads, StreamLimit, late, noticed
from orchestrator.web.long_operations import LongOperations

T = TypeVar("T")

SHARED_S = 0.2
"""For so long, whoever reads the same gets the same response."""

UNTOLD = ("folder", "manifests", "plan")
"""Parameters that are too long for the history, or say nothing."""

MOST_TOLD = 200
"""Characters of a parameter that the history has."""

REFUSED = "refused"
"""The event of a change that somebody was kept from."""

REFUSALS_EVERY_S = 5.0
"""Between two of them."""

REFUSED_AGAIN_US = 3_600_000_000
"""Between two of them that nothing else came between."""

MOST_TAILS = 32
"""Each has a host of its own."""


class Service:
    """See the module.

    Parameters
    ----------
    cluster
        With a store that is read from memory.
    address
        Where it is served.
    """

    def __init__(self, cluster: Cluster, view: CachedStore, address: str) -> None:
        self._cluster = cluster
        self.view = view
        self.long = LongOperations(view, address, self.now_us)
        self.streams = StreamLimit()
        self._tails = StreamLimit(MOST_TAILS)
        self._quick, self._slow = CallThreads("quick"), CallThreads("slow")
        self._followers = ThreadPoolExecutor(MOST_TAILS, thread_name_prefix="tail")
        self._refusal_s, self._refusals = 0.0, 0
        self._shared: dict[bytes, tuple[float, asyncio.Task[Any]]] = {}
        self._events, self._operations = Bell(), Bell()
        view.watch(HISTORY, self._events.ring)
        view.watch(OPERATIONS, self._operations.ring)

    def close(self) -> None:
        """End what can be ended."""
        self.long.stop()
        for threads in (self._quick.pool, self._slow.pool, self._followers):
            threads.shutdown(wait=False, cancel_futures=True)

    async def result(
        self, operation: Operation[Any, Any], asked: Parameters, author: Author
    ) -> bytes:
        """The result of an operation that comes at once, as JSON; raises as the operation does."""
        cluster = self._asked_by(author)

        give_up_s = time.monotonic() + REQUEST_S

        def waiting(_step: str, _detail: str) -> None:
            # Nobody waits any more for what a leader that is stuck would respond.
            if time.monotonic() > give_up_s:
                raise late()

        def carry() -> bytes:
            self._note(operation, asked, author)
            if isinstance(asked, FollowParameters):
                if operation.changes:
                    self.long.cancel(asked.operation, str(author))
                return msgspec.json.encode(self.long.status(asked.operation))
            return msgspec.json.encode(carry_out(operation, cluster, asked, waiting))

        if operation.method != "GET":
            return await (self._quick if operation.changes else self._slow).run(carry)
        return await self._in_common(
            operation.name.encode() + b" " + msgspec.json.encode(asked), carry
        )

    async def exposition(self) -> bytes:
        """The cluster's figures in Prometheus' text format."""
        text = await self._in_common(b"exposition", lambda: api.exposition(self._cluster))
        return text.encode()

    async def begin(
        self, operation: Operation[Any, Any], asked: Parameters, author: Author
    ) -> OperationStatus:
        """Have a long operation carried out."""
        if isinstance(asked, VerifyParameters) and asked.sql is not None:
            author.check_may_run("statements of your own")
        cluster = self._asked_by(author)

        def carry(on_progress: api.Progress) -> object:
            self._note(operation, asked, author)
            return carry_out(operation, cluster, asked, on_progress)

        def begin() -> OperationStatus:
            return self.long.status(self.long.begin(operation.name, str(author), carry))

        return await self._quick.run(begin)

    async def tokens(self) -> dict[str, TokenRecord]:
        """The tokens there are, by their ids."""

        def read() -> dict[str, TokenRecord]:
            return {name: found.record for name, found in self.view.list(TOKENS).records.items()}

        return await self._in_common(b"tokens", read)

    async def refused(self, operation: Operation[Any, Any], by: str, why: str) -> None:
        """Have the history say that somebody was kept from changing something.

        Of many, the first in some seconds is told, with the number of those before it that are not;
        and after a refusal that no other event has followed, none for an hour. The history has its
        bounds, and strangers must not push out what is in it.
        """
        now_s, more = time.monotonic(), self._refusals
        self._refusals += 1
        if now_s < self._refusal_s:
            return
        self._refusal_s = now_s + REFUSALS_EVERY_S

        def tell() -> bool:
            newest = self.view.history()[-1:]
            since_us = self.now_us() - REFUSED_AGAIN_US
            if any(each.event.kind == REFUSED and each.event.at_us > since_us for each in newest):
                return False
            told = f"{why}; {more} more before" if more else why
            self._append(REFUSED, operation.name, told, by)
            return True

        with suppress(StoreError):
            if await self._quick.run(tell):
                self._refusals -= more + 1

    def now_us(self) -> int:
        """The cluster's clock."""
        found = self.view.get(CLOCKS)
        return cluster_now_us(ClocksRecord(machines={}) if found is None else found.record)

    def _asked_by(self, author: Author) -> Cluster:
        return replace(self._cluster, by=str(author))

    def _note(self, operation: Operation[Any, Any], asked: Parameters, author: Author) -> None:
        """Have the history say who has something changed, before it is."""
        given = msgspec.structs.asdict(asked)
        if operation.changes and not given.get("dry_run"):
            told = ", ".join(
                f"{name} {_in_words(each)}"
                for name, each in given.items()
                if name not in UNTOLD and each not in (None, False, "", ())
            )
            self._append("asked", operation.name, told, str(author))

    def _append(self, kind: str, subject: str, detail: str, by: str) -> None:
        at_us = self.now_us()
        event = HistoryEvent(at_us=at_us, kind=kind, subject=subject, detail=detail, by=by)
        self.view.append_history(event)

    async def stream(
        self, asked: Parameters, permitted: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes]:
        """The events of a stream as they are sent; raises at once if there is no such stream.

        Parameters
        ----------
        permitted
            Whether its client may follow it still.
        """
        counted = self._counted(asked, permitted)
        # It is begun here, so that it is counted no more also if nobody reads on.
        first = await anext(counted, b"")

        async def all_events() -> AsyncGenerator[bytes]:
            try:
                yield first
                async for event in counted:
                    yield event
            finally:
                await counted.aclose()

        return all_events()

    async def _counted(
        self, asked: Parameters, permitted: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes]:
        with ExitStack() as opened:
            opened.enter_context(self.streams.opened())
            match asked:
                case TailParameters():
                    opened.enter_context(self._tails.opened())
                    events = self._tail(asked)
                case FollowParameters():
                    events = operation_events(lambda: self._status(asked), self._operations)
                case EventsParameters():
                    events = history_events(
                        self._history, self._events, asked.after, lambda: self.view.age_s
                    )
                case _:
                    raise AssertionError(asked)
            async for event in while_permitted(events, permitted):
                yield event

    def _tail(self, asked: TailParameters) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        followed = Followed(
            lambda tell, ended: follow(self._cluster, asked, tell, ended),
            lambda call: loop.run_in_executor(self._followers, call),
        )
        return followed.events()

    async def _status(self, asked: FollowParameters) -> OperationStatus:
        return await self._in_common(
            b"follow " + asked.operation.encode(), lambda: self.long.status(asked.operation)
        )

    async def _history(self) -> tuple[Sequence[EventDocument], int]:
        def read() -> tuple[Sequence[EventDocument], int]:
            entries = self.view.history()
            return event_documents(entries), whole_from(entries)

        return await self._in_common(b"events", read)

    async def _in_common(self, key: bytes, call: Callable[[], T]) -> T:
        """What a call returns in a thread: one call for all who ask for the same at a time."""
        now_s = time.monotonic()
        for known, (until_s, task) in [*self._shared.items()]:
            if until_s < now_s and task.done():
                del self._shared[known]
        if key not in self._shared:
            task = asyncio.create_task(self._quick.run(call))
            task.add_done_callback(noticed)
            self._shared[key] = now_s + SHARED_S, task
        return await asyncio.shield(self._shared[key][1])


def _in_words(value: object) -> str:
    """A parameter on one line, and not longer than others would like to read."""
    given = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    text = ", ".join(str(each.value if isinstance(each, Enum) else each) for each in given)
    text = text if len(text) <= MOST_TOLD else f"{text[: MOST_TOLD - 1]}…"
    return text if text.isprintable() else repr(text)
