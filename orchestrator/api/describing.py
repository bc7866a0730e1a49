"""All that is known of one thing: it, what it has to do with, why it is there, what happened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from foundation.suggestions import nearest
from orchestrator.api.automation import proposals
from orchestrator.api.cluster_status import event_documents, status
from orchestrator.api.connection import Cluster
from orchestrator.api.plan_files import move_plans
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.planning.overdue import overdue_control
from orchestrator.errors import InvalidInput
from orchestrator.operations.parameters import DescribeParameters
from orchestrator.records import FragmentRecord
from orchestrator.results.inspection import Description
from orchestrator.results.status import FragmentStatus, QueryStatus, StatusDocument

MOST_EVENTS = 12


def queries(cluster: Cluster) -> tuple[QueryStatus, ...]:
    """The queries there are."""
    return queries_of(read_view(cluster.store), status(cluster))


def queries_of(view: ClusterView, document: StatusDocument) -> tuple[QueryStatus, ...]:
    """The same, as a status tells of them."""
    plans = {each.query: each for each in document.queries}
    found: list[QueryStatus] = []
    for name, query in sorted(view.query_records.items()):
        mine = [each for each in document.fragments if each.query == name]
        slacks_ms = [
            each.slack_ms
            for each in document.outputs
            if each.query == name and each.slack_ms is not None
        ]
        found.append(
            QueryStatus(
                query=name,
                deadline_ms=query.deadline_ms,
                bound_ms=query.recovery_bound_ms,
                outputs=query.outputs,
                fragments=tuple(each.fragment for each in mine),
                protected=sum(each.redundant for each in mine),
                plan=plans.get(name),
                slack_ms=min(slacks_ms, default=None),
            )
        )
    return tuple(found)


def describe(cluster: Cluster, asked: DescribeParameters) -> Description:
    """All that is known of a thing.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
    view, document = read_view(cluster.store), status(cluster)
    plans = {each.name: each for each in move_plans(cluster).plans}
    proposed = {each.name: each for each in proposals(cluster)}
    names = _names(view, document)
    names["move"], names["proposal"] = ({each: each for each in them} for them in (plans, proposed))
    if (known := names.get(asked.kind)) is None:
        problem = "is no kind of thing"
        raise InvalidInput("", "kind", asked.kind, problem, nearest(asked.kind, names))
    if (name := known.get(asked.name)) is None:
        problem = f"is no {asked.kind} here"
        raise InvalidInput("", "name", asked.name, problem, nearest(asked.name, known))
    if asked.kind in _DESCRIBED:
        found = _DESCRIBED[asked.kind](view, document, name)
    elif asked.kind == "move":
        found = {"moves": (plans[name],)}
    else:
        found = {"proposals": (proposed[name],)}
    subjects = {name, f"{asked.kind} {name}", name.rpartition(".")[2]}
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    events = [each for each in cluster.store.history() if each.event.subject in subjects]
    return Description(
        kind=asked.kind,
        name=name,
        degraded=tuple(each for each in document.degraded if word.search(each.subject)),
        problems=tuple(each for each in document.problems if word.search(each)),
        history=event_documents(events[-MOST_EVENTS:]),
        **found,
    )


def _names(view: ClusterView, document: StatusDocument) -> dict[str, dict[str, str]]:
    """Kind → what things of that kind are called → their name."""
    fragments = {each.fragment: each.name for each in document.fragments}
    hosts = (*view.settings.nodes, *view.settings.sites, *view.hosts)
    return {
        "node": {each: each for each in hosts},
        "query": {each: each for each in view.query_records},
        "stream": {each.stream: each.stream for each in document.streams},
        "fragment": {**fragments, **{each: each for each in fragments.values()}},
        "output": {each.stream: each.stream for each in document.outputs},
    }


def _node(view: ClusterView, document: StatusDocument, name: str) -> Mapping[str, Any]:
    host = view.hosts.get(name)
    here = [
        each for each in document.fragments if name in (each.primary, each.secondary, each.third)
    ]
    cordon = view.cordons.get(name)
    until = "" if cordon is None or cordon.record.until_us is None else ", for a while"
    closed = [f"is cordoned{until}"] if name in view.cordoned else []
    closed += ["leaves, and is to be replaced"] if name in view.leaving else []
    return {
        "nodes": tuple(each for each in document.nodes if each.node == name),
        "fragments": tuple(here),
        "streams": tuple(s for s in document.streams if name in (s.site, s.standby)),
        "outputs": tuple(each for each in document.outputs if each.site == name),
        "loads": tuple(each for each in document.loads if name in each.hosts),
        "round_trips_ms": {} if host is None else dict(sorted(host.latencies_ms.items())),
        "why": tuple(f"nothing new is placed here: it {why}" for why in closed),
    }


