"""Fragments whose two replicas may die together go apart as soon as they can.

While a whole failure domain is away, such as a Spark application whose driver has died, healing
takes a secondary from the domain that is left: that protects the fragment against the loss of a
node. Once the other domain is back, the fragment would not survive the loss of the first one. Its
secondary is then moved, as if an operator had asked for it (`moving`). The same goes for zones and
machines where a query was placed with looser failure domains than there may be now
(`placement.failure_domains`).

A fragment that is being moved is left alone. A node to which it could not be moved apart is not
tried again for a minute. What came of moves that others asked for says nothing about that: they
may have failed because the domain was away.
"""

from __future__ import annotations

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.moving import KEPT_US
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.records import FragmentRecord, MovePlan, MoveStep
from orchestrator.store.protocol import MOVES
from placement.errors import PlacementError
from placement.failure_domains import TOGETHER

AT_A_TIME = 2
"""Most fragments that go apart at once: the nodes that came back have other work to do."""

TURN_US = 1_000_000
"""How long the same fragments are tried of those that may be apart no further for now."""

GOES_APART = "goes apart"
"""Kind of the event."""

PREFIX = "apart-"
"""Begins the names of these plans."""


def separate_replicas(pending: PendingDecision) -> None:
    """Have secondaries moved that may die with their primary."""
    view = pending.view
    plans = [found.record for found in view.moves.values()]
    moved = {step.fragment for plan in plans if plan.ended_us is None for step in plan.steps}
    under_way = sum(plan.ended_us is None and plan.name.startswith(PREFIX) for plan in plans)
    together: list[FragmentRecord] = []
    tolerated: list[FragmentRecord] = []
    for key, record in pending.fragments.items():
        if key in moved or key not in view.fragments or record != view.fragments[key].record:
            continue
        if record.secondary is None or record.third is not None or not view.protected(record):
            continue
        looseness = _looseness(pending, record)
        if looseness:
            (together if looseness == TOGETHER else tolerated).append(record)
        if 0 < looseness < TOGETHER:
            pending.problems.append(_shared(pending, record))
    # Where no other place keeps the bound, it may be long until one does: all have their turn.
    turn = pending.now_us // TURN_US % max(len(tolerated), 1)
    room, before = max(AT_A_TIME - under_way, 0), len(pending.writes)
    for record in together[:room] + (tolerated[turn:] + tolerated[:turn])[:room]:
        if len(pending.writes) - before < room:
            pending.attempt(record.key, lambda record=record: _part(pending, record))


def _looseness(pending: PendingDecision, record: FragmentRecord) -> int:
    assert record.secondary is not None, "a fragment that is protected has a secondary"
    return pending.planning.domains.looseness(record.primary.node, record.secondary.node)


def _shared(pending: PendingDecision, record: FragmentRecord) -> str:
    """What a fragment would not survive the loss of."""
    assert record.secondary is not None, "a fragment that is protected has a secondary"
    shared = pending.planning.domains.shared(record.primary.node, record.secondary.node)
    return f"{record.key}: both replicas share {', '.join(shared)}"


def _part(pending: PendingDecision, record: FragmentRecord) -> None:
    planning, key = pending.planning, record.key
    assert record.secondary is not None, "a fragment that is protected has a secondary"
    looseness = _looseness(pending, record)
    running = dict(planning.running)
    tried = {
        step.node
        for name, plan in pending.view.moves.items()
        if name.startswith(PREFIX)
        if plan.record.ended_us is None or pending.now_us - plan.record.ended_us < KEPT_US
        for step in plan.record.steps
        if step.fragment == key and step.failed is not None
    }
    try:
        found, problem = planning.replace_secondary(
            record.query, record.fragment, None, tried, loosest=looseness - 1
        )
    except (PlacementError, InvalidQuery) as error:
        found, problem = None, str(error)
    finally:
        planning.running = running
    if found is None or problem is not None:
        if looseness == TOGETHER:
            pending.problems.append(f"{_shared(pending, record)}: {problem}")
        return
    name = f"{PREFIX}{key}-{pending.now_us}"
    step = MoveStep(fragment=key, role="secondary", node=found.node)
    plan = MovePlan(name=name, steps=(step,), submitted_us=pending.now_us)
    event = pending.event(GOES_APART, key, f"secondary {record.secondary.node} → {found.node}")
    pending.write(MOVES.key(name), plan, None, event)
