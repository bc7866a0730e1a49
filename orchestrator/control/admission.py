"""Whether what a person applies can run: the same planning as the leader's, before anything is
written.

What is in the store already stays where it is and as it is: a stream or query is applied again
only if it says the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.api.checking import check_primaries, located
from orchestrator.control.dataflow import Dataflow, InvalidQuery, dataflow
from orchestrator.control.decide import MIN_EXECUTORS
from orchestrator.control.planning import Planning, living_places, living_timings, merged, order
from orchestrator.control.problem import settled
from orchestrator.control.view import ClusterView
from orchestrator.errors import InvalidInput, Refused
from orchestrator.manifest.kinds import QueryManifest, StreamManifest
from orchestrator.records import NodeKind, QueryRecord, Record, StreamRecord
from placement.deadline.errors import DeadlinesUnattainable
from placement.errors import (
    BoundUnattainable,
    DeadlineUnattainable,
    NoNode,
    PlacementError,
    SolverStopped,
)
from placement.records import Plan
from topology.suggestions import nearest


def admit(
    view: ClusterView, streams: Sequence[StreamManifest], queries: Sequence[QueryManifest]
) -> Plan:
    """Plan everything that runs together with what is applied.

    Returns
    -------
    Plan
        Of all queries: those in the store at their places, the new ones where they would go.

    Raises
    ------
    InvalidInput
        A manifest is wrong in itself or among the others.
    Refused
        It is right, but cannot be had: with the constraint that stands in the way.
    """
    all_streams, all_queries = _with_applied(view, streams, queries)
    flow = _compile(all_streams, all_queries, queries)
    _check_places(view, streams, queries)
    if not all_queries:
        return merged([])
    _check_network(view)
    planning = Planning(
        view, all_streams, all_queries, flow, living_places(view), living_timings(view)
    )
    plans: list[Plan] = []
    # What runs comes first: new queries are placed around it, never the other way round.
    for name in _running_first(view, order(flow, all_queries)):
        files = {manifest.record.name: manifest.file for manifest in queries}
        try:
            plans.append(planning.keep(name) if planning.runs(name) else planning.place(name))
        except InvalidQuery as problem:
            raise located(problem, queries) from None
        except PlacementError as error:
            raise _refused(error, all_queries[name], files.get(name)) from None
    return merged(plans)


def _with_applied(
    view: ClusterView, streams: Sequence[StreamManifest], queries: Sequence[QueryManifest]
) -> tuple[dict[str, StreamRecord], dict[str, QueryRecord]]:
    """What the store would hold, without stored queries that cannot run anyway."""
    all_streams = view.stream_records
    broken = {problem.query for problem in view.problems}
    all_queries = {n: query for n, query in view.query_records.items() if n not in broken}
    for stream in streams:
        known = all_streams.get(stream.record.name)
        if known is not None:
            # When it starts is the coordinator's to say, not the manifest's.
            _refuse_change(stream.file, "Stream", stream.record, known, ignore="start_at_us")
        else:
            all_streams[stream.record.name] = stream.record
    for query in queries:
        known_query = view.query_records.get(query.record.name)
        if known_query is not None:
            _refuse_change(query.file, "Query", query.record, known_query)
        all_queries[query.record.name] = query.record
    return all_streams, all_queries


def _refuse_change(file: str, kind: str, new: Record, known: Record, ignore: str = "") -> None:
    for field in known.__struct_fields__:
        value = getattr(new, field)
        if field != ignore and value != getattr(known, field):
            raise InvalidInput(
                file,
                f"{kind} {getattr(new, 'name', '')}: {field}",
                value,
                f"differs from what runs, {getattr(known, field)!r}",
                "What runs is not changed in place: apply it under another name.",
            )


def _compile(
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    manifests: Sequence[QueryManifest],
) -> Dataflow:
    try:
        return dataflow(streams, queries)
    except InvalidQuery as problem:
        raise located(problem, manifests) from None


def _check_places(
    view: ClusterView, streams: Sequence[StreamManifest], queries: Sequence[QueryManifest]
) -> None:
    sites = [name for name, node in view.hosts.items() if node.kind is NodeKind.SITE]
    named = [(s.file, f"Stream {s.record.name}: site", s.record.site) for s in streams]
    for query in queries:
        for stream, site in query.record.outputs.items():
            named.append((query.file, f"Query {query.record.name}: outputs.{stream}", site))
    for file, field, site in named:
        if site not in sites:
            raise InvalidInput(file, field, site, "is not a live site", nearest(site, sites))
    # What runs may outlive a node that it named.
    new = [query for query in queries if query.record.name not in view.queries]
    check_primaries(new, view.executors, "is not a live node")


def _check_network(view: ClusterView) -> None:
    executors = len(view.executors)
    if executors < MIN_EXECUTORS:
        raise Refused(
            subject="queries",
            field="nodes",
            value=executors,
            problem=f"{executors} live executors, a primary and a secondary need two nodes",
            remedy="Start more nodes.",
            figures={"executors": executors},
        )
    if not settled(view.hosts):
        waiting = sorted(name for name, node in view.hosts.items() if node.coordinate is None)
        raise Refused(
            subject="queries",
            field="nodes",
            value=len(view.hosts),
            problem="the network is not measured well enough yet"
            + (f" (no coordinate: {', '.join(waiting)})" if waiting else ""),
            remedy="Try again in a few seconds.",
            figures={"hosts": len(view.hosts), "without_coordinate": len(waiting)},
        )


def _running_first(view: ClusterView, names: Sequence[str]) -> list[str]:
    running = {found.record.query for found in view.fragments.values()}
    return sorted(names, key=lambda name: name not in running)


def _refused(error: PlacementError, query: QueryRecord, file: str | None) -> Refused:
    """Why there is no plan, with the figures that decide it."""
    subject = f"query {query.name}" + (f" ({file})" if file else "")
    match error:
        case BoundUnattainable():
            return Refused(
                subject=subject,
                field="recovery",
                value=f"{error.bound_ms:g} ms",
                problem=f"no node can stand by for {error.operator} within it; the best is "
                f"{error.best_node} with {error.best_ms:.1f} ms (detection "
                f"{error.detection_ms:.1f} + transfer {error.transfer_ms:.1f} + reprocessing "
                f"{error.reprocess_ms:.1f}; input from {', '.join(error.inputs)})",
                remedy=f"Allow at least {_rounded_up(error.best_ms)} ms, or add nearer nodes.",
                figures={
                    "bound_ms": error.bound_ms,
                    "best_ms": error.best_ms,
                    "best_node": error.best_node,
                    "detection_ms": error.detection_ms,
                    "transfer_ms": error.transfer_ms,
                    "reprocess_ms": error.reprocess_ms,
                },
            )
        case DeadlineUnattainable():
            return Refused(
                subject=subject,
                field="deadline",
                value=f"{error.deadline_ms:g} ms",
                problem=f"no placement tried delivers within it; the best takes "
                f"{error.best_ms:.1f} ms ({' → '.join(error.path)})",
                remedy=f"Allow at least {_rounded_up(error.best_ms)} ms, or add nearer nodes.",
                figures={"deadline_ms": error.deadline_ms, "best_ms": error.best_ms},
            )
        case DeadlinesUnattainable():
            return Refused(
                subject=subject,
                field="deadline",
                value=", ".join(f"{query.deadline_of(o):g} ms of {o}" for o in query.outputs),
                problem="no placement keeps all deadlines",
                remedy=f"{error.advice[0].upper()}{error.advice[1:]}.",
                figures={
                    **{f"allow_ms.{name}": ms for name, ms in error.relaxation_ms.items()},
                    **{f"relieve_ms.{name}": ms for name, ms in error.excess_ms.items()},
                },
            )
        case NoNode():
            return Refused(
                subject=subject,
                field="nodes",
                value=error.operator,
                problem=error.reason,
                remedy="Start more nodes.",
                figures={},
            )
        case SolverStopped():
            return Refused(
                subject=subject,
                field="primaries",
                value=", ".join(sorted(query.primaries)) or "none",
                problem=f"no plan was found in time ({error.reason})",
                remedy="Say there for more fragments which nodes they may take.",
                figures={},
            )
        case _:
            return Refused(
                subject=subject,
                field="statements",
                value=query.name,
                problem=str(error),
                remedy="",
                figures={},
            )


def _rounded_up(ms: float) -> int:
    return int(ms) + 1