def _query(view: ClusterView, document: StatusDocument, name: str) -> Mapping[str, Any]:
    return {
        "queries": tuple(q for q in queries_of(view, document) if q.query == name),
        "fragments": tuple(each for each in document.fragments if each.query == name),
        "outputs": tuple(each for each in document.outputs if each.query == name),
        "costs": tuple(each for each in document.costs if each.query == name),
        "reads": tuple(sorted(view.dataflow.entering_streams(name)))
        if name not in {each.query for each in view.problems}
        else (),
        "query": view.query_records[name],
    }


def _stream(view: ClusterView, document: StatusDocument, name: str) -> Mapping[str, Any]:
    return {
        "streams": tuple(each for each in document.streams if each.stream == name),
        "read_by": _readers(view, name),
        "stream": view.stream_records.get(name),
        "why": tuple(_overdue(view, name)),
    }


def _fragment(view: ClusterView, document: StatusDocument, name: str) -> Mapping[str, Any]:
    record = view.fragments[name].record
    (shown,) = (each for each in document.fragments if each.name == name)
    program = view.dataflow.fragments.get(record.fragment)
    return {
        "fragments": (shown,),
        "nodes": tuple(n for n in document.nodes if n.node in (shown.primary, shown.secondary)),
        "outputs": tuple(each for each in document.outputs if each.stream == record.fragment),
        "costs": tuple(c for c in document.costs if f"{c.query}.{c.fragment}" == name),
        "statement": None if program is None else program.statement,
        "reads": () if program is None else tuple(program.inputs),
        "read_by": _readers(view, record.fragment),
        "why": tuple(_why(view, record, shown)),
    }


def _output(view: ClusterView, document: StatusDocument, name: str) -> Mapping[str, Any]:
    return {
        "outputs": tuple(each for each in document.outputs if each.stream == name),
        "fragments": tuple(each for each in document.fragments if each.fragment == name),
        "queries": tuple(q for q in queries_of(view, document) if name in q.outputs),
    }


_DESCRIBED: Mapping[str, Callable[[ClusterView, StatusDocument, str], Mapping[str, Any]]] = {
    "node": _node,
    "query": _query,
    "stream": _stream,
    "fragment": _fragment,
    "output": _output,
}


def _readers(view: ClusterView, stream: str) -> tuple[str, ...]:
    fragments = [f.key for f in view.dataflow.fragments.values() if stream in f.inputs]
    sites = [
        f"site {query.outputs[stream]}"
        for query in view.query_records.values()
        if stream in query.outputs
    ]
    return (*fragments, *dict.fromkeys(sites))


def _overdue(view: ClusterView, name: str) -> Iterator[str]:
    """What is done with overdue tuples of a stream that may drop them, and why."""
    control = overdue_control(view.dataflow, view.stream_records, view.query_records)
    if name in control.dropping:
        after_ms = next(
            (
                source.overdue_after_ms
                for found in view.assignments.values()
                for source in found.record.sources
                if source.stream == name and source.overdue_after_ms is not None
            ),
            None,
        )
        within = "" if after_ms is None else f" for more than {after_ms:.0f} ms"
        yield f"tuples are dropped that have waited{within} where they enter: they are overdue"
    elif (kept_by := control.kept_by.get(name)) is not None:
        who = ", ".join(f"query {each}" for each in kept_by)
        why = f"{who} would have them late" if kept_by else "nothing reads it"
        yield f"overdue tuples are kept, although the stream may drop them: {why}"


def _why(view: ClusterView, record: FragmentRecord, shown: FragmentStatus) -> Iterator[str]:
    """Why a fragment is where it is; `vivace explain` has the other places, too."""
    query = view.query_records.get(record.query)
    named = () if query is None else query.primaries.get(record.fragment, ())
    if record.took_over is not None:
        took = record.took_over
        yield f"its primary took over from {took.previous.node}: {took.cause}"
    elif named:
        yield f"its query names the nodes of its primary: {', '.join(named)}"
    else:
        yield f"of the places tried, its query has least network usage with {shown.primary}"
    if record.lacked:
        yield f"it was placed while there was no {', '.join(record.lacked)}"
    if shown.plan is not None and shown.plan.standby_why is not None:
        yield f"its secondary: {shown.plan.standby_why}"
    for loss in record.losses[-1:]:
        yield f"it has lost its replica on {loss.replica.node}: {loss.cause}"
