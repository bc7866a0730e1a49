"""Statements are tried on a host before they are applied, whoever dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.records import ApplyRequest, DisturbedLink, ProposalRecord, RequestRecord
from orchestrator.simulation.world.hosts import TRIAL_US
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import LINKS, PROPOSALS, QUERIES, REQUESTS, TRIALS
from tests.pairs import FRAGMENTS, SETTLE_S, Input


class Asking:
    """A client of a cluster on a virtual clock that asks for a plan, and consents to it."""

    def __init__(self, folder: Path) -> None:
        self._given = Input.random(seed=8, seconds=10).manifests(folder)
        self.scenario = Scenario(
            self._given, seed=2, check_invariants=True, settle_s=SETTLE_S, candidates=2
        )
        self.store = self.scenario.store
        self.scenario.run_for(SETTLE_S)

    def ask(self, meanwhile: Callable[[Scenario, str], None] | None = None) -> ProposalRecord:
        """Ask, and let time pass until the leader proposes something.

        Parameters
        ----------
        meanwhile
            What happens during the first trial; it gets the host that has been asked.
        """
        world = self.scenario.world
        wish = ApplyRequest(streams=self._given.streams, queries=self._given.queries)

        def strike() -> None:
            (found,) = self.store.list(TRIALS).records.values()
            assert found.record.result is None
            if meanwhile is not None:
                meanwhile(self.scenario, found.record.host.node)

        def changed(path: str) -> None:
            if path.startswith(TRIALS.path):
                world.server.on_change = lambda _: None
                world.at(world.now_us + TRIAL_US // 2, strike)

        world.server.on_change = changed
        self.store.create(REQUESTS.key("asked"), RequestRecord(wish=wish))
        for _ in range(100):
            if (proposal := self.store.get(PROPOSALS.key("asked"))) is not None:
                assert not self.store.list(TRIALS).records
                return proposal.record
            self.scenario.run_for(1.0)
        raise AssertionError("nothing is proposed")

    def consent(self) -> None:
        found = self.store.get(PROPOSALS.key("asked"))
        assert found is not None
        consented = msgspec.structs.replace(found.record, consented=True)
        self.store.update(PROPOSALS.key("asked"), consented, found.version)


def trials_of(proposal: ProposalRecord) -> set[str]:
    (running,) = proposal.running
    return {*running.trials}


def test_the_leader_goes_on_deciding_while_a_host_tries_statements(tmp_path: Path) -> None:
    left: list[str] = []

    def wish(scenario: Scenario, _: str) -> None:
        """What the leader is to delete: its time is over."""
        link = DisturbedLink(source="n1", target="n2", until_us=scenario.world.now_us)
        scenario.store.create(LINKS.key(link.name), link)

        def look() -> None:
            assert scenario.store.list(TRIALS).records
            left.extend([*scenario.store.list(LINKS).records, "looked"])

        scenario.world.at(scenario.world.now_us + TRIAL_US // 3, look)

    asking = Asking(tmp_path)
    proposal = asking.ask(wish)
    assert left == ["looked"]
    assert trials_of(proposal) == {*FRAGMENTS}
    asking.consent()
    asking.scenario.run_for(2.0)
    assert asking.store.list(QUERIES).records.keys() == {"pairing"}


def test_the_same_seed_gives_the_same_proposal(tmp_path: Path) -> None:
    assert Asking(tmp_path).ask() == Asking(tmp_path).ask()


def kill(scenario: Scenario, host: str) -> None:
    scenario.world.kill(host)


def pause(scenario: Scenario, host: str) -> None:
    scenario.world.pause(host)


def kill_leader(scenario: Scenario, _: str) -> None:
    scenario.kill_leader()


@pytest.mark.parametrize("fault", [kill, pause, kill_leader])
def test_another_host_tries_them_if_the_host_or_the_leader_dies_meanwhile(
    tmp_path: Path, fault: Callable[[Scenario, str], None]
) -> None:
    assert trials_of(Asking(tmp_path).ask(fault)) == {*FRAGMENTS}
