"""A process obeys a drill's record once, in the life that it names, and not too late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

from orchestrator.records import LONGEST_STRIKE_US, StrikeKind, StrikeRecord
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import STRIKES, StoreUnavailable
from orchestrator.store.strikes import StrikeLink, StrikeVoid

KEY = STRIKES.key("paris")
ASKED = StrikeRecord(
    kind=StrikeKind.HANG, life="1", take_by_us=2_000_000, lasts_us=500_000, by="me"
)


class Struck:
    """Notes what it suffers; fails at once, when told, or not at all."""

    kinds = frozenset({StrikeKind.HANG, StrikeKind.KILL})

    def __init__(self, why_not: str | None = None) -> None:
        self.suffered: list[StrikeKind] = []
        self.void = self.relented = 0
        self.why_not = why_not
        self.meanwhile: Callable[[], None] = lambda: None

    def strike(
        self, asked: StrikeRecord, begin: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        self.meanwhile()
        if self.why_not is not None:
            failed(self.why_not)
            return
        with suppress(StrikeVoid):
            begin()
            self.suffered.append(asked.kind)
            return
        self.void += 1

    def relent(self) -> None:
        self.relented += 1


class Process:
    """One life of a process, with a session of its own."""

    def __init__(self, server: MemoryServer, life: str = "1", why_not: str | None = None) -> None:
        self.now_us = 1_000_000
        self.struck = Struck(why_not)
        self.store = server.connect()
        self.link = StrikeLink(
            self.store, "paris", lambda: life, lambda: self.now_us, self.struck, lead_us=0
        )


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


def ask(server: MemoryServer, asked: StrikeRecord = ASKED) -> None:
    server.connect().create(KEY, asked)


def kept(server: MemoryServer) -> StrikeRecord:
    found = server.connect().get(KEY)
    assert found is not None
    return found.record


def test_it_says_when_it_fails_and_fails_once(server: MemoryServer) -> None:
    process = Process(server)
    process.link.look()
    ask(server)
    for _ in range(2):
        process.link.look()
    assert process.struck.suffered == [StrikeKind.HANG]
    assert kept(server) == msgspec.structs.replace(ASKED, struck_us=process.now_us)
    again = Process(server)
    again.link.look()
    assert again.struck.suffered == []


@pytest.mark.parametrize(
    "asked",
    [
        msgspec.structs.replace(ASKED, life="2"),
        msgspec.structs.replace(ASKED, take_by_us=999_999),
        msgspec.structs.replace(ASKED, take_by_us=1_000_001 + LONGEST_STRIKE_US),
        msgspec.structs.replace(ASKED, kind=StrikeKind.KILL_DRIVER),
        msgspec.structs.replace(ASKED, struck_us=999_999),
        msgspec.structs.replace(ASKED, problem="no"),
    ],
    ids=["another life", "too late", "too early", "another process", "struck", "refused"],
)
def test_what_is_not_asked_of_it_now_does_nothing(
    server: MemoryServer, asked: StrikeRecord
) -> None:
    process = Process(server)
    ask(server, asked)
    process.link.look()
    assert process.struck.suffered == []
    assert kept(server) == asked


def test_a_record_that_is_broken_or_lasts_too_long_does_nothing(server: MemoryServer) -> None:
    process = Process(server)
    too_long = msgspec.to_builtins(ASKED, enc_hook=str) | {"lasts_us": LONGEST_STRIKE_US + 1}
    for data in (b"{}", msgspec.json.encode(too_long)):
        server.plant(KEY.path, data)
        process.link.look()
    assert process.struck.suffered == []


def test_one_that_is_withdrawn_while_it_is_prepared_does_nothing(server: MemoryServer) -> None:
    process, other = Process(server), server.connect()
    process.struck.meanwhile = lambda: other.delete(KEY, 0)
    ask(server)
    process.link.look()
    assert (process.struck.suffered, process.struck.void) == ([], 1)


def test_one_whose_preparation_takes_too_long_does_nothing(server: MemoryServer) -> None:
    def late() -> None:
        process.now_us = ASKED.take_by_us + 1

    process = Process(server)
    process.struck.meanwhile = late
    ask(server)
    process.link.look()
    assert (process.struck.suffered, process.struck.void) == ([], 1)
    assert kept(server) == ASKED


def test_a_fault_ends_early_once_its_record_is_gone_or_another_one(server: MemoryServer) -> None:
    process, other = Process(server), server.connect()
    for number in (1, 2):
        ask(server)
        process.link.look()
        assert process.struck.relented == number - 1
        other.delete(KEY, 1)
        if number == 1:
            process.link.look()
            assert process.struck.relented == 1
    ask(server)
    process.link.look()
    assert process.struck.relented == 2
    assert len(process.struck.suffered) == 3


def test_why_it_could_not_fail_stands_in_the_record(server: MemoryServer) -> None:
    process = Process(server, why_not="no right to")
    ask(server)
    process.link.look()
    assert kept(server) == msgspec.structs.replace(ASKED, problem="no right to")


def test_it_learns_after_an_outage_what_was_asked_meanwhile(server: MemoryServer) -> None:
    process = Process(server)
    process.store.suspend()
    ask(server)
    with pytest.raises(StoreUnavailable):
        process.link.look()
    process.store.resume()
    process.link.look()
    assert process.struck.suffered == [StrikeKind.HANG]
