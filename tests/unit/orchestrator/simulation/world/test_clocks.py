"""Clocks of a machine, and of processes that start on it."""

from __future__ import annotations

from orchestrator.simulation.world.clocks import HostClock, Machine


class World:
    def __init__(self) -> None:
        self.now_us = 1_000_000
        self.machine = Machine("m", lambda: self.now_us)


def test_drift_is_seen_at_once_and_a_step_by_those_who_start_later() -> None:
    world = World()
    before = HostClock(world.machine)
    assert before.now_us() == world.now_us
    world.machine.set_wall(-300)
    world.machine.drift(100.0)
    world.now_us += 2_000_000
    assert before.now_us() == world.now_us + 200
    world.machine.drift(0.0)
    world.now_us += 2_000_000
    assert before.now_us() == world.now_us + 200
    assert HostClock(world.machine).now_us() == world.now_us + 200 - 300


def test_the_wall_clock_goes_on_when_the_machine_is_booted_again() -> None:
    world = World()
    before = HostClock(world.machine)
    world.machine.set_wall(50)
    world.machine.reboot()
    assert world.machine.monotonic_us() == 0
    after = HostClock(world.machine)
    assert after.now_us() == world.now_us + 50
    assert before.boot != after.boot == world.machine.boot


def test_a_shown_time_is_found_on_the_world_clock() -> None:
    world = World()
    world.machine.set_wall(500)
    world.machine.drift(-100_000.0)
    clock = HostClock(world.machine)
    due_us = clock.world_time_us(clock.now_us() + 900)
    assert due_us == world.now_us + 1000
    # What has been shown already is due now.
    assert clock.world_time_us(0) == world.now_us
