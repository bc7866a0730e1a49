"""The paper's (1) and the product's recovery, on networks that are reckoned by hand."""

from __future__ import annotations

import pytest

from bench.placement_workload import BOUND_MS, Workload
from bench.standby_model import priced
from placement.records import Request
from tests.unit.placement.on_a_line import line, query

REQUEST = Request(query({"Sa": 2000}, {"S": "s"}), 1e9, BOUND_MS, 0.0)
"""20 tuples a second: 4 between two acknowledgements, 1.2 ms each."""


@pytest.mark.parametrize(("secondary_ms", "is_asked"), [(90, False), (45, True)])
def test_batches_beyond_an_interval_send_nothing(secondary_ms: float, is_asked: bool) -> None:
    """The way, once or twice, and four tuples keep the bound of 100 ms."""
    load = Workload(view=line({"p": 10, "x": secondary_ms}, {"s": 0}), requests=(REQUEST,))
    found = priced(load, {"a": ("p", "x")}, is_asked=is_asked)
    assert found["as.network_usage"] == pytest.approx(2 * (10 + secondary_ms))
    assert found["asas_largest.network_usage"] == pytest.approx(2 * 10)
    assert found["asas_largest.recovery_ms_max"] == pytest.approx(90 + 4 * 1.2)
    assert found["asas.saved_pct"] == pytest.approx(100 * secondary_ms / (10 + secondary_ms))


def test_a_secondary_that_has_to_ask_from_afar_is_sent_everything() -> None:
    """60 ms there and back exceed the bound; once, they leave 40 ms for what was held back."""
    load = Workload(view=line({"p": 10, "x": 60}, {"s": 0}), requests=(REQUEST,))
    pairs = {"a": ("p", "x")}
    asked, pushed = (priced(load, pairs, is_asked=each) for each in (True, False))
    assert asked["asas.saved_pct"] == asked["asas_largest.saved_pct"] == 0
    assert asked["asas.bound_kept_pct"] == 100
    assert asked["upstream.bound_kept_pct"] == 0
    assert pushed["asas_largest.saved_pct"] == pytest.approx(100 * 60 / 70)
    assert pushed["asas_largest.bound_kept_pct"] == 100


def test_ours_sends_no_more_than_the_largest_batch() -> None:
    """With 11.8 ms to spare nine tuples may be held back: batches of ten send all of them."""
    request = Request(query({"Sa": 10_000}, {"S": "s"}), 1e9, BOUND_MS, 0.0)
    load = Workload(view=line({"p": 10, "x": 88.2}, {"s": 0}), requests=(request,))
    found = priced(load, {"a": ("p", "x")}, is_asked=False)
    assert found["asas_largest.saved_pct"] == 0
    assert found["asas.saved_pct"] > 0
    assert found["asas.bound_kept_pct"] == 100
