"""A host's clock that is set, and that drifts."""

from __future__ import annotations

from orchestrator.simulation.clocks import HostClock


def test_steps_and_drift_add_up() -> None:
    world_us = 1_000_000
    clock = HostClock(lambda: world_us)
    assert clock.now_us() == world_us
    clock.step(-300)
    clock.drift(100.0)
    world_us += 2_000_000
    assert clock.now_us() == world_us - 300 + 200
    clock.drift(0.0)
    world_us += 2_000_000
    assert clock.now_us() == world_us - 100


def test_a_shown_time_is_found_on_the_world_clock() -> None:
    world_us = 1_000_000
    clock = HostClock(lambda: world_us)
    clock.step(500)
    clock.drift(-100_000.0)
    due_us = clock.world_time_us(clock.now_us() + 900)
    assert due_us == world_us + 1000
    # What has been shown already is due now.
    assert clock.world_time_us(0) == world_us
