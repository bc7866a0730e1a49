"""Trials of statements on hosts: which one is asked, and what follows if it does not respond."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import msgspec
import pytest

from orchestrator.control import host_trials
from orchestrator.control.host_trials import LOOK_EVERY_S, TIMEOUT_S, HostTrials, usable_hosts
from orchestrator.control.planning.trying import ALL_US
from orchestrator.control.process import Coordination
from orchestrator.host.shell.trial_responses import TrialResponses
from orchestrator.records import (
    CordonRecord,
    HostLoad,
    HostTrial,
    Processors,
    ReplicaId,
    Trial,
    TrialResult,
    Tried,
    TriedFragment,
)
from orchestrator.store.protocol import CORDONS, TRIALS
from tests.decided import once
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft

TRIAL = Trial(
    fragments=(
        TriedFragment(
            name="a",
            statement="REGISTER QUERY a RSTREAM(SELECT id FROM north [NOW]);",
            inputs={"north": {"id": "string"}},
            columns={"id": "string"},
            rejected=False,
            asked=True,
        ),
    ),
    streams=(),
    batch_ms=10.0,
    patience_us=1.0,
)

RESULT = TrialResult(
    tried={"a": Tried(selectivity=0.5, fixed_us=3.0, per_tuple_us=2.0)},
    recorded=("north",),
    took_us=400_000,
)

NOTHING = TrialResult(tried={}, recorded=(), took_us=0)


class Asked:
    """A leader's trials in a cluster whose hosts respond at once, unless they are silent.

    Attributes
    ----------
    hosts
        Who has run a trial.
    meanwhile
        Called while the leader waits.
    """

    def __init__(self, silent: tuple[str, ...] = ()) -> None:
        self.cluster = ObedientCluster()
        self.hosts: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.now_us = 0
        for name in EXECUTORS:
            if name not in silent:
                self._respond(name)
        self.trials = HostTrials(self.cluster.coordinator_store, lambda: self.now_us, self._wait)

    def _respond(self, name: str) -> None:
        def run(trial: Trial) -> TrialResult:
            assert trial == TRIAL
            self.hosts.append(name)
            return RESULT

        host = self.cluster.hosts[name]
        replica = ReplicaId(node=name, incarnation=host.record.incarnation)
        host.store.watch(TRIALS, TrialResponses(host.store, replica, run).respond)

    def _wait(self, event: Event, seconds: float) -> None:
        assert seconds == LOOK_EVERY_S
        self.meanwhile()
        if not event.is_set():
            self.now_us += round(seconds * 1e6)

    def run(self, count: int = 1) -> list[TrialResult]:
        """The results of the trials of one request."""
        tries = self.trials.among(self.cluster.view())
        return [tries(TRIAL) for _ in range(count)]

    @property
    def left(self) -> dict[str, HostTrial]:
        """Trials that are still in the store."""
        listed = self.cluster.store.list(TRIALS).records
        return {name: found.record for name, found in listed.items()}


def load(cores: float, speed: float = 1.0) -> HostLoad:
    return HostLoad(cores=cores, evaluating_cores=0.0, speed=speed)


def own_machine(name: str) -> Processors:
    return Processors(machine=name, shared=name, count=1.0)


def busy(cluster: ObedientCluster, loads: dict[str, HostLoad]) -> None:
    """Every executor has a machine of its own, and is this busy; 0.5 if not said."""
    for name in EXECUTORS:
        loaded = loads.get(name, load(0.5))
        cluster.hosts[name].tell(load=loaded, processors=own_machine(name))


def test_the_result_is_what_the_host_has_found_and_no_record_stays() -> None:
    asked = Asked()
    assert asked.run() == [RESULT]
    assert asked.hosts == [EXECUTORS[0]] or len(asked.hosts) == 1
    assert not asked.left


def test_the_least_busy_host_is_asked_for_all_trials_and_the_same_one_next_time() -> None:
    asked = Asked()
    busy(asked.cluster, {"lyon": load(0.1)})
    assert asked.run(3) == [RESULT] * 3
    busy(asked.cluster, {"paris": load(0.05), "lyon": load(0.1)})
    asked.run()
    assert asked.hosts == ["lyon"] * 4
    busy(asked.cluster, {"paris": load(0.05), "lyon": load(1.2)})
    asked.run()
    assert asked.hosts[-1] == "paris"


def test_a_slow_host_is_asked_last() -> None:
    cluster = ObedientCluster()
    busy(cluster, {"lyon": load(0.1, speed=0.4), "paris": load(0.2, speed=0.6)})
    names = [host.node for host in usable_hosts(cluster.view())]
    assert (names[0], names[-1]) == ("paris", "lyon")


def test_cordoned_nodes_and_sites_are_not_asked() -> None:
    cluster = ObedientCluster()
    cluster.store.create(CORDONS.key("lyon"), CordonRecord(node="lyon", since_us=0))
    assert {host.node for host in usable_hosts(cluster.view())} == {*EXECUTORS} - {"lyon"}


def test_a_silent_host_is_waited_for_once_and_another_one_asked() -> None:
    asked = Asked(silent=("lyon",))
    busy(asked.cluster, {"lyon": load(0.1), "paris": load(0.2)})
    assert asked.run(2) == [RESULT] * 2
    assert asked.hosts == ["paris"] * 2
    assert asked.now_us == TIMEOUT_S * 1e6
    assert not asked.left


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_host_that_ends_is_not_waited_for(comes_back: bool) -> None:
    asked = Asked(silent=("lyon",))
    busy(asked.cluster, {"lyon": load(0.1), "paris": load(0.2)})

    def end() -> None:
        asked.meanwhile = lambda: None
        asked.cluster.hosts.pop("lyon").store.close()
        if comes_back:
            asked.cluster.up("lyon")

    asked.meanwhile = end
    assert asked.run() == [RESULT]
    assert asked.hosts == ["paris"]
    assert asked.now_us <= 2 * LOOK_EVERY_S * 1e6


def test_if_nobody_responds_the_time_of_all_trials_of_the_request_is_over() -> None:
    asked = Asked(silent=EXECUTORS)
    first, second = asked.run(2)
    assert (first.tried, first.recorded) == ({}, ())
    assert first.took_us == 2 * TIMEOUT_S * 1e6 > ALL_US
    assert second == NOTHING
    assert not asked.left


def test_without_a_store_nothing_is_tried() -> None:
    asked = Asked()
    tries = asked.trials.among(asked.cluster.view())
    asked.cluster.coordinator_store.suspend()
    assert tries(TRIAL) == NOTHING


def test_a_lost_session_takes_the_trial_along() -> None:
    asked = Asked(silent=EXECUTORS)
    store = asked.cluster.coordinator_store

    def lose() -> None:
        store.suspend()
        store.expire()
        store.resume()

    asked.meanwhile = lose
    assert asked.run() == [NOTHING]
    assert not asked.left


def test_what_the_store_does_not_take_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_trials, "MOST_BYTES", 100)
    asked = Asked()
    assert asked.run() == [NOTHING]
    assert not asked.hosts


def test_a_host_leaves_what_is_done_or_asked_of_others() -> None:
    cluster = ObedientCluster()
    host = ReplicaId(node="lyon", incarnation="now")
    others = {
        "other": HostTrial(host=ReplicaId(node="paris", incarnation="now"), trial=TRIAL),
        "before": HostTrial(host=ReplicaId(node="lyon", incarnation="before"), trial=TRIAL),
        "done": HostTrial(host=host, trial=TRIAL, result=RESULT),
    }
    for name, record in others.items():
        cluster.store.create(TRIALS.key(name), record)
    cluster.store.create(TRIALS.key("mine"), HostTrial(host=host, trial=TRIAL))
    ran: list[Trial] = []

    def run(trial: Trial) -> TrialResult:
        ran.append(trial)
        # Who asked has gone meanwhile.
        cluster.store.delete(TRIALS.key("mine"), 0)
        return RESULT

    TrialResponses(cluster.store, host, run).respond()
    assert ran == [TRIAL]
    found = cluster.store.list(TRIALS).records
    assert {name: each.record for name, each in found.items()} == others
    assert {each.version for each in found.values()} == {0}


@pytest.mark.slow
def test_what_the_leader_proposes_rests_on_a_trial_of_a_host() -> None:
    """Once a host responds; before, statements run as they were written, with assumed costs."""
    cluster = ObedientCluster()
    now_us = iter(range(0, 10**12, 10_000_000)).__next__
    trials = HostTrials(cluster.coordinator_store, now_us, lambda _event, _seconds: None)
    cluster.coordination = Coordination(cluster.coordinator_store, "coordinator-1", trials=trials)
    (query,) = aircraft().queries
    unknown = msgspec.structs.replace(query.record, estimates={})
    query = msgspec.structs.replace(query, record=unknown)
    given = msgspec.structs.replace(aircraft(), queries=(query,))
    untried = cluster.propose(given, "untried")
    assert [each.trials for each in untried.running] == [{}]
    host = cluster.hosts["lyon"]
    responses = TrialResponses(host.store, cluster.view().replica("lyon"), once)
    host.store.watch(TRIALS, responses.respond)
    busy(cluster, {"lyon": load(0.1)})
    tried = cluster.propose(given, "tried")
    (running,) = tried.running
    assert running.trials.keys() == {"north_tracks", "south_tracks", "alerts"}
    assert cluster.store.list(TRIALS).records == {}
