"""Operations that take longer than a request: records that any process can read."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from orchestrator.errors import InvalidInput
from orchestrator.progress import Progress
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import OPERATIONS, WEBS, StoreUnavailable
from orchestrator.web.failures import Busy, NotFound
from orchestrator.web.long_operations import (
    KEPT_US,
    MOST_RESULT_BYTES,
    MOST_RUNNING,
    LongOperations,
)
from tests.conftest import PATIENCE_S


class Odd:
    """What is no JSON."""


class Web:
    """A process, whose writer's rounds are calls."""

    def __init__(self, server: MemoryServer) -> None:
        self.store: MemoryStore = server.connect()
        self.now_us = 0
        self.long = LongOperations(self.store, "127.0.0.1:8650", lambda: self.now_us)
        self.go_on = threading.Event()

    def begin(self) -> str:
        """Have something done that goes on until it is told to end; it has told a step by then."""
        told = threading.Event()

        def carry(on_progress: Progress) -> object:
            on_progress("moving", "one of two")
            told.set()
            assert self.go_on.wait(PATIENCE_S)
            return {"moved": 2}

        name = self.long.begin("move", "start@here", carry)
        assert told.wait(PATIENCE_S)
        return name

    def end(self, name: str) -> None:
        """Have everything end, and be written."""
        self.go_on.set()
        while self.long.status(name).state == "running":
            self.long.write()


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def web(server: MemoryServer) -> Generator[Web]:
    web = Web(server)
    yield web
    web.go_on.set()


@pytest.fixture
def other(server: MemoryServer) -> Web:
    return Web(server)


def test_every_process_tells_progress_and_result(web: Web, other: Web) -> None:
    name = web.begin()
    assert other.long.status(name).state == "running"
    web.long.write()
    status = other.long.status(name)
    assert (status.operation, status.by) == ("move", "start@here")
    assert (status.step, status.detail) == ("moving", "one of two")
    web.end(name)
    status = other.long.status(name)
    assert status.state == "done"
    assert bytes(status.result) == b'{"moved":2}'


def test_an_error_is_told_as_the_command_line_tells_it(web: Web, other: Web) -> None:
    def carry(_: Progress) -> object:
        raise InvalidInput("command line", "NODE", "pari", "is not here", "Did you mean paris?")

    name = web.long.begin("move", "start@here", carry)
    web.end(name)
    status = other.long.status(name)
    assert status.state == "failed"
    error = msgspec.json.decode(status.error)
    assert (error["type"], error["value"], error["exit_status"]) == ("InvalidInput", "pari", 2)


def test_a_process_that_is_gone_has_abandoned_what_it_did(web: Web, other: Web) -> None:
    name = web.begin()
    web.store.close()
    status = other.long.status(name)
    assert status.state == "abandoned"
    assert "the history says whether" in msgspec.json.decode(status.error)["message"]


def test_a_session_that_was_lost_abandons_nothing(web: Web, other: Web) -> None:
    name = web.begin()
    web.store.expire()
    web.store.resume()
    web.long.write()
    assert other.long.status(name).state == "running"
    web.end(name)
    assert other.long.status(name).state == "done"


def test_the_end_is_written_once_the_store_is_back(
    server: MemoryServer, web: Web, other: Web
) -> None:
    name = web.begin()
    server.go_away()
    with pytest.raises(StoreUnavailable):
        web.long.write()
    web.go_on.set()
    server.come_back()
    web.end(name)
    assert other.long.status(name).state == "done"


def test_a_result_that_the_store_does_not_take_is_an_error(web: Web) -> None:
    name = web.long.begin("status", "start@here", lambda _: "x" * MOST_RESULT_BYTES)
    web.end(name)
    status = web.long.status(name)
    assert status.state == "failed"
    assert "of which the store takes" in msgspec.json.decode(status.error)["message"]


