"""Server-sent events: the history with resumption, long operations, streams that are followed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec
import pytest

from orchestrator.records import HistoryEvent
from orchestrator.results.operations import OperationStatus
from orchestrator.results.status import EventDocument
from orchestrator.results.streams import TailBatch, TailEvent
from orchestrator.store.protocol import HistoryEntry
from orchestrator.web import events as module
from orchestrator.web.bell import Bell
from orchestrator.web.events import (
    COMMENT,
    Followed,
    history_events,
    operation_events,
    while_permitted,
    whole_from,
)


def event(sequence: int) -> EventDocument:
    return EventDocument(sequence=sequence, at_us=0, kind="took over", subject="q", detail="")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(module, "PERMITTED_S", 0.001)


async def some(events: AsyncGenerator[bytes], count: int) -> list[str]:
    """The first events, without comments."""
    found: list[str] = []
    async for each in events:
        if each != COMMENT:
            found.append(each.decode())
        if len(found) == count:
            break
    await events.aclose()
    return found


def followed_from(after: int | None, kept: Sequence[int], then: Sequence[int]) -> list[str]:
    """What a client is told of a history that goes on."""

    async def follow() -> list[str]:
        looks = 0

        async def read() -> tuple[list[EventDocument], int]:
            nonlocal looks
            looks += 1
            found = [event(number) for number in ([*kept, *then] if looks > 1 else kept)]
            return found, kept[0]

        told = len(then) + 1 if after is None else len([n for n in [*kept, *then] if n > after])
        reset = after is not None and after + 1 < kept[0]
        return await some(history_events(read, Bell(), after), told + reset)

    return asyncio.run(follow())


def ids(told: Sequence[str]) -> list[int]:
    return [int(each.partition("id: ")[2].split("\n")[0]) for each in told if "id: " in each]


def test_a_client_without_a_past_is_told_where_it_is_and_gets_what_is_to_come() -> None:
    told = followed_from(None, [3, 5], [6, 7])
    assert told[0] == "id: 5\n\n"
    assert ids(told[1:]) == [6, 7]


def test_a_client_resumes_after_the_event_that_it_had_last() -> None:
    told = followed_from(3, [3, 5], [6])
    assert ids(told) == [5, 6]
    assert told[0].startswith("event: took-over\nid: 5\ndata: {")
    assert told[0].endswith("}\n\n")


def test_a_client_that_was_away_too_long_is_told_to_begin_anew() -> None:
    told = followed_from(1, [3, 5], [6])
    assert told[0] == 'event: reset\ndata: {"oldest":3}\n\n'
    assert ids(told) == [3, 5, 6]


@pytest.mark.parametrize(
    ("kept", "reports", "oldest"),
    [
        ([0, 1, 2], [], 0),
        ([3, 900, 901], [3], 900),
        ([3, 898, 899, 900], [3, 898, 899], 898),
        ([], [], 0),
    ],
)
def test_a_report_that_is_kept_for_longer_hides_no_gap(
    kept: list[int], reports: list[int], oldest: int
) -> None:
    def entry(number: int) -> HistoryEntry:
        report = dict[str, object]() if number in reports else None
        told = HistoryEvent(at_us=0, kind="drill", subject="q", detail="", report=report)
        return HistoryEntry(sequence=number, event=told)

    assert whole_from([entry(number) for number in kept]) == oldest


def test_a_client_is_told_to_begin_anew_although_an_older_report_is_kept() -> None:
    async def follow() -> list[str]:
        async def read() -> tuple[list[EventDocument], int]:
            return [event(3), event(900)], 900

        return await some(history_events(read, Bell(), 100), 3)

    assert asyncio.run(follow())[0] == 'event: reset\ndata: {"oldest":3}\n\n'


@pytest.mark.parametrize(("kept", "oldest"), [([0, 1], 0), ([3, 4], 3), ([], 0)])
def test_a_client_that_is_ahead_of_the_history_is_told_to_begin_anew(
    kept: list[int], oldest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster has begun anew, and its events have the numbers of other ones."""
    monkeypatch.setattr(module, "AHEAD_S", 0.0)
    told: list[bytes] = []

    async def follow() -> None:
        looks = 0

        async def read() -> tuple[list[EventDocument], int]:
            nonlocal looks
            looks += 1
            # What is known is old at first: another process may have told of a newer event.
            assert not told or looks > 3
            return [event(number) for number in kept], oldest

        def age_s() -> float:
            return float("inf") if looks < 4 else 0.0

        events = history_events(read, Bell(), 7, age_s)
        async for each in events:
            told.append(each)
            if len(told) == len(kept) + 1:
                break
        await events.aclose()

    asyncio.run(asyncio.wait_for(follow(), 10))
    assert told[0].decode() == f'event: reset\ndata: {{"oldest":{oldest}}}\n\n'
    assert ids([each.decode() for each in told]) == kept


