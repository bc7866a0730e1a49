"""Silences are those that touch what was done, and count where processors had time."""

from __future__ import annotations

import os
from contextlib import closing

import pyarrow as pa
import pytest

from orchestrator.edges.sinks import Delivered
from orchestrator.edges.sinks.delivered import completed_schema
from tests.platform.silences import Lasted, Silences


def arriving_at(*moments_us: int) -> Delivered:
    rows = [dict.fromkeys(completed_schema.names, 0) | {"arrived_us": at} for at in moments_us]
    return Delivered(
        pa.Table.from_pylist(rows, schema=completed_schema), pa.table({"_seq": pa.array([0])})
    )


def test_the_longest_silence_of_each_output_in_what_was_done_is_found() -> None:
    clock_us = [1_000_000]
    with closing(Silences(os.getpid(), lambda: clock_us[0])) as silences:
        with silences.during("a kill"):
            clock_us[0] = 2_000_000
        clock_us[0] = 9_000_000
        # Before and after it, outputs are silent for longer.
        often = arriving_at(0, 990_000, 1_500_000, 2_100_000, 8_000_000)
        seldom = arriving_at(0, 8_000_000)
        found = [*silences.longest({"often": often, "seldom": seldom})]
    assert [(each.what, each.lasted_ms) for each in found] == [
        ("a kill, often silent", 600.0),
        ("a kill, seldom silent", 8000.0),
    ]


@pytest.mark.parametrize(("lasted_ms", "short", "exceeds"), [
    (300.0, False, False), (301.0, False, True), (301.0, True, False),
])  # fmt: skip
def test_a_bound_is_broken_by_a_machine_that_has_time(
    lasted_ms: float, *, short: bool, exceeds: bool
) -> None:
    assert Lasted("a kill", lasted_ms, 50.0, short).exceeds(300.0) is exceeds