def test_what_has_ended_is_forgotten_after_a_while(web: Web, other: Web) -> None:
    ended = web.begin()
    web.end(ended)
    abandoned = web.begin()
    other.now_us = KEPT_US
    other.long.sweep()
    assert {*other.store.list(OPERATIONS).records} == {ended, abandoned}
    other.now_us += 1
    other.long.sweep()
    assert {*other.store.list(OPERATIONS).records} == {abandoned}
    web.store.close()
    other.long.sweep()
    assert not other.store.list(OPERATIONS).records
    with pytest.raises(NotFound):
        other.long.status(ended)


def test_too_many_at_once_are_refused(web: Web) -> None:
    for _ in range(MOST_RUNNING):
        web.begin()
    with pytest.raises(Busy):
        web.long.begin("move", "start@here", lambda _: None)


def begun_in_steps(web: Web) -> str:
    """Have something done that goes on, step by step, for ever."""

    def carry(on_progress: Progress) -> object:
        while True:
            on_progress("drilling", "again")
            time.sleep(0)

    return web.long.begin("drill-series", "start@here", carry)


def test_what_any_process_cancels_ends_at_its_next_step(web: Web, other: Web) -> None:
    name = begun_in_steps(web)
    web.long.write()
    other.long.cancel(name, "5f3a@there")
    assert other.long.status(name).state == "running"
    assert other.long.status(name).cancelled_by == "5f3a@there"
    other.long.cancel(name, "somebody else")
    while web.long.status(name).state == "running":
        web.long.write()
    status = other.long.status(name)
    assert (status.state, status.cancelled_by) == ("failed", "5f3a@there")
    error = msgspec.json.decode(status.error)
    assert error["type"] == "Cancelled"
    assert f"operation {name} was cancelled by 5f3a@there" in error["message"]
    other.long.cancel(name, "too late")
    assert other.long.status(name) == status


def test_what_is_unknown_cannot_be_cancelled(web: Web) -> None:
    with pytest.raises(NotFound):
        web.long.cancel("none", "start@here")


def test_what_is_being_begun_counts(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    create, inner = web.store.create, list[BaseException]()

    def slow(*given: Any, **others: Any) -> Any:
        """While the store takes the last record that there is room for, one more is begun."""
        monkeypatch.setattr(web.store, "create", create)
        with pytest.raises(Busy) as refused:
            web.long.begin("move", "start@here", lambda _: None)
        inner.append(refused.value)
        return create(*given, **others)

    for _ in range(MOST_RUNNING - 1):
        web.begin()
    monkeypatch.setattr(web.store, "create", slow)
    web.begin()
    assert inner


def test_what_the_store_does_not_take_leaves_room(server: MemoryServer, web: Web) -> None:
    web.begin()
    server.go_away()
    for _ in range(MOST_RUNNING):
        with pytest.raises(StoreUnavailable):
            web.long.begin("move", "start@here", lambda _: None)
    server.come_back()
    web.begin()


def test_a_process_says_that_it_is_there_and_that_it_goes(web: Web, other: Web) -> None:
    name = web.begin()
    assert [*other.store.list(WEBS).records] == [web.long.web]
    web.end(name)
    web.long.start()
    web.long.stop()
    assert not other.store.list(WEBS).records


@pytest.mark.parametrize("name", ["none", "a/b", "..", ""])
def test_an_unknown_name_is_not_found(web: Web, name: str) -> None:
    with pytest.raises(NotFound):
        web.long.status(name)


@pytest.mark.parametrize("value", [Odd(), [Odd()], "x" * MOST_RESULT_BYTES])
def test_an_error_that_no_record_takes_ends_its_operation(web: Web, value: object) -> None:
    def carry(_: Progress) -> object:
        raise InvalidInput("query.yaml:1", "name", value, "is odd", "Choose another.")

    name = web.long.begin("apply", "start@here", carry)
    web.end(name)
    status = web.long.status(name)
    assert status.state == "failed"
    assert len(status.error) <= MOST_RESULT_BYTES
