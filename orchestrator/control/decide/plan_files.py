"""Plans of moves as documents: made with what they rest on, and compared with that later.

A plan is carried out exactly, or refused with what was so and what is so now: a record that it
rests on differs, a node has another incarnation, or by the figures of now a move would break a
promise or gain nothing. Other changes do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from orchestrator.control.decide.asked_moves import checked
from orchestrator.control.decide.basis import digest, digests, under_moves
from orchestrator.control.decide.move_steps import Places, in_legal_order, steps_to, then
from orchestrator.control.decide.net_gains import net_gains
from orchestrator.control.decide.rebalancing import rebalance
from orchestrator.control.decide.steadiness import Steadiness, stated_figures
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.errors import Drifted, InvalidInput, Refused
from orchestrator.records import (
    ApplyPlanRequest,
    AutomaticRequest,
    FragmentRecord,
    Immovable,
    MovePlan,
    MoveStep,
    PlanFile,
    PlannedMove,
    PlannedMoves,
    RebalanceChange,
    RebalancePlan,
    RebalanceRequest,
    StatedFigures,
)
from orchestrator.records.plan_files import FORMAT, UNNAMED
from orchestrator.store.protocol import CLUSTER, FRAGMENTS, MOST_BYTES, NODES, QUERIES, encode
from placement.rebalancing.goals import NETWORK

LARGE_BYTES = MOST_BYTES // 2
"""Of a plan with figures of everything, beyond which it has those of what it moves: a proposal
holds more than the plan."""

PLAN_AGAIN = "Plan again: `vivace rebalance --out plan.json`."

Difference = tuple[str, str, str]
"""What differs, how it was, and how it is."""


def rebalancing_file(view: ClusterView, wish: RebalanceRequest) -> PlanFile:
    """The moves that are worth it.

    Raises
    ------
    InvalidInput
        There is no such goal, query or node.
    """
    return _searched(view, rebalance(view, wish.goals, wish.limits))


def automatic_file(view: ClusterView, wish: AutomaticRequest) -> PlanFile:
    """The moves that are worth it though nobody has asked for them."""
    plans = [found.record for found in view.moves.values()]
    steadiness = Steadiness(plans, wish.asked_us)
    return _searched(view, rebalance(view, (), wish.limits, steadiness=steadiness))


def _searched(view: ClusterView, plan: RebalancePlan) -> PlanFile:
    moves = checked(view, [each.step for each in plan.moves])
    if len(encode(plan)) > LARGE_BYTES:
        plan = _of_what_moves(view, plan)
    return _filed(view, moves, rebalancing=plan)


def _of_what_moves(view: ClusterView, plan: RebalancePlan) -> RebalancePlan:
    """A plan with the figures of those queries alone that its moves touch."""
    queries = {each.query for move in plan.moves for each in move.queries}
    touched = [each for each in view.dataflow.fragments.values() if each.query in queries]
    keys = {each.key for each in touched}
    streams = {name for each in touched for name in (each.name, *each.inputs)}
    unsurvived = [
        msgspec.structs.replace(each, fragments=tuple(key for key in each.fragments if key in keys))
        for each in plan.unsurvived
    ]
    return msgspec.structs.replace(
        plan,
        after=tuple(each for each in plan.after if each.fragment in keys),
        unsurvived=tuple(each for each in unsurvived if each.fragments),
        rates=tuple(each for each in plan.rates if each.stream in streams),
        assumed_states=tuple(key for key in plan.assumed_states if key in keys),
        is_whole=False,
    )


def undo_file(view: ClusterView, plan: MovePlan) -> PlanFile:
    """The way back to where everything was before a plan, as far as there is one.

    Raises
    ------
    Refused
        The plan is under way.
    """
    if plan.ended_us is None:
        remedy = "Wait for its end, or take single moves back: `vivace move FRAGMENT --abort`."
        raise Refused(f"undo of {plan.name}", "plan", plan.name, "it is under way", remedy, {})
    planning = Planning.of(view)
    immovable: dict[str, str] = {}
    steps: list[MoveStep] = []
    # The last one to move goes back first.
    for key, (was, left) in reversed(_trips(plan).items()):
        record = planning.fragments.get(key)
        problem = _obstacle(view, record, left)
        if problem is None and record is not None:
            steps += steps_to(planning, record, (was.primary, was.secondary))
        elif problem is not None:
            immovable[key] = problem
    while True:
        legal, refused = in_legal_order(Planning.of(view), steps)
        if not refused:
            break
        # A fragment goes all the way, or stays.
        immovable |= {step.fragment: why for step, why in refused}
        steps = [step for step in steps if step.fragment not in immovable]
    return _filed(
        view,
        checked(view, legal),
        undo_of=plan.name,
        immovable=tuple(Immovable(fragment=k, problem=why) for k, why in immovable.items()),
    )


def moves_of_file(view: ClusterView, wish: ApplyPlanRequest, number: int) -> PlannedMoves:
    """The moves of a plan that somebody has reviewed, with the figures of now.

    Parameters
    ----------
    number
        Of the request: tells its plan of moves apart from others.

    Raises
    ------
    InvalidInput
        It is no plan of this cluster, or has been changed.
    Drifted
        It no longer holds.
    """
    plan = wish.plan
    _check_is_ours(view, plan)
    changed = [*differences(Planning.of(view), plan.basis), *being_moved(view, plan.moves)]
    moves: tuple[PlannedMove, ...] = ()
    if not changed:
        moves, changed = _judged(view, plan)
    if changed:
        raise drifted(changed)
    name = f"undo-{number}" if plan.undo_of is not None else f"rebalance-{number}"
    return PlannedMoves(
        name=name,
        moves=moves,
        at_a_time=wish.at_a_time,
        keep_going=wish.keep_going,
        throttle_bytes_s=wish.throttle_bytes_s,
        undo_of=plan.undo_of,
        digest=plan.digest,
        stated=None if plan.rebalancing is None else _stated(view, plan.rebalancing),
    )


def drifted(changed: Sequence[Difference]) -> Drifted:
    """What to raise of a plan that no longer holds."""
    problem = f"{len(changed)} of the things that it rests on are not as they were"
    return Drifted("the plan", "basis", None, problem, PLAN_AGAIN, {}, differences=tuple(changed))


def differences(planning: Planning, basis: dict[str, str]) -> Iterator[Difference]:
    """Records that are not as a basis has them."""
    now = digests(planning, basis, timed=False)
    for path, was in sorted(basis.items()):
        if (found := now.get(path)) == was:
            continue
        folder, _, name = path.partition("/")
        told = "as planned", "changed"
        if folder in (FRAGMENTS.path, NODES.path):
            told = was.replace(" ", ", "), (found or "").replace(" ", ", ")
        yield path, told[0], told[1] if found is not None else _absent(planning.view, folder, name)


def being_moved(view: ClusterView, moves: Iterable[PlannedMove]) -> Iterator[Difference]:
    """Fragments that a plan moves and that another one has yet to be done with."""
    for key in dict.fromkeys(each.fragment for each in moves):
        if (other := view.moved_by(key)) is not None:
            yield FRAGMENTS.key(key).path, "at rest", f"being moved by {other}"


def _absent(view: ClusterView, folder: str, name: str) -> str:
    if folder == NODES.path and name in view.closed:
        return "cordoned" if name in view.cordoned else "leaves"
    if folder == NODES.path and name in view.nodes:
        return "silent"
    return "not there"


def _judged(view: ClusterView, plan: PlanFile) -> tuple[tuple[PlannedMove, ...], list[Difference]]:
    """The moves with the figures of now, and what is against them."""
    steps = [MoveStep(fragment=e.fragment, role=e.role, node=e.node) for e in plan.moves]
    moves: tuple[PlannedMove, ...] = ()
    for number, step in enumerate(steps, 1):
        try:
            moves = checked(view, steps[:number])
        except Refused as refused:
            subject = f"{step.fragment} {step.role} → {step.node}"
            return (), [(subject, "possible", refused.problem)]
    return moves, [*_worthless(view, plan.rebalancing)]


def _worthless(view: ClusterView, plan: RebalancePlan | None) -> Iterator[Difference]:
    """Changes that would gain no more by now than they cost, uncertainty included.

    Those for other goals than network usage may cost more than they gain from the beginning. So may
    a plan that takes another one back.
    """
    if plan is None:
        return
    for was, now in zip(plan.changes, net_gains(view, plan), strict=True):
        needs = now.price_bytes + now.uncertainty_bytes
        if was.goal == NETWORK.kind.value and now.gain_bytes <= needs:
            moves = [each for each in plan.moves if each.change == was.number]
            told = ", ".join(f"{each.fragment} {each.role} → {each.target}" for each in moves)
            yield f"gain of change {was.number} ({told})", _gain(was), _gain(now)


def _gain(change: RebalanceChange) -> str:
    needs = change.price_bytes + change.uncertainty_bytes
    return f"{change.gain_bytes:,.0f}, over {needs:,.0f} bytes of price and uncertainty"


def _check_is_ours(view: ClusterView, plan: PlanFile) -> None:
    def refuse(field: str, value: object, problem: str, remedy: str = PLAN_AGAIN) -> InvalidInput:
        return InvalidInput(UNNAMED, field, value, problem, remedy)

    if plan.format != FORMAT:
        raise refuse("format", plan.format, f"is not the format of this version, {FORMAT}")
    if plan.cluster_id != view.settings.id:
        ours = f"is not this cluster, {view.settings.name}"
        if plan.cluster == view.settings.name:
            ours = f"was another cluster of that name, {plan.cluster_id}"
        raise refuse("cluster", plan.cluster, ours)
    if plan.digest != digest(msgspec.structs.replace(plan, digest="")):
        remedy = f"A plan is applied as it was made. {PLAN_AGAIN}"
        raise refuse("digest", plan.digest, "is not that of this plan: it was changed", remedy)
    if plan.rebalancing is not None and not _agrees(plan, plan.rebalancing):
        raise refuse("rebalancing", None, "tells of other moves than the plan has")


def _agrees(plan: PlanFile, told: RebalancePlan) -> bool:
    """Whether figures are those of a plan's moves."""
    moves = [(each.fragment, each.role, each.node) for each in plan.moves]
    numbers = [each.number for each in told.changes]
    return moves == [(each.fragment, each.role, each.target) for each in told.moves] and (
        numbers == sorted({each.change for each in told.moves})
    )


