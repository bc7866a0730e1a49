"""Checking manifests without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

import msgspec

from foundation.suggestions import closest
from orchestrator.control.observe.dataflow import (
    Dataflow,
    Fragment,
    InvalidQuery,
    dataflow,
    in_statements,
    inputs_of,
    located,
)
from orchestrator.control.planning.collisions import check_collisions
from orchestrator.control.planning.split_ways import ways_to_split
from orchestrator.edges.sources import recorded
from orchestrator.errors import InvalidInput
from orchestrator.manifest import Manifests, cluster_record
from orchestrator.manifest.cluster import remarks
from orchestrator.manifest.kinds import QueryManifest, place_of
from orchestrator.manifest.load import check_primaries, check_sites
from orchestrator.records import ClusterRecord, Partial
from orchestrator.results.validation import ValidateDocument
from streams.language import QueryError, parse
from streams.language.loops import with_delays
from streams.language.views import with_relations
from streams.plan.choice import way_of
from streams.plan.compiler import compile_statement
from streams.plan.loop_core import why_stepwise
from streams.plan.program import REJECTED_SUFFIX, Program
from streams.plan.pushdown import pushdowns


def validate(manifests: Manifests, *, insert_delays: bool = False) -> ValidateDocument:
    """Check fields, the queries' text, and the names of streams, sites and nodes.

    Sites and nodes are checked against the Cluster manifest among the manifests, if there is one.

    Parameters
    ----------
    insert_delays
        Check statements with `<NOW>` wherever a cycle of them lacks a delay, and return these.

    Raises
    ------
    InvalidInput
        The first thing that is wrong, with its file and line.
    """
    delayed = _delayed(manifests) if insert_delays else {}
    queries = tuple(
        msgspec.structs.replace(
            each,
            record=msgspec.structs.replace(
                each.record, statements=delayed.get(each.record.name, each.record.statements)
            ),
        )
        for each in manifests.queries
    )
    manifests = msgspec.structs.replace(manifests, queries=queries)
    flow = check(manifests)
    unchecked: list[str] = []
    if manifests.cluster is None:
        sites = {site for each in manifests.streams for site in each.record.sites}
        sites |= {site for each in manifests.queries for site in each.record.outputs.values()}
        nodes = {
            node
            for each in manifests.queries
            for named in each.record.primaries.values()
            for node in named
        }
        unchecked = [f"site {name}" for name in sorted(sites)]
        unchecked += [f"node {name}" for name in sorted(nodes)]
    programs = {
        each.record.name: {
            fragment.name: _program(fragment) for fragment in flow.of(each.record.name)
        }
        for each in manifests.queries
    }
    return ValidateDocument(
        cluster=manifests.cluster.name if manifests.cluster else None,
        streams=tuple(each.record.name for each in manifests.streams),
        queries={
            each.record.name: {
                fragment.name: tuple(fragment.inputs) for fragment in flow.of(each.record.name)
            }
            for each in manifests.queries
        },
        evaluations={
            query: {name: way_of(program).value for name, program in compiled.items()}
            for query, compiled in programs.items()
        },
        pushdowns={
            query: {
                name: tuple(map(str, folded))
                for name, program in compiled.items()
                if (folded := pushdowns(program))
            }
            for query, compiled in programs.items()
        },
        splits={
            each.record.name: found
            for each in manifests.queries
            if each.record.partial is not Partial.NEVER
            and (found := ways_to_split(flow, each.record))
        },
        unchecked=tuple(unchecked),
        not_found={
            each.record.name: str(played.recording)
            for each in manifests.streams
            if (played := recorded(each.record)) is not None and not played.recording.exists()
        },
        remarks=remarks(manifests.cluster) if manifests.cluster else (),
        delayed=delayed,
        stepwise_loops={
            query: found for query, compiled in programs.items() if (found := _stepwise(compiled))
        },
    )


def _stepwise(programs: Mapping[str, Program]) -> dict[str, str]:
    """Loop → why it is evaluated stepwise; those that are not are left out."""
    found = {
        name: why_stepwise(program)
        for name, program in programs.items()
        if program.loop is not None
    }
    return {name: reason for name, reason in found.items() if reason is not None}


def _delayed(manifests: Manifests) -> dict[str, str]:
    """Query → its statements with the delays that they lack."""
    found: dict[str, str] = {}
    for query in manifests.queries:
        text = query.record.statements
        try:
            delayed = with_delays(with_relations(parse(text)))
        except QueryError as error:
            raise located(in_statements(query.record.name, error), manifests.queries) from None
        if delayed != text:
            found[query.record.name] = delayed
    return found


def check(manifests: Manifests) -> Dataflow:
    """Compile the queries among the streams, and check the sites and nodes that they name against
    the Cluster manifest, if there is one.

    Raises
    ------
    InvalidInput
        The first thing that is wrong, with its file and line.
    """
    streams = {each.record.name: each.record for each in manifests.streams}
    queries = {each.record.name: each.record for each in manifests.queries}
    try:
        flow = dataflow(streams, queries)
        check_collisions(flow, manifests.streams, manifests.queries)
    except InvalidQuery as problem:
        raise _located(problem, manifests) from None
    if manifests.cluster is not None:
        check_bounds(manifests.queries, cluster_record(manifests.cluster))
        sites = [site.name for site in manifests.cluster.sites]
        check_sites(manifests.streams, manifests.queries, sites, "is not a site")
        nodes = [node.name for node in manifests.cluster.nodes]
        check_primaries(manifests.queries, nodes, "is not a node")
    return flow


def _located(problem: InvalidQuery, manifests: Manifests) -> InvalidInput:
    """A problem at its place, with the streams that the query reads and no manifest here names."""
    found = located(problem, manifests.queries)
    known = {each.record.name for each in manifests.streams}
    read: set[str] = set()
    for each in manifests.queries:
        with suppress(QueryError):
            statements = with_relations(parse(each.record.statements))
            known |= {one.name + end for one in statements for end in ("", REJECTED_SUFFIX)}
            if each.record.name == problem.query:
                read = {stream for one in statements for stream in inputs_of(one)}
    missing = [name for name in sorted(read - known) if closest(name, known) is None]
    if not missing:
        return found
    remedy = f"Name the manifest of {', '.join(missing)} too, with another -f."
    return replace(found, remedy=f"{found.remedy} {remedy}".strip())


def check_bounds(queries: Iterable[QueryManifest], cluster: ClusterRecord) -> None:
    """Check that recovery bounds leave time after a silent death has been noticed.

    Raises
    ------
    InvalidInput
        One does not, wherever its query is placed.
    """
    noticed_ms = cluster.detection_ms
    for query in queries:
        if query.record.recovery_bound_ms <= noticed_ms:
            _, written = query.written["recovery"]
            raise InvalidInput(
                place_of(query, "recovery"), f"Query {query.record.name}: recovery", written,
                f"is not above {noticed_ms:g} ms, the time until a silent death is noticed "
                f"(suspectAfter {cluster.suspect_after_ms:g} ms + heartbeat "
                f"{cluster.heartbeat_ms:g} ms)",
                "Write a longer bound, or a shorter suspectAfter of the cluster.",
            )  # fmt: skip


def _program(fragment: Fragment) -> Program:
    (statement,) = parse(fragment.statement)
    return compile_statement(statement, fragment.inputs)
