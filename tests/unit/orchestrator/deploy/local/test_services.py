"""What the services of a local cluster take, as published."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from orchestrator.deploy.local.services import MEASURE_EVERY_S, STARTING_S, ServiceMeter
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import SERVICES


class Machine:
    """Processes that use processor time when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.used: dict[str, dict[int, float]] = {"coordinator": {7: 100.0}}
        self.store: MemoryStore = MemoryServer().connect()
        self.meter = ServiceMeter(self.store, dict, now_s=lambda: self.now_s, used=self._used)
        self.meter.attend()

    def _used(
        self, parents: Mapping[str, Sequence[int]], hosts: Collection[int]
    ) -> Mapping[str, Mapping[int, float]]:
        return {kind: dict(each) for kind, each in self.used.items()}

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.meter.attend()

    @property
    def cores(self) -> dict[str, float]:
        (found,) = self.store.list(SERVICES).records.values()
        return found.record.cores


def test_what_was_used_before_measuring_began_does_not_count() -> None:
    machine = Machine()
    machine.used["coordinator"][7] += 0.5
    machine.passes(MEASURE_EVERY_S)
    assert machine.cores == {"coordinator": pytest.approx(0.5 / MEASURE_EVERY_S)}


def test_nothing_is_measured_before_it_is_due() -> None:
    machine = Machine()
    machine.passes(MEASURE_EVERY_S / 2)
    assert not machine.store.list(SERVICES).records


def test_a_process_counts_once_it_has_started() -> None:
    machine = Machine()
    machine.used["coordinator"] = {8: 1.0}
    for _ in range(round(STARTING_S / MEASURE_EVERY_S) + 1):
        machine.passes(MEASURE_EVERY_S)
        assert machine.cores == {"coordinator": 0.0}
        machine.used["coordinator"][8] += 1.0
    machine.used["coordinator"][9] = 5.0
    machine.passes(MEASURE_EVERY_S)
    one_s = machine.cores["coordinator"]
    machine.used["coordinator"][8] += 1.0
    machine.passes(MEASURE_EVERY_S)
    assert 0 < one_s < machine.cores["coordinator"] < 1.0 / MEASURE_EVERY_S


def test_a_process_that_is_gone_is_forgotten_with_its_number() -> None:
    """The number may be given to another process, which starts then."""
    machine = Machine()
    machine.used["coordinator"] = {}
    machine.passes(MEASURE_EVERY_S)
    machine.used["coordinator"] = {7: 3.0}
    machine.passes(MEASURE_EVERY_S)
    machine.used["coordinator"][7] += 1.0
    machine.passes(MEASURE_EVERY_S)
    assert machine.cores == {"coordinator": 0.0}


def test_a_store_that_is_away_is_told_afterwards() -> None:
    machine = Machine()
    machine.store.suspend()
    machine.used["coordinator"][7] += 1.0
    machine.passes(MEASURE_EVERY_S)
    machine.store.resume()
    machine.passes(MEASURE_EVERY_S)
    assert machine.cores == {"coordinator": pytest.approx(1.0 / (2 * MEASURE_EVERY_S))}