def _filed(view: ClusterView, moves: tuple[PlannedMove, ...], **more: object) -> PlanFile:
    plan = PlanFile(
        cluster=view.settings.name,
        cluster_id=view.settings.id,
        moves=moves,
        basis=digests(Planning.of(view), _under_file(view, moves), timed=False),
    )
    # As whoever reads it has it: there a whole number of bytes is a float, too.
    written = encode(msgspec.structs.replace(plan, **more))
    plan = msgspec.json.decode(written, type=PlanFile)
    return msgspec.structs.replace(plan, digest=digest(plan))


def _under_file(view: ClusterView, moves: Iterable[PlannedMove]) -> set[str]:
    """Paths of what a plan rests on: beside what its moves do, the queries that they touch, and all
    nodes that these leave or come to."""
    moves, paths = [*moves], {CLUSTER.path}
    for each in moves:
        touched = _touched(view, each.fragment)
        paths |= {QUERIES.key(other).path for other in touched if other in view.queries}
        paths |= {NODES.key(node).path for node in (*each.primary, *each.secondary)}
    return paths | under_moves(moves)


def _touched(view: ClusterView, fragment: str) -> set[str]:
    """The query of a fragment, and those that read its stream."""
    query, _, name = fragment.rpartition(".")
    return {query, *(f.query for f in view.dataflow.fragments.values() if name in f.inputs)}


