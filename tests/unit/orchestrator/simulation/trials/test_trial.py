"""When a trial is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.simulation.trials.faults import CoordinatorCrash
from orchestrator.simulation.trials.schedule import Schedule, Shape
from orchestrator.simulation.trials.setting import random_setting
from orchestrator.simulation.trials.trial import FaultTrial
from orchestrator.store.protocol import LEADER


@pytest.mark.slow
def test_nothing_is_judged_while_no_coordinator_leads(tmp_path: Path) -> None:
    """A leader may have died between two of its writes: its successor completes them."""
    end_ms = random_setting(4003).seconds * 1000
    crash = CoordinatorCrash(at_ms=end_ms - 100, for_ms=50)
    seen = FaultTrial(Schedule(seed=4003, shape=Shape.SINGLE, faults=(crash,)), tmp_path).run()
    assert seen.healed
    assert LEADER.path in seen.world.server.entries
    entry = seen.world.server.entries[LEADER.path]
    assert entry.owner in {
        client.session for client in seen.world.server.clients if not client.unreachable
    }
