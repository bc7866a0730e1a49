"""What `vivace simulate` says of a campaign that was interrupted."""

from __future__ import annotations

import pytest

from orchestrator import api
from orchestrator.cli import simulate


@pytest.mark.parametrize(("played", "kept"), [(0, False), (2, True)])
def test_of_no_schedule_it_says_that_it_was_interrupted_and_praises_nothing(
    played: int, kept: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = api.Campaign(
        first_seed=7,
        seeds=300,
        played=played,
        before_seed=7 + played,
        faults=played,
        virtual_s=60.0 * played,
        took_s=1.0,
        schedules_s=float(played),
        processes=2,
        failures=(),
    )

    def simulated(*_: object) -> api.Campaign:
        return campaign

    monkeypatch.setattr(api, "simulate", simulated)
    with pytest.raises(KeyboardInterrupt):
        simulate.command(seeds=300)
    said = capsys.readouterr().out
    assert f"Interrupted after {played} of 300 schedules." in said
    assert ("kept every promise" in said) is kept
