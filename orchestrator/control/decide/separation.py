"""Fragments whose two replicas have come to lie in one failure domain go apart again.

While a whole failure domain is away, such as a Spark application whose driver has died, healing
takes a secondary from the domain that is left: that protects the fragment against the loss of a
node. Once the other domain is back, the fragment would not survive the loss of the first one. Its
secondary is then moved, as if an operator had asked for it (`moving`).

A fragment that is being moved is left alone. A node to which it could not be moved is not tried
again while the record of that plan is there.
"""

from __future__ import annotations

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.records import FragmentRecord, MovePlan, MoveStep
from orchestrator.store.protocol import MOVES
from placement.errors import PlacementError

AT_A_TIME = 2
"""Most fragments that go apart at once: the nodes that came back have other work to do."""

GOES_APART = "goes apart"
"""Kind of the event."""

PREFIX = "apart-"
"""Begins the names of these plans."""


def separate_replicas(pending: PendingDecision) -> None:
    """Have secondaries moved that lie in the failure domain of their primary."""
    view = pending.view
    places = {name: node.domain for name, node in view.executors.items()}
    usable = {n: d for n, d in places.items() if n in view.trusted and n not in view.cordoned}
    if len(set(usable.values())) < 2:
        return
    plans = [found.record for found in view.moves.values()]
    moved = {step.fragment for plan in plans if plan.ended_us is None for step in plan.steps}
    under_way = sum(plan.ended_us is None and plan.name.startswith(PREFIX) for plan in plans)
    for key, record in pending.fragments.items():
        if under_way >= AT_A_TIME:
            return
        if key in moved or key not in view.fragments or record != view.fragments[key].record:
            continue
        if record.secondary is None or record.third is not None or not view.protected(record):
            continue
        domain = places.get(record.primary.node)
        if domain is not None and domain == places.get(record.secondary.node):
            pending.attempt(key, lambda record=record: _part(pending, record))
            under_way += 1


def _part(pending: PendingDecision, record: FragmentRecord) -> None:
    planning, key = pending.planning, record.key
    assert record.secondary is not None, "a fragment that is protected has a secondary"
    primary, secondary = record.primary.node, record.secondary.node
    together = f"{key}: both replicas lie in one failure domain, "
    together += f"{pending.view.executors[primary].domain}"
    running = dict(planning.running)
    tried = {
        step.node
        for plan in pending.view.moves.values()
        for step in plan.record.steps
        if step.fragment == key and step.failed is not None
    }
    try:
        found, problem = planning.replace_secondary(record.query, record.fragment, None, tried)
    except (PlacementError, InvalidQuery) as error:
        pending.problems.append(f"{together}: {error}")
        return
    finally:
        planning.running = running
    if problem is not None:
        pending.problems.append(f"{together}: {problem}")
        return
    name = f"{PREFIX}{key}-{pending.now_us}"
    step = MoveStep(fragment=key, role="secondary", node=found.node)
    plan = MovePlan(name=name, steps=(step,), submitted_us=pending.now_us)
    event = pending.event(GOES_APART, key, f"secondary {secondary} → {found.node}")
    pending.write(MOVES.key(name), plan, None, event)
