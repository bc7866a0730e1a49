"""A campaign of schedules: what it says of one that cannot be played."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.simulation.trials import campaign
from orchestrator.simulation.trials.campaign import ScheduleSelection, judge
from orchestrator.simulation.trials.schedule import Schedule
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
