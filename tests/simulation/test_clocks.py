"""Wall clocks that are set by an hour, machines that are booted again, clocks that drift."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from orchestrator.control.observe.clocks import CoordinatorClock, uncertainty_us
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.simulation.world.scenario import Scenario
from tests.long_tests import mostly_long
from tests.pairs import BEGIN_MS, SETTLE_S, Input, answer

HOUR_US = 3_600_000_000
SECONDS = 6
ROUNDS = 7
RESTART_S = 2.0

Make = Callable[..., Scenario]


@pytest.fixture
def recording() -> Input:
    return Input.random(seed=11, seconds=SECONDS)


@pytest.fixture
def make(recording: Input, tmp_path: Path) -> Make:
    def made(
        *,
        own_machines: bool,
        candidates: int = 1,
        coordinator_clock: Callable[[], CoordinatorClock] | None = None,
    ) -> Scenario:
        scenario = Scenario(
            recording.manifests(tmp_path, repeat=True),
            seed=3,
            check_invariants=True,
            settle_s=SETTLE_S,
            own_machines=own_machines,
            candidates=candidates,
            coordinator_clock=coordinator_clock,
        )
        scenario.begin()
        scenario.run_for(SECONDS + 2)
        return scenario

    return made


def set_while_away(scenario: Scenario, nodes: tuple[str, ...], by_us: int, *, reboot: bool) -> None:
    """Hosts die, and are started again after their machines' clocks were set."""
    world = scenario.world
    for node in nodes:
        world.kill(node)
    for node in nodes:
        world.set_clock(node, by_us, 0.0)
        if reboot:
            world.machine_of(node).reboot()
    scenario.run_for(RESTART_S)
    for node in nodes:
        world.restart(node)
    scenario.run_for(6.0)


def assert_exact_and_alive(scenario: Scenario, recording: Input) -> None:
    view = read_view(scenario.store)
    (start_us,) = {s.running.start_at_us for s in view.entering.values()}
    assert start_us is not None
    now_ms = BEGIN_MS + (scenario.world.now_us - start_us) // 1000
    for stream, expected in recording.repeated(ROUNDS).expected().items():
        kept = scenario.deliveries[stream]
        delivered = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        end_ms = int(delivered.completed_column("watermark_ms")[-1])
        assert end_ms > now_ms - 1000
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == [row for row in expected if row[0] <= end_ms]
        # The longest latency is that of a site which was away.
        latencies_ms = delivered.latencies_ms
        assert -100 < latencies_ms.min() <= latencies_ms.max() < 6000
        assert abs(latencies_ms[-1]) < 500
    assert "state lost" not in {each.event.kind for each in scenario.store.history()}
    assert all(view.protected(found.record) for found in view.fragments.values())


def assert_clocks_agree(scenario: Scenario) -> None:
    """No two hosts' readings of the cluster's clock differ by more than is stated."""
    view = read_view(scenario.store)
    hosts = [host for host in scenario.world.hosts.values() if host.alive]
    for one, other in combinations(hosts, 2):
        allowed_us = uncertainty_us(view.cluster_clocks, one.clock.boot, other.clock.boot)
        assert allowed_us is not None
        read = [host.core.clock.at(host.clock.now_us()) for host in (one, other)]
        assert abs(read[0] - read[1]) <= allowed_us


@pytest.mark.parametrize("hours", mostly_long([1, -1]))
@pytest.mark.parametrize(("own_machines", "reboot"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("sites", mostly_long([("west-site", "exit"), ("exit",)]), ids="+".join)
def test_sites_started_again_after_their_clock_was_set(
    make: Make,
    recording: Input,
    sites: tuple[str, ...],
    hours: int,
    own_machines: bool,
    reboot: bool,
) -> None:
    scenario = make(own_machines=own_machines)
    set_while_away(scenario, sites, hours * HOUR_US, reboot=reboot)
    assert_exact_and_alive(scenario, recording)
    assert_clocks_agree(scenario)


@pytest.mark.parametrize(
    ("role", "hours", "reboot"),
    [
        ("primary", 1, False),
        ("primary", -1, True),
        ("secondary", -1, False),
        ("secondary", 1, True),
    ],
)
def test_executor_started_again_after_its_clock_was_set(
    make: Make, recording: Input, role: str, hours: int, reboot: bool
) -> None:
    scenario = make(own_machines=True)
    record = read_view(scenario.store).fragments["pairing.strong"].record
    replica = record.primary if role == "primary" else record.secondary
    assert replica is not None
    set_while_away(scenario, (replica.node,), hours * HOUR_US, reboot=reboot)
    scenario.heal()
    assert_exact_and_alive(scenario, recording)
    assert_clocks_agree(scenario)
    for event in (each.event for each in scenario.store.history()):
        assert event.lasted_ms is None or 0 <= event.lasted_ms < 10_000


@pytest.mark.parametrize("drift_ppm", mostly_long([500.0, -500.0]))
def test_clocks_that_drift(make: Make, recording: Input, drift_ppm: float) -> None:
    scenario = make(own_machines=True)
    scenario.world.set_clock("west-site", 0, drift_ppm)
    scenario.world.set_clock("exit", HOUR_US, -drift_ppm)
    for _ in range(10):
        scenario.run_for(1.0)
        assert_clocks_agree(scenario)
    assert_exact_and_alive(scenario, recording)


@pytest.mark.long
def test_all_machines_booted_again_one_after_the_other(make: Make, recording: Input) -> None:
    """Also the reference: the cluster's clock goes on without it."""
    scenario = make(own_machines=True)
    for hours, node in enumerate(scenario.world.hosts):
        set_while_away(scenario, (node,), (1 + hours) * HOUR_US, reboot=True)
        scenario.heal()
        assert_clocks_agree(scenario)
    view = read_view(scenario.store)
    reported = [found.record.reported_us for found in view.nodes.values()]
    assert all(abs(us - scenario.world.now_us) < 2_000_000 for us in reported)


@pytest.mark.parametrize("hours", [1, -1])
def test_coordinator_without_a_host_on_its_machine_whose_clock_is_an_hour_off(
    make: Make, recording: Input, hours: int
) -> None:
    def clock() -> CoordinatorClock:
        return CoordinatorClock("elsewhere", 0)

    scenario = make(own_machines=True, candidates=2, coordinator_clock=clock)
    scenario.world.coordinators_ahead_us = hours * HOUR_US
    scenario.kill_leader()
    record = read_view(scenario.store).fragments["pairing.strong"].record
    scenario.kill(record.primary.node)
    scenario.run_for(10.0)
    scenario.heal()
    assert_exact_and_alive(scenario, recording)
    now_us = scenario.world.now_us
    for event in (each.event for each in scenario.store.history()):
        assert now_us - 60_000_000 < event.at_us <= now_us
