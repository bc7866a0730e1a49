"""How long tasks rest: by what the standbys of a host have taken lately."""

from __future__ import annotations

import pytest

from orchestrator.host.rests import Rests
from streams.scheduling.recent_rates import RecentRates
from tests.quiet_host import MS

NOW_US = 12_800 * MS


@pytest.mark.parametrize(("cores", "rests_ms"), [(0.01, 320), (0.25, 160), (0.9, 160)])
def test_many_standbys_rest_for_no_longer_than_they_can_make_up_for_within_their_lag(
    cores: float, rests_ms: int
) -> None:
    taken = RecentRates(4, now_us=0)
    taken.add(cores * NOW_US / 1e6, 0, 0, 0)
    rests = Rests(batch_us=10 * MS)
    rests.look(NOW_US, [taken])
    until_us, _ = rests.ends_us(NOW_US, 100 * MS, standby=True, replicas=60, lag_us=0)
    assert until_us - NOW_US == rests_ms * MS
