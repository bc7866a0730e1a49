"""Which versions may run beside each other."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.records.versions import FIRST, Versions, this_version


def versions(least: int, newest: int, records: int = 1) -> Versions:
    return Versions(product="x", wire=(least, newest), records=records)


@pytest.mark.parametrize(
    ("one", "other", "spoken"),
    [
        (versions(13, 13), versions(13, 14), 13),
        (versions(13, 14), versions(14, 15), 14),
        (versions(13, 14), versions(13, 14), 14),
        (versions(13, 13), versions(14, 15), None),
    ],
)
def test_a_link_speaks_the_newest_wire_that_both_know(
    one: Versions, other: Versions, spoken: int | None
) -> None:
    assert one.spoken_with(other) == other.spoken_with(one) == spoken
    assert (one.obstacle(other) is None) is (spoken is not None)


def test_records_of_two_steps_are_an_obstacle() -> None:
    assert versions(13, 13, 1).obstacle(versions(13, 13, 2)) is None
    told = versions(13, 13, 1).obstacle(versions(13, 13, 3))
    assert told is not None
    assert re.fullmatch(r"it reads records up to 3, and this version up to 1", told)


spans = st.tuples(st.integers(1, 5), st.integers(0, 5)).map(lambda each: (each[0], sum(each)))


@given(spans, spans)
def test_what_is_spoken_is_known_to_both(one: tuple[int, int], other: tuple[int, int]) -> None:
    spoken = versions(*one).spoken_with(versions(*other))
    both = {*range(one[0], one[1] + 1)} & {*range(other[0], other[1] + 1)}
    assert spoken == max(both, default=None)


def test_this_version_may_run_beside_the_first() -> None:
    """Until a release says otherwise, and drops what it speaks."""
    assert this_version().obstacle(FIRST) is None
    assert this_version().obstacle(this_version()) is None
