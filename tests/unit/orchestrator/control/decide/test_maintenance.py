"""Processes that are told to end do so one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from orchestrator.control.decide.maintenance import SUCCESSOR_US
from orchestrator.control.observe.view import SLOT
from orchestrator.records import FailureLabels, SlotRecord, TurnRecord
from orchestrator.simulation.world.memory_store import MemoryStore
from orchestrator.store.protocol import TURNS
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

FIRST, SECOND = EXECUTORS[::2], EXECUTORS[1::2]


@dataclass
class Rolled:
    """A cluster of two applications, and the sessions of processes that were told to end."""

    cluster: ObedientCluster = field(default_factory=ObedientCluster)
    told: dict[str, MemoryStore] = field(default_factory=dict[str, MemoryStore])

    def tell(self, owner: str, *nodes: str) -> None:
        """Have a process take a turn."""
        store = self.cluster.server.connect()
        lives = {name: self.cluster.hosts[name].record.incarnation for name in nodes}
        turn = TurnRecord(owner=owner, nodes=nodes, lives=lives, since_us=1, until_us=10**18)
        store.create(TURNS.key(owner), turn, ephemeral=True)
        self.told[owner] = store

    def tell_lives(self, owner: str) -> None:
        """Have a process say which hosts it has now."""
        found = self.cluster.view().turns[owner]
        lives = {n: self.cluster.hosts[n].record.incarnation for n in found.record.nodes}
        turn = msgspec.structs.replace(found.record, lives=lives)
        self.told[owner].update(TURNS.key(owner), turn, found.version)

    def end(self, owner: str, *nodes: str) -> None:
        for name in nodes:
            self.cluster.kill(name)
        self.told.pop(owner).close()

    def start(self, *nodes: str) -> None:
        for name in nodes:
            self.cluster.up(name)
        self.divide()

    def divide(self) -> None:
        for name in EXECUTORS:
            if name in self.cluster.hosts:
                application = "application-1" if name in FIRST else "application-2"
                labels = FailureLabels(application=application)
                self.cluster.hosts[name].tell(labels=labels)

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.now_us += 1_000_000
            self.cluster.settle()
            self.cluster.check_invariants()

    @property
    def slot(self) -> SlotRecord | None:
        found = self.cluster.store.get(SLOT)
        return None if found is None else found.record

    @property
    def owner(self) -> str | None:
        return None if self.slot is None else self.slot.owner


@pytest.fixture
def rolled() -> Rolled:
    made = Rolled()
    made.divide()
    made.cluster.apply(aircraft())
    made.pass_time(20)
    return made


def test_applications_have_turns_one_after_the_other(rolled: Rolled) -> None:
    rolled.tell("one", *FIRST)
    rolled.tell("two", *SECOND)
    rolled.pass_time(1)
    assert rolled.owner == "one"
    rolled.pass_time(9)
    assert rolled.slot is not None
    assert rolled.slot.may_end
    assert not rolled.slot.stays
    view = rolled.cluster.view()
    assert all(view.settled(found.record) for found in view.fragments.values())
    assert all(each.node in SECOND for f in view.fragments.values() for each in f.record.replicas)
    rolled.end("one", *FIRST)
    rolled.pass_time(3)
    assert rolled.owner == "one"
    assert rolled.slot.ended_us is not None
    rolled.start(*FIRST)
    assert not rolled.cluster.view().closed
    rolled.pass_time(20)
    # It was given back, and the next one has it.
    assert rolled.owner == "two"
    history = rolled.cluster.history()
    assert history.index("maintenance over: one") < history.index("maintenance: two")


def test_nobody_has_a_turn_while_something_is_unprotected(rolled: Rolled) -> None:
    record = next(iter(rolled.cluster.view().fragments.values())).record
    assert record.secondary is not None
    rolled.cluster.hosts[record.secondary.node].cold = True
    rolled.cluster.settle()
    rolled.tell("site desk", "control-centre")
    rolled.pass_time(3)
    assert rolled.slot is None
    assert f"site desk waits until it may end: {record.key} is not protected" in (
        rolled.cluster.coordination.problems
    )
    rolled.cluster.hosts[record.secondary.node].cold = False
    rolled.pass_time(2)
    assert rolled.owner == "site desk"


def test_a_site_may_end_although_its_outputs_go_nowhere_and_the_slot_tells(rolled: Rolled) -> None:
    rolled.tell("site control-centre", "control-centre")
    rolled.pass_time(2)
    assert rolled.slot is not None
    assert rolled.slot.may_end
    assert rolled.slot.stays == {"alerts": "results leave at one site only"}
    assert rolled.cluster.assignment("control-centre").may_end


def test_hosts_that_are_started_below_a_process_that_ends_are_not_used(rolled: Rolled) -> None:
    rolled.tell("one", *FIRST)
    rolled.pass_time(1)
    rolled.cluster.restart(FIRST[0])
    rolled.divide()
    rolled.tell_lives("one")
    assert rolled.cluster.view().leaving.keys() == {*FIRST}
    rolled.pass_time(9)
    assert rolled.slot is not None
    assert rolled.slot.lives[FIRST[0]] == rolled.cluster.hosts[FIRST[0]].record.incarnation
    # Its process has gone before its hosts have.
    rolled.told.pop("one").close()
    rolled.pass_time(2)
    assert rolled.cluster.view().leaving.keys() == {*FIRST}


@pytest.mark.parametrize("has_slot", [False, True])
def test_a_process_that_is_killed_and_replaced_keeps_nobody_waiting(
    rolled: Rolled, *, has_slot: bool
) -> None:
    """Its turn stays until its session ends; its successor's hosts are there before."""
    rolled.tell("site", "control-centre")
    if has_slot:
        rolled.pass_time(1)
        assert rolled.owner == "site"
    rolled.cluster.restart("control-centre")
    rolled.tell("two", *SECOND)
    rolled.pass_time(2)
    assert rolled.owner == ("site" if has_slot else "two")
    assert "control-centre" not in rolled.cluster.view().leaving
    rolled.told.pop("site").close()
    rolled.pass_time(3)
    assert rolled.owner == "two"
    assert "maintenance given up: site" not in rolled.cluster.history()


def test_a_successor_that_never_comes_is_awaited_for_a_while(rolled: Rolled) -> None:
    rolled.tell("one", *FIRST)
    rolled.pass_time(9)
    rolled.end("one", *FIRST)
    rolled.cluster.settle()
    rolled.tell("two", *SECOND)
    rolled.pass_time(5)
    assert rolled.owner == "one"
    rolled.cluster.now_us += SUCCESSOR_US
    rolled.pass_time(2)
    assert rolled.owner == "two"
    assert "maintenance given up: one" in rolled.cluster.history()


def test_a_process_whose_session_was_lost_for_a_moment_keeps_its_turn(rolled: Rolled) -> None:
    rolled.tell("one", *FIRST)
    rolled.pass_time(1)
    rolled.told.pop("one").close()
    rolled.pass_time(1)
    assert rolled.slot is not None
    assert rolled.slot.ended_us is not None
    rolled.tell("one", *FIRST)
    rolled.pass_time(1)
    assert rolled.slot.ended_us is None


def test_a_successor_of_the_leader_goes_on(rolled: Rolled) -> None:
    rolled.tell("one", *FIRST)
    rolled.pass_time(1)
    rolled.cluster.coordination.election.resign()
    rolled.pass_time(9)
    assert rolled.slot is not None
    assert rolled.slot.may_end
