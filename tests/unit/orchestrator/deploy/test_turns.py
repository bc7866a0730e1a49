"""How a process that is told to end waits for its turn."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

import msgspec
import pytest

from orchestrator.control.observe.view import SLOT
from orchestrator.deploy.turns import ALONE_S, EndSignals, Turn
from orchestrator.records import SlotRecord
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import LEADER, TURNS, LeaderRecord

GRACE_S = 1000.0


@dataclass
class Waiting:
    """A process that waits, and the clock."""

    server: MemoryServer = field(default_factory=MemoryServer)
    now_s: float = 0.0
    lives: dict[str, str] = field(default_factory=lambda: {"desk": "desk-1"})

    def __post_init__(self) -> None:
        self.other: MemoryStore = self.server.connect()
        self.other.create(LEADER, LeaderRecord(candidate="c"), ephemeral=True)
        self.store: MemoryStore = self.server.connect()
        self.turn = Turn(
            self.store, "site desk", ("desk",), lambda: dict(self.lives),
            grace_s=GRACE_S, now_s=lambda: self.now_s,
            cluster_us=lambda: round(self.now_s * 1e6) + 5, token="1",
        )  # fmt: skip

    def slot(self, **changes: object) -> None:
        record = SlotRecord(turn=self.turn.name, owner="site desk", nodes=("desk",), since_us=0)
        record = msgspec.structs.replace(record, **changes)
        if (found := self.other.get(SLOT)) is None:
            self.other.create(SLOT, record)
        else:
            self.other.update(SLOT, record, found.version)


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_it_ends_once_it_has_the_slot_and_has_left(waiting: Waiting) -> None:
    assert not waiting.turn.may_end()
    (turn,) = waiting.other.list(TURNS).records.values()
    assert (turn.record.owner, turn.record.nodes) == ("site desk", ("desk",))
    assert (turn.record.since_us, turn.record.until_us) == (5, 5 + round(GRACE_S * 1e6))
    waiting.slot(turn="of another", may_end=True)
    assert not waiting.turn.may_end()
    waiting.slot()
    assert not waiting.turn.may_end()
    waiting.slot(may_end=True)
    assert waiting.turn.may_end()
    # The turn lasts as long as the process.
    assert waiting.other.list(TURNS).records
    waiting.store.close()
    assert not waiting.other.list(TURNS).records


def test_it_tells_which_hosts_end_with_it(waiting: Waiting) -> None:
    assert not waiting.turn.may_end()
    waiting.lives["desk"] = "desk-2"
    assert not waiting.turn.may_end()
    (turn,) = waiting.other.list(TURNS).records.values()
    assert turn.record.lives == {"desk": "desk-2"}
    assert turn.version == 1
    assert not waiting.turn.may_end()
    assert [each.version for each in waiting.other.list(TURNS).records.values()] == [1]


def test_it_waits_for_no_more_than_its_grace(waiting: Waiting) -> None:
    waiting.now_s = GRACE_S - 1
    assert not waiting.turn.may_end()
    waiting.now_s = GRACE_S
    assert waiting.turn.may_end()


def test_it_ends_if_its_turn_is_taken_from_it(waiting: Waiting) -> None:
    assert not waiting.turn.may_end()
    key = TURNS.key(waiting.turn.name)
    found = waiting.other.get(key)
    assert found is not None
    waiting.other.delete(key, found.version)
    assert waiting.turn.may_end()


def test_a_lost_session_takes_no_turn_from_it(waiting: Waiting) -> None:
    assert not waiting.turn.may_end()
    before = waiting.other.list(TURNS).records
    waiting.store.expire()
    waiting.store.resume()
    assert not waiting.turn.may_end()
    after = waiting.other.list(TURNS).records
    assert {n: each.record for n, each in before.items()} == {
        n: each.record for n, each in after.items()
    }


@pytest.mark.parametrize("away", ["leader", "store"])
def test_it_does_not_wait_for_long_where_nobody_can_give_it_a_turn(
    waiting: Waiting, away: str
) -> None:
    assert not waiting.turn.may_end()
    if away == "leader":
        waiting.other.close()
    else:
        waiting.server.go_away()
    waiting.now_s = ALONE_S - 1
    assert not waiting.turn.may_end()
    waiting.now_s = ALONE_S
    assert waiting.turn.may_end()


def test_it_waits_while_the_only_server_and_all_coordinators_are_replaced(waiting: Waiting) -> None:
    """An upgrade ends them together with everybody who waits. On a busy machine a leader was there
    again after 48 s."""
    assert not waiting.turn.may_end()
    waiting.server.go_away()
    waiting.now_s = 100
    assert not waiting.turn.may_end()
    waiting.server.come_back()
    waiting.other.expire()
    waiting.now_s = 150
    assert not waiting.turn.may_end()
    waiting.other.resume()
    waiting.other.create(LEADER, LeaderRecord(candidate="d"), ephemeral=True)
    assert not waiting.turn.may_end()
    waiting.now_s = 150 + ALONE_S
    assert not waiting.turn.may_end()
    waiting.slot(may_end=True)
    assert waiting.turn.may_end()
    assert waiting.turn.has_left


def test_sigterm_has_a_process_leave_and_others_end_it_at_once() -> None:
    ending = EndSignals()
    assert not ending()
    ending.told(signal.SIGTERM)
    assert (ending(), ending.at_once) == (True, False)
    ending.told(signal.SIGTERM)
    assert ending.at_once
    interrupted = EndSignals()
    interrupted.told(signal.SIGINT)
    assert (interrupted(), interrupted.at_once) == (True, True)