def test_who_may_follow_no_more_is_told_no_more() -> None:
    ended: list[bool] = []

    async def events() -> AsyncGenerator[bytes]:
        try:
            yield b"1"
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def follow() -> list[bytes]:
        permissions = [True, True, False]

        async def permitted() -> bool:
            return permissions.pop(0)

        return [each async for each in while_permitted(events(), permitted)]

    assert asyncio.run(follow()) == [b"1"]
    assert ended == [True]


def test_nothing_is_missed_if_nothing_is_gone() -> None:
    assert ids(followed_from(-1, [0, 2], [])) == [0, 2]


def status(state: str, step: str = "") -> OperationStatus:
    null = msgspec.Raw(b"null")
    given = {"name": "move-1", "operation": "move", "by": "here", "begun_us": 0}
    return msgspec.convert(
        {**given, "state": state, "step": step, "result": null, "error": null}, OperationStatus
    )


def test_an_operation_is_followed_to_its_end() -> None:
    states = [status("running", "one"), status("running", "one"), status("running", "two")]
    states.append(status("done", "two"))

    async def follow() -> list[str]:
        async def read() -> OperationStatus:
            return states.pop(0)

        return [each.decode() async for each in operation_events(read, Bell())]

    told = asyncio.run(follow())
    assert [each.split("\n")[0] for each in told] == [
        "event: progress", "event: progress", "event: done",
    ]  # fmt: skip


def test_a_ring_from_another_thread_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 60.0)
    states = [status("running"), status("done")]

    async def follow() -> list[bytes]:
        bell = Bell()

        async def read() -> OperationStatus:
            asyncio.get_running_loop().run_in_executor(None, bell.ring)
            return states.pop(0)

        return [each async for each in operation_events(read, bell)]

    assert len(asyncio.run(follow())) == 2


def test_a_thread_that_follows_waits_for_its_client_and_ends_with_it() -> None:
    told: list[int] = []

    def follow(tell: Callable[[TailEvent], None], ended: Callable[[], bool]) -> None:
        number = 0
        while not ended():
            tell(TailEvent(batch=TailBatch(lost=number, rows=())))
            told.append(number)
            number += 1

    async def read() -> tuple[list[str], asyncio.Future[None]]:
        loop = asyncio.get_running_loop()
        followed = Followed(follow, lambda call: loop.run_in_executor(None, call))
        found = await some(followed.events(), 3)
        await followed.thread
        return found, followed.thread

    found, thread = asyncio.run(read())
    assert thread.done()
    assert [msgspec.json.decode(each.split("data: ")[1])["batch"]["lost"] for each in found] == [
        0, 1, 2,
    ]  # fmt: skip
    assert len(told) <= Followed.MOST_WAITING + 5


def test_a_client_that_leaves_while_nothing_comes_leaves_no_task_behind() -> None:
    begun = threading.Event()

    def follow(_tell: Callable[[TailEvent], None], ended: Callable[[], bool]) -> None:
        begun.set()
        while not ended():
            threading.Event().wait(0.01)

    async def leave() -> set[asyncio.Task[object]]:
        loop = asyncio.get_running_loop()
        followed = Followed(follow, lambda call: loop.run_in_executor(None, call))
        reading = asyncio.ensure_future(anext(followed.events()))
        await loop.run_in_executor(None, begun.wait)
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})
        await followed.thread
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(leave()) == set()


def test_what_is_no_stream_raises() -> None:
    def follow(_tell: Callable[[TailEvent], None], _ended: Callable[[], bool]) -> None:
        raise ValueError("no stream")

    async def read() -> None:
        loop = asyncio.get_running_loop()
        followed = Followed(follow, lambda call: loop.run_in_executor(None, call))
        with pytest.raises(ValueError, match="no stream"):
            await anext(followed.events())

    asyncio.run(read())
