"""Why fragments are where they are, and why queries are refused.

The prices of nodes are those of rebalancing, and whether a replica may be on a node is tried by the
rules of moves (`orchestrator.control.planning.relocation`). What would have to change for a refused
query to be admitted is found by asking for its admission again, with more time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from orchestrator.control.decide.admission import admit
from orchestrator.control.decide.net_gains import usual_margins
from orchestrator.control.decide.rebalancing import obstacle
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.named import fragment_named
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.measured_rates import measured_rates
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import relocate
from orchestrator.control.planning.running import running_problem
from orchestrator.control.planning.trying import Tries
from orchestrator.errors import Refused
from orchestrator.records import (
    CandidatePrice,
    FragmentExplanation,
    NeededChange,
    PullingStream,
    QueryManifest,
    RefusalExplanation,
    ReplicaPlace,
    StreamManifest,
)
from placement.errors import PlacementError
from placement.rebalancing.explain import ReplicaExplanation, explain_running
from placement.rebalancing.moves import Obstacle

MOST_TIME = 64.0
"""Factor of a deadline or a bound beyond which more time is taken to be of no use."""

PRECISION = 1.03
"""Factor to within which the time is found that is needed."""

MOST_QUERIES = 8
"""New queries whose needs are looked for: each takes a dozen plans."""


def explain_fragment(view: ClusterView, named: str) -> FragmentExplanation:
    """Why the replicas of a fragment are on their nodes.

    Raises
    ------
    InvalidInput
        There is no such fragment.
    Refused
        It lacks a replica at present, or its query cannot be evaluated.
    """
    record = fragment_named(view, named)
    planning = Planning.of(view)
    rates = measured_rates(view, planning.work)
    problem = running_problem(planning, rates, None, closed=True)
    if all(record.fragment not in query.places for query in problem.queries):
        why = "it lacks a replica at present, or its sites are away; `vivace status` tells"
        raise Refused(f"explanation of {record.key}", "fragment", named, why, "", {})

    def obstacle_of(primary: str, secondary: str) -> Obstacle | None:
        try:
            relocate(planning.fork(), record.key, primary, secondary)
        except (PlacementError, InvalidQuery) as error:
            return obstacle(record.key, error)
        return None

    found = explain_running(
        problem.queries,
        problem.network,
        record.fragment,
        planning.settings,
        obstacle_of,
        state_bytes=problem.state_bytes,
        rebalancing=usual_margins(view),
    )
    streams = {record.fragment, *planning.flow.fragments[record.fragment].inputs}
    return FragmentExplanation(
        query=record.query,
        fragment=record.key,
        primary=_place(found.primary),
        secondary=_place(found.secondary),
        measured=streams <= rates.measured,
        method=view.settings.placement.method,
    )


def explain_refusal(
    view: ClusterView,
    streams: Sequence[StreamManifest],
    queries: Sequence[QueryManifest],
    tries: Tries | None,
) -> RefusalExplanation:
    """Why manifests would be refused, and which change would have them admitted.

    Raises
    ------
    InvalidInput
        A manifest is wrong in itself or among the others.
    """

    def refusal(view: ClusterView, queries: Sequence[QueryManifest]) -> Refused | None:
        try:
            admit(view, streams, queries, tries)
        except Refused as refused:
            return refused
        return None

    refused = refusal(view, queries)
    if refused is None:
        return RefusalExplanation()
    changes: list[NeededChange] = []
    new = [number for number, each in enumerate(queries) if each.record.name not in view.queries]
    for number in new[:MOST_QUERIES]:
        own = queries[number]

        def refuses(deadline: float, bound: float, number: int = number) -> bool:
            longer = _with_more_time(queries[number], deadline, bound)
            others = [*queries[:number], longer, *queries[number + 1 :]]
            return refusal(view, others) is not None

        record = own.record
        alone = {
            "deadline": (_least(lambda factor: not refuses(factor, 1.0)), record.deadline_ms),
            "recoveryBound": (
                _least(lambda factor: not refuses(1.0, factor)),
                record.recovery_bound_ms,
            ),
        }
        changes += [
            _needed(record.name, field, factor, (stated,))
            for field, (factor, stated) in alone.items()
            if factor is not None
        ]
        if all(factor is None for factor, _ in alone.values()):
            both = _least(lambda factor: not refuses(factor, factor))
            stated = (record.deadline_ms, record.recovery_bound_ms)
            if both is not None:
                changes.append(_needed(record.name, "deadline and recoveryBound", both, stated))
    if not changes and refusal(_without_limits(view), queries) is None:
        changes.append(NeededChange(query=refused.subject.removeprefix("query "), field="load"))
    return RefusalExplanation(
        problem=f"{refused.subject}: {refused.told}", remedy=refused.remedy, changes=tuple(changes)
    )


def _place(found: ReplicaExplanation) -> ReplicaPlace:
    return ReplicaPlace(
        node=found.node,
        streams=tuple(
            PullingStream(
                fragment=each.operator,
                is_secondary=each.is_secondary,
                node=each.node,
                incoming=each.incoming,
                rate_bytes_s=each.rate_bytes_s,
                latency_ms=each.latency_ms,
                cost_bytes=each.usage,
            )
            for each in found.forces
        ),
        candidates=tuple(
            CandidatePrice(
                node=each.node,
                usage_bytes=each.usage,
                standby_bytes=each.standby,
                load_bytes=each.load_price + each.crowding,
                total_bytes=each.total,
                reason=None if each.obstacle is None else each.obstacle.reason.value,
                problem=None if each.obstacle is None else str(each.obstacle),
            )
            for each in found.candidates
        ),
        binding=None if found.binding is None else str(found.binding),
    )


def _least(admitted: Callable[[float], bool]) -> float | None:
    """The least factor that admits, to within `PRECISION`; None: not even `MOST_TIME` does."""
    low, high = 1.0, 2.0
    while not admitted(high):
        if high >= MOST_TIME:
            return None
        low, high = high, 2 * high
    while high > PRECISION * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if admitted(middle) else (middle, high)
    return high


def _needed(query: str, field: str, factor: float, stated: tuple[float, ...]) -> NeededChange:
    needed = tuple(factor * each for each in stated)
    return NeededChange(query=query, field=field, stated=stated, needed=needed)


def _with_more_time(manifest: QueryManifest, deadline: float, bound: float) -> QueryManifest:
    record = manifest.record
    longer = msgspec.structs.replace(
        record,
        deadline_ms=deadline * record.deadline_ms,
        deadlines_ms={output: deadline * ms for output, ms in record.deadlines_ms.items()},
        recovery_bound_ms=bound * record.recovery_bound_ms,
    )
    return msgspec.structs.replace(manifest, record=longer)


def _without_limits(view: ClusterView) -> ClusterView:
    """The same cluster, if it admitted whatever the load."""
    if view.cluster is None:
        return view
    settings = msgspec.structs.replace(view.cluster.record, admission=False)
    return replace(view, cluster=replace(view.cluster, record=settings))
