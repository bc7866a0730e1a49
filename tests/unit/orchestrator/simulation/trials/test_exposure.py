"""Which faults take the last state of a fragment, in whatever order they come."""

from __future__ import annotations

import pytest
from msgspec import structs

from orchestrator.simulation.trials.campaign import check
from orchestrator.simulation.trials.faults import Crash, LinkCut
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.trials.schedule import random_schedule
from orchestrator.simulation.trials.setting import ALL_IS_KEPT

pytestmark = pytest.mark.slow

BATCHES = structs.replace(random_schedule(745263, edition=ALL_IS_KEPT), observers=())
"""The standby of `f1` is sent batches of `s2`, whose site, `site2`, cannot bring it in again."""

DEAF = structs.replace(random_schedule(3100199, edition=ALL_IS_KEPT), observers=())
"""The log of `s3`, which `f3` reads, is full within the seconds for which it is kept for a silent
host."""

PRIMARY, SITE = "primary:f1", "site2"


def _played(*crashes: tuple[int, str]) -> Observed:
    """A trial that keeps every promise, with crashes at these times."""
    faults = tuple(Crash(at_ms=at_ms, for_ms=1500, target=target) for at_ms, target in crashes)
    seen, found = check(structs.replace(BATCHES, faults=faults))
    assert found == []
    return seen


def _has_lost_state(seen: Observed, fragment: str = "q1.f1") -> bool:
    return any(entry.text.startswith(f"state lost {fragment}") for entry in seen.entries)


@pytest.mark.parametrize("targets", [(PRIMARY, SITE), (SITE, PRIMARY)])
def test_a_standby_lacks_what_a_site_keeps_back_whichever_dies_first(
    targets: tuple[str, str],
) -> None:
    """When the site dies after the primary, the standby has yet to hear how far that one was."""
    seen = _played(*((1610, target) for target in targets))
    assert _has_lost_state(seen)
    assert "f1" in seen.exposed_us


def test_a_standby_that_has_come_as_far_as_the_lost_primary_lacks_nothing() -> None:
    seen = _played((1610, PRIMARY), (1810, SITE))
    assert not _has_lost_state(seen)
    assert "f1" not in seen.exposed_us


@pytest.mark.parametrize("crash_ms", [2000, 3400, 4300])
def test_a_primary_that_its_site_does_not_hear_may_not_get_what_its_lost_standby_had(
    crash_ms: int,
) -> None:
    """The site's log drops that before or after the standby is lost, or another standby gets it."""
    cut = LinkCut(
        at_ms=460, for_ms=4190, here="primary:f3", there="site1", both_ways=False, notice=False
    )
    crash = Crash(at_ms=crash_ms, for_ms=1330, target="secondary:f3")
    seen, found = check(structs.replace(DEAF, faults=(cut, crash)))
    assert found == []
    assert _has_lost_state(seen, "q2.f3") == ("f3" in seen.exposed_us) == (crash_ms > 2000)


def test_a_fragment_that_failed_to_go_apart_does_so_before_the_end() -> None:
    """The node of the other application, which died, is tried again after a minute."""
    cut = LinkCut(
        at_ms=460, for_ms=4190, here="primary:f3", there="site1", both_ways=False, notice=False
    )
    crash = Crash(at_ms=2900, for_ms=1330, target="secondary:f3")
    _, found = check(structs.replace(DEAF, faults=(cut, crash)))
    assert found == []
