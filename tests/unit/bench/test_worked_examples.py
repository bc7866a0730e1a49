"""The examples that the papers work out in numbers come out as printed."""

from __future__ import annotations

import pytest

from bench.registry import find
from bench.worked_examples import figure_6, trading
from streams.scheduling.run_queue import Policy


def test_figure_6_under_edf_every_instance_keeps_its_sub_deadline() -> None:
    # (p2, T1) is due at 3 + 2 = 5; the text has 3 + 1, which nothing could keep.
    assert figure_6(Policy.EDF) == {
        ("p1", "t1"): 3,
        ("p2", "t1"): 5,
        ("p1", "t2"): 6,
        ("p2", "t2"): 7,
    }


def test_figure_6_under_fifo_the_second_tuple_misses() -> None:
    done = figure_6(Policy.FIFO)
    assert done["p1", "t2"] == 4
    assert done["p2", "t1"] == 6


def test_trading_buys_once_and_pays_for_it() -> None:
    assert trading() == {
        "trading.bought": 1000,
        "trading.price": 480,
        "trading.resource": 2_520_000,
    }


@pytest.mark.slow
def test_the_benchmark_gives_all_of_them() -> None:
    from pathlib import Path

    from bench.registry import Settings

    flat = find("worked_examples").run(Settings(quick=True, folder=Path(), say=lambda _: None))
    assert flat["moment.deadline_edf.p2_ms"] == pytest.approx(300, abs=0.002)
    assert flat["pushdown.written"] - flat["pushdown.kept"] == 2
