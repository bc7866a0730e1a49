"""Measured and predicted load in status and plan."""

from __future__ import annotations

import msgspec
from rich.console import Console, RenderableType

from orchestrator import api
from orchestrator.cli.render.plan import plan_view
from orchestrator.cli.render.status import status_view

NODE = api.NodeStatus(
    node="paris",
    kind="executor",
    region="here",
    error=0.1,
    load_ms=1.0,
    primaries=1,
    secondaries=2,
    pid=7,
    counters={},
)
OWN = api.PlaceLoad(
    name="paris",
    is_machine=False,
    hosts=("paris",),
    processors=1.0,
    limit_cores=0.95,
    predicted_cores=0.5,
    measured_cores=0.62,
)
SHARED = api.PlaceLoad(
    name="rack",
    is_machine=True,
    hosts=("paris", "lyon"),
    processors=2.0,
    limit_cores=1.7,
    predicted_cores=1.2,
    measured_cores=None,
)
COST = api.FragmentCost(
    query="q",
    fragment="alerts",
    basis="measured",
    fixed_us=10.0,
    per_tuple_us=5.0,
    evaluations_s=30.0,
    cores=0.1,
    suggestion="alerts: {cost: 120 us}",
)


def shown(view: RenderableType) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def document(
    loads: tuple[api.PlaceLoad, ...] = (OWN, SHARED), costs: tuple[api.FragmentCost, ...] = (COST,)
) -> api.StatusDocument:
    return api.StatusDocument(
        cluster="c",
        problems=(),
        nodes=(msgspec.structs.replace(NODE, load=OWN if loads else None),),
        fragments=(),
        streams=(),
        outputs=(),
        history=(),
        loads=loads,
        costs=costs,
    )


def test_status_has_both_loads_of_nodes_and_of_the_machine_that_they_share() -> None:
    text = shown(status_view(document()))
    assert "cores: measured / predicted / limit" in text
    (node,) = (line for line in text.splitlines() if line.strip().startswith("paris"))
    assert "0.62 / 0.50 / 0.95" in node
    (machine,) = (line for line in text.splitlines() if line.strip().startswith("rack"))
    assert "– / 1.20 / 1.70" in machine


def test_status_gives_the_line_to_write_for_a_cost_that_is_off() -> None:
    assert "estimates: alerts: {cost: 120 us}" in shown(status_view(document()))
    assert "estimates" not in shown(status_view(document(costs=())))


def test_hosts_that_do_not_tell_their_processors_have_a_dash() -> None:
    text = shown(status_view(document(loads=())))
    (node,) = (line for line in text.splitlines() if line.strip().startswith("paris"))
    assert " – " in node
    assert "Machines" not in text


def test_plan_shows_what_it_would_take() -> None:
    query = api.QueryPlan(
        query="q",
        latency_ms=1.0,
        deadline_ms=2.0,
        recovery_ms=1.0,
        bound_ms=2.0,
        network_usage_bytes=1.0,
        standby_usage_bytes=1.0,
        path=(),
    )
    plan = api.PlanDocument(fragments=(), queries=(query,), waiting={}, loads=(OWN, SHARED))
    text = shown(plan_view(plan))
    assert "0.62 / 0.50 / 0.95" in text
    assert "rack" in text
