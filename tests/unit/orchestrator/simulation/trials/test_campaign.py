"""A campaign of schedules: what it says of one that cannot be played."""

from __future__ import annotations

import logging

import msgspec
import pytest

from orchestrator.simulation.trials import campaign
from orchestrator.simulation.trials.campaign import ScheduleSelection, TrialVerdict, judge
from orchestrator.simulation.trials.schedule import Schedule, Shape
from orchestrator.store.protocol import StoreUnavailable


def test_a_schedule_that_cannot_be_played_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Schedule) -> None:
        raise StoreUnavailable("cluster", "the session is SUSPENDED")

    monkeypatch.setattr(campaign, "check", fail)
    with pytest.raises(RuntimeError, match="seed 4711 cannot be played") as caught:
        judge(4711, ScheduleSelection())
    assert "the session is SUSPENDED" in str(caught.value)
    # The process that sums up can be handed it: errors of the product have arguments of their own.
    assert type(caught.value) is RuntimeError


def test_a_schedule_of_a_former_edition_is_refused_and_not_played_as_another_one() -> None:
    former = b'{"seed": 1, "shape": "none", "faults": [], "first_forms": true}'
    with pytest.raises(msgspec.ValidationError, match="first_forms"):
        msgspec.json.decode(former, type=Schedule)


def test_a_process_that_has_played_schedules_logs_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    level = logging.getLogger("orchestrator").level
    levels: list[int] = []

    def played(seed: int, _: ScheduleSelection) -> TrialVerdict:
        levels.append(logging.getLogger("orchestrator").level)
        return TrialVerdict(seed=seed, shape=Shape.NONE, faults=0, virtual_s=1.0, failure=None)

    monkeypatch.setattr(campaign, "judge", played)
    campaign.run(1, 1, ScheduleSelection(), processes=1)
    assert levels == [logging.ERROR]
    assert logging.getLogger("orchestrator").level == level
