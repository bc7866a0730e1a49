"""Places of secondaries are priced together with the schemes by which they are fed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from orchestrator.control.planning.replicas import cheapest_places, choose_secondaries
from orchestrator.control.planning.standby_prices import StandbyPrices
from orchestrator.control.planning.standby_reasons import Payers
from orchestrator.control.planning.task import RunningFragment
from orchestrator.records import Scheme, Standby
from placement.evaluation.load import Load
from placement.records import PlacedOperator
from placement.secondaries import StandbyTask, place_secondaries
from placement.standby_schemes import NEVER
from tests.unit.orchestrator.control.planning.test_feeding import FILTER, SECOND, applied, decided

JOIN = (
    "REGISTER QUERY a RSTREAM(SELECT n.id AS id FROM north [NOW] AS n, south [NOW] AS s"
    " WHERE n.id = s.id);"
)


def of_join(standby: Standby, bound_ms: float) -> PlacedOperator:
    """A join of two streams, its primary in London; detection takes 175 ms."""
    cluster = applied(standby, JOIN, bound_ms=bound_ms, cost_us=1.0)
    (placed,) = decided(cluster).evaluate("q").placements
    assert placed.primary == "london"
    return placed


def test_a_dearer_place_where_hardly_any_tuple_need_be_sent_is_taken() -> None:
    """Lyon, beside one of the streams, is cheapest if every tuple is sent.

    It is 9.2 ms from the other stream, and there and back there is no time: 194 − 175 ms.
    """
    assert of_join(Standby(), 194.0).secondary == "lyon"
    joint = of_join(Standby(scheme=Scheme.ADAPTIVE), 194.0)
    assert (joint.secondary, joint.recovery_ms <= 194.0) == ("paris", True)
    assert joint.standby is not None
    assert joint.standby.batch == NEVER
    assert joint.standby.bytes_s < joint.standby.active_bytes_s / 100


@pytest.mark.parametrize("bound_ms", [184.5, 188.0, 194.0, 200.0, 224.0, 600.0])
def test_places_chosen_with_schemes_cost_no_more_than_schemes_after_places(bound_ms: float) -> None:
    cluster = applied(Standby(scheme=Scheme.ADAPTIVE), JOIN, bound_ms=bound_ms, cost_us=1.0)
    planning = decided(cluster)
    task = planning.task("q")
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    del planning.running["a"]
    free = planning.task("q")
    load = Load(free.network, operator_load=0.2, cpu=planning.settings.cpu)
    load = load.with_replicas(primaries.values())
    by_active = place_secondaries(
        StandbyTask(
            graph=free.graph,
            view=free.network,
            primaries=free.pinned | primaries,
            detection_ms=free.detection_ms,
            bound_ms=bound_ms,
        ),
        load,
        {},
    )
    joint = choose_secondaries(free, primaries, cheapest_places(free))
    assert joint["a"].recovery.total_ms <= bound_ms
    prices = StandbyPrices.of(free, primaries)
    assert prices.total(joint, load) <= prices.total(by_active, load)


def test_a_plan_says_what_a_secondary_is_sent_and_why() -> None:
    sparse = of_join(Standby(scheme=Scheme.ADAPTIVE), 600.0).standby
    tight = of_join(Standby(scheme=Scheme.ADAPTIVE), 184.5).standby
    asked = of_join(Standby(), 600.0).standby
    assert sparse is not None
    assert tight is not None
    assert asked is not None
    assert sparse.why.startswith("checkpoints every 3200 ms: 100 % less than every tuple")
    assert tight.why == "every tuple: to ask for tuples held back would take 193 of 184.5 ms"
    assert asked.why == "every tuple: Active Standby, as its manifest says"
    assert asked.bytes_s == asked.active_bytes_s


def test_of_several_replicas_on_a_node_one_pays_for_a_stream() -> None:
    """A primary before secondaries, else the first by name; those sent batches rely on nobody."""
    both = FILTER + "REGISTER QUERY b RSTREAM(SELECT id FROM north [NOW]);"
    planning = decided(applied(Standby(), both, output="b", bound_ms=600.0))
    task, timing = planning.task("q"), planning.running["a"].timing

    def pays(node: str, fragment: str, *, is_secondary: bool, **running: RunningFragment) -> bool:
        payers = Payers(task, running)
        return not payers.is_free("north", node, fragment, is_secondary=is_secondary)

    one = RunningFragment(primary="paris", secondary="lyon", timing=timing)
    other = replace(one, primary="london")
    assert pays("lyon", "a", is_secondary=True, a=one, b=other)
    assert not pays("lyon", "b", is_secondary=True, a=one, b=other)
    assert pays("paris", "a", is_secondary=False, a=one, b=other)
    assert not pays("paris", "b", is_secondary=False, a=one, b=one)
    reads = replace(other, primary="lyon")
    assert not pays("lyon", "a", is_secondary=True, a=one, b=reads)
    sparse = replace(one, timing=msgspec.structs.replace(timing, batch=NEVER))
    assert pays("lyon", "b", is_secondary=True, a=sparse, b=other)


def test_figures_are_what_all_secondaries_are_sent() -> None:
    planning = decided(applied(Standby(), FILTER + SECOND, output="b", bound_ms=600.0))
    found = planning.evaluate("q")
    standbys = [each.standby.usage for each in found.placements if each.standby is not None]
    assert len(standbys) == len(found.placements)
    assert found.queries[0].standby_usage == pytest.approx(sum(standbys))
    assert found.queries[0].network_usage > found.queries[0].standby_usage > 0
