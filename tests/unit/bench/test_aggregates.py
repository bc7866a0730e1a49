"""Both ways to aggregate give the same; a window that slides gives what it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench import aggregates, aggregates_partial
from streams.language import parse
from streams.plan.compiler import compile_statement


@pytest.mark.parametrize("figure", aggregates.projections)
def test_all_ways_give_the_same_and_pushed_down_aggregates_keep_no_tuple(figure: str) -> None:
    text = aggregates.statement(aggregates.projections[figure], 12)
    found = aggregates.windows(aggregates.evaluations(text), aggregates.tuples(12))
    rows = found["pushdown"].rows
    assert rows[0]["short_n"] == 12
    assert all(one.rows == rows for one in found.values())
    held = {way: one.held_bytes for way, one in found.items()}
    assert held["naive_panes"] > 11 * aggregates.SHORT > held["pushdown"]
    # The window keeps its tuples until the boundary there, whether or not aggregates do.
    assert min(held["naive"], held["pushdown_stepwise"]) > 11 * aggregates.SHORT


def test_naive_aggregates_read_the_window_for_each_tuple() -> None:
    text = "REGISTER QUERY q ISTREAM(SELECT sum(x) AS t FROM s [RANGE 20 MILLISECONDS]);"
    (parsed,) = parse(text)
    program = compile_statement(parsed, {"s": aggregates.readings})
    _, last = aggregates.slide(program, 20, 40)
    _, naive = aggregates.slide(replace(program, naive=True), 20, 40)
    assert naive == last


@pytest.mark.parametrize(
    "text",
    [
        "RSTREAM(SELECT count(*) AS n FROM s [RANGE 20 MILLISECONDS SLIDE 2 MILLISECONDS])",
        "ISTREAM(SELECT count(*) AS n, max(x) AS most FROM s [RANGE 20 MILLISECONDS])",
    ],
)
def test_a_window_is_full_when_it_is_timed(text: str) -> None:
    (parsed,) = parse(f"REGISTER QUERY q {text};")
    program = compile_statement(parsed, {"s": aggregates.readings})
    seconds, last = aggregates.slide(program, 20, 40)
    assert seconds > 0
    assert last["n"] == 20
    at_ms = int(str(last["_ts"]))
    # ISTREAM tells changes only.
    assert at_ms == 60 or "most" in last
    if "most" in last:
        newest = aggregates.values(at_ms - 20, at_ms).column(1).to_numpy()
        assert last["most"] == np.max(newest)


def test_partial_aggregates_of_few_groups_are_less_than_rows_and_result() -> None:
    found = aggregates_partial.measured(groups=200, seconds=12, tuples_s=1_000, passing=True)
    ways = {
        way: found[f"partial.passing.200.{way}.bytes_s"] for way in ("rows", "result", "partial")
    }
    assert ways["partial"] < min(ways["rows"], ways["result"])
    assert 0 < found["partial.passing.200.saved_percent"] < 100


def test_unrounded_sums_of_floats_are_less_than_rows_and_result() -> None:
    found = aggregates_partial.measured_floats(groups=100, seconds=12, tuples_s=1_000, passing=True)
    ways = {
        way: found[f"floats.passing.100.{way}.bytes_s"] for way in ("rows", "result", "partial")
    }
    assert ways["partial"] < min(ways["rows"], ways["result"])
    assert 0 < found["floats.passing.100.saved_percent"] < 100


def test_partial_aggregates_of_two_sites_are_less_than_their_rows() -> None:
    found = aggregates_partial.measured_union(groups=100, seconds=12, tuples_s=2_000, passing=True)
    ways = {
        way: found[f"union.passing.100.{way}.bytes_s"] for way in ("rows", "beside_one", "partial")
    }
    assert ways["partial"] < ways["beside_one"] < ways["rows"]
    assert 0 < found["union.passing.100.saved_percent"] < 100