def _stated(view: ClusterView, plan: RebalancePlan) -> StatedFigures:
    """The measurements that concern the moves of a plan."""
    moved = {move.fragment for move in plan.moves}
    queries = {query for key in moved for query in _touched(view, key)}
    fragments = [f for f in view.dataflow.fragments.values() if f.query in queries]
    streams = {stream for each in fragments for stream in (each.name, *each.inputs)}
    places = [*plan.undo, *(each for each in plan.after if each.fragment in moved)]
    nodes = {node for each in places for node in (each.primary, each.secondary)}
    near = {
        node
        for each in plan.after
        if each.fragment.rpartition(".")[0] in queries
        for node in (each.primary, each.secondary)
    }
    near |= {site for query in queries for site in view.query_records[query].outputs.values()}
    near |= {site for s in streams & view.entering.keys() for site in view.entering[s].sites}
    return stated_figures(plan, nodes, near, streams)


def _trips(plan: MovePlan) -> dict[str, tuple[Places, Places]]:
    """Fragment that a plan has moved → where it was before, and where the plan has left it."""
    trips: dict[str, tuple[Places, Places]] = {}
    for step in plan.steps:
        if not step.done or step.was is None:
            continue
        was = Places(primary=step.was[0], secondary=step.was[1])
        first, _ = trips.get(step.fragment, (was, was))
        trips[step.fragment] = first, then(was, step)
    return {key: trip for key, trip in trips.items() if trip[0] != trip[1]}


def _obstacle(view: ClusterView, record: FragmentRecord | None, left: Places) -> str | None:
    """Why a fragment cannot go back, whatever there is where it was."""
    if record is None:
        return "it is not there any more"
    if record.stopped is not None:
        return f"it is stopped: {record.stopped}"
    if (other := view.moved_by(record.key)) is not None:
        return f"it is being moved by {other}"
    if record.secondary is None or not view.protected(record):
        return "it has no warm secondary at present"
    now = Places(primary=record.primary.node, secondary=record.secondary.node)
    return None if now == left else f"it is on {now} by now, where the plan has not left it"
