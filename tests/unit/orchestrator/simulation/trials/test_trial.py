"""When a trial is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.control.decide.completing import PLACED_AGAIN
from orchestrator.control.observe.view import read_view
from orchestrator.simulation.trials.faults import CoordinatorCrash
from orchestrator.simulation.trials.schedule import Schedule, Shape, random_schedule
from orchestrator.simulation.trials.setting import ALL_IS_KEPT, random_setting
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


@pytest.mark.slow
def test_nothing_is_judged_before_queries_are_placed_again_with_nodes_that_were_away(
    tmp_path: Path,
) -> None:
    """Their moves begin long after everything is healed: when all links have been measured."""
    seen = FaultTrial(random_schedule(387682509, edition=ALL_IS_KEPT), tmp_path).run()
    assert any(entry.text.startswith(PLACED_AGAIN) for entry in seen.entries)
    view = read_view(seen.world.server.connect())
    assert all(found.record.ended_us is not None for found in view.moves.values())
    assert not any(found.record.lacked for found in view.fragments.values())
