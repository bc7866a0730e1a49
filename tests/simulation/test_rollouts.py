"""Hosts leave, and processes take turns to end, while tuples flow."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.decide.maintenance import BEGINS, OVER
from orchestrator.simulation.trials.campaign import check
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.trials.rollouts import AnyRollout, HostLeaves, ProcessesEnd
from orchestrator.simulation.trials.schedule import Schedule, Shape, random_schedule
from orchestrator.simulation.trials.setting import ALL_IS_KEPT


def played(seed: int, *rollouts: AnyRollout) -> Observed:
    """A seed's cluster without a fault, and nothing but this."""
    drawn = random_schedule(seed, shapes=(Shape.NONE,), edition=ALL_IS_KEPT)
    schedule: Schedule = msgspec.structs.replace(
        drawn, operations=(), visit=None, observers=(), rollouts=rollouts
    )
    seen, found = check(schedule)
    assert not found
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 14])
def test_a_host_leaves_and_output_never_rests(seed: int) -> None:
    leaves = HostLeaves(at_ms=1000, target="primary:f1", within_ms=30_000)
    seen = played(seed, leaves)
    assert any(each.text.startswith("switched over ") for each in seen.entries)
    assert not any(each.text.startswith("took over ") for each in seen.entries)


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_waits_and_replaced_keeps_nobody_waiting() -> None:
    """Its turn stays until its session ends, and names no host of its successor's."""
    _, found = check(random_schedule(146, shapes=(Shape.SEVERAL,), edition=ALL_IS_KEPT))
    assert not found


@pytest.mark.slow
def test_all_hosts_but_the_sites_end_in_turn_and_output_never_rests() -> None:
    nodes = random_schedule(4, shapes=(Shape.NONE,), edition=ALL_IS_KEPT).setting.executors
    rolled = ProcessesEnd(at_ms=500, nodes=tuple(nodes), grace_ms=300_000, back_ms=1000)
    seen = played(4, rolled)
    told = [each.text.partition(":")[0] for each in seen.entries if each.subject == "history"]
    turns = [text.removeprefix(f"{OVER} ") for text in told if text.startswith(f"{OVER} ")]
    assert sorted(turns) == sorted(nodes)
    assert sum(text.startswith(f"{BEGINS} ") for text in told) >= 2 * len(nodes)
    assert not any(each.text.startswith("took over ") for each in seen.entries)
