"""Random schedules of faults: a few fixed seeds, and fresh ones that no run has tried before.

`make simulate SEEDS=300` plays many more.
"""

from __future__ import annotations

import os
import secrets

import pytest

from orchestrator.simulation.trials.campaign import ScheduleSelection, judge
from orchestrator.simulation.trials.schedule import STRUCK, Shape
from orchestrator.simulation.trials.setting import (
    ALL_IS_KEPT,
    EVEN_WATCHES,
    FIRST_FORMS_ONLY,
    NOBODY_LEAVES,
    ONE_LEVEL,
    ONE_VERSION,
)
from tests.long_tests import mostly_long

ONCE_BROKEN = (
    *(4000132, 4002417, 4002450, 4004374, 4004943, 4005073, 10001722, 10002295),
    *(13001065, 14002642, 14003852, 15001878, 16000202, 17000529, 20006724),
    22000528,
)
"""Seeds that have shown a mistake of the system or of the checks, when there were fewer forms of
statements."""

ONCE_BROKEN_SINCE = (
    7,
    24000077,
    25003609,
    25007378,
    25008320,
    25008614,
    26000068,
    28001195,
    30002596,
    60000760,
    60000850,
    60001412,
    700000966,
    710001459,
    720008004,
    720008433,
    89442680,
    730006084,
    750001566,
    760004426,
)
"""Seeds that have shown one since, when all hosts heard of a change of the store at once."""

ONCE_BROKEN_STAYING = (
    545,
    3100199,
    840001982,
    1000000737,
    1000001636,
    1000001770,
    1000008243,
    1600001012,
    1700000341,
)
"""Seeds that have shown one when no host left."""

ONCE_BROKEN_LATELY = (513521579, 344161585)
"""Seeds that have shown one when nothing overdue or late was dropped."""

ONCE_BROKEN_IN_TURN = (818200068, 818200104)
"""Seeds that have shown one when processes of two versions took turns to end."""

DROPPING = (4, 9)
"""Settings in which overdue tuples, or late results, are dropped."""

FRESH = [int(os.environ.get("VIVACE_SEED", secrets.randbelow(10**9))) + i for i in range(5)]
"""Seeds that change with each run; VIVACE_SEED reproduces them."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(4000, 4004), *ONCE_BROKEN_LATELY])
def test_every_promise_is_kept(seed: int) -> None:
    _judge(seed, ScheduleSelection(edition=ALL_IS_KEPT))


@pytest.mark.slow
@pytest.mark.parametrize("seed", ONCE_BROKEN_IN_TURN)
def test_every_promise_is_kept_where_processes_take_turns(seed: int) -> None:
    _judge(seed, ScheduleSelection(edition=ONE_LEVEL))


@pytest.mark.slow
def test_a_fragment_that_goes_back_waits_for_those_that_go_back_with_it() -> None:
    """Its log is small, and one of its readers has yet to read its own checkpoint."""
    kinds = ("savepoint", "coordinator", "crash", "store", "everything")
    _judge(293, ScheduleSelection(kinds=kinds, edition=ONE_VERSION))


@pytest.mark.slow
@pytest.mark.parametrize("seed", DROPPING)
def test_every_promise_is_kept_where_tuples_are_dropped(seed: int) -> None:
    _judge(seed, ScheduleSelection(kinds=("slow",)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", ONCE_BROKEN_STAYING)
def test_every_promise_is_kept_that_was_broken_when_nobody_left(seed: int) -> None:
    _judge(seed, ScheduleSelection(edition=NOBODY_LEAVES))


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(ONCE_BROKEN_SINCE, quick=6))
def test_every_promise_is_kept_that_was_broken_since(seed: int) -> None:
    _judge(seed, ScheduleSelection(shapes=STRUCK, edition=EVEN_WATCHES))


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(ONCE_BROKEN, quick=4))
def test_every_promise_is_kept_that_once_was_not(seed: int) -> None:
    _judge(seed, ScheduleSelection(shapes=STRUCK, edition=FIRST_FORMS_ONLY))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3000000003, 3000000011, 3000000023])
def test_what_was_taken_in_enters_again_after_sites_or_all_hosts_have_died(seed: int) -> None:
    """Were it not read again from where results were delivered, it would have none."""
    _judge(seed, ScheduleSelection(shapes=(Shape.BOTH,), edition=ALL_IS_KEPT))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FRESH)))
def test_every_promise_is_kept_with_a_fresh_seed(number: int) -> None:
    # The seed is not a parameter: names of tests must be the same in every run.
    _judge(FRESH[number], ScheduleSelection())


def _judge(seed: int, selection: ScheduleSelection) -> None:
    failure = judge(seed, selection).failure
    assert failure is None, f"seed {seed}: VIVACE_SEED={seed} reproduces it\n{failure.transcript}"


def test_a_seed_replays_exactly() -> None:
    everything = ScheduleSelection(shapes=(Shape.SEVERAL,))
    one, other = (judge(4100, everything, shrunk=False) for _ in range(2))
    assert one == other


@pytest.mark.slow
def test_clients_push_while_the_site_of_their_streams_is_killed() -> None:
    """A journal that forgets who has sent what breaks this schedule: tuples enter twice."""
    pushing = ScheduleSelection(kinds=("site",), shapes=STRUCK, edition=FIRST_FORMS_ONLY)
    failure = judge(5000011, pushing).failure
    assert failure is None, failure.transcript
