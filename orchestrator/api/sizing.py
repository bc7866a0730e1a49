"""What the processes of a cluster need: processors and memory, from its manifests.

Base sizes of processes and what a tuple of a state takes are measured: `memory_sizes.json` has the
figures of the benchmarks `pod_memory` and `state_memory`. To them come the heaps of Java processes,
the budget of queues (`memory`), and states: the tuples that windows hold at the rates of the
manifests.

A node holds at most one replica of a fragment, but of which fragments is the planner's choice, and
another one after each failure. So an executor has room for the states of all fragments, and for the
largest once more, because a state that is fetched is there twice until it is in place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from orchestrator.api.validation import check
from orchestrator.control.observe.dataflow import Dataflow, Fragment
from orchestrator.control.planning.workload import Rate, rates
from orchestrator.edges.sources.driver import BUFFER_BYTES
from orchestrator.embedded.java import DRIVER_HEAP_MIB, ZOOKEEPER_HEAP_MIB
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, Manifests
from orchestrator.results.sizing import ProcessSize, SizeDocument, StateEstimate
from streams.language import parse
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.compiler import compile_statement
from streams.plan.program import Program, WindowPlan
from streams.vectors.widths import row_bytes

MIB = 2**20

HEADROOM = 1.25
"""Processes grow with what they have done: the measured ones had worked for minutes only."""

STEP_MIB = 16
"""Sizes are multiples of it."""

HOST_CORES, OTHER_CORES = 1.0, 0.5
"""A host computes on one processor, and plans count on all of it. The others have little to do but
now and then, and may use what is free then."""

EDGE_BUFFERS = 2
"""Of a driver's size: what it has read, and what it gives or keeps."""

TABLE = Path(__file__).with_name("memory_sizes.json")


@cache
def memory_sizes() -> Mapping[str, float]:
    """The measured sizes by name."""
    return json.loads(TABLE.read_text("utf-8"))


def cluster_sizes(manifests: Manifests) -> SizeDocument:
    """What the processes of the cluster need that the manifests describe.

    Raises
    ------
    InvalidInput
        There is no Cluster manifest among them, or one is wrong.
    """
    cluster = manifests.cluster
    if cluster is None:
        remedy = "Name the file with the manifest of kind Cluster."
        raise InvalidInput("command line", "--file", None, "names no cluster", remedy)
    states = _states(cluster, manifests, check(manifests))
    return SizeDocument(
        cluster=cluster.name,
        headroom=HEADROOM,
        processes=tuple(_processes(cluster, manifests, [each.state_mib for each in states])),
        states=states,
        remarks=tuple(
            f"Nothing known bounds the state of {each.query}.{each.fragment}: it is taken to be as "
            "large as `memory`."
            for each in states
            if each.tuples is None
        ),
    )


def _processes(
    cluster: ClusterManifest, manifests: Manifests, states: list[float]
) -> Iterator[ProcessSize]:
    """The processes, with the size of each fragment's state, MiB."""
    queues = cluster.record.memory_bytes / MIB
    hosted = {"queues": queues, "states": sum(states), "a state twice": max(states, default=0.0)}
    heap_mib = cluster.executor_memory_bytes // MIB
    yield _process("executor", len(cluster.nodes), HOST_CORES, heap_mib, hosted)
    listed = cluster.applications
    applications = listed if isinstance(listed, int) else len(listed)
    yield _process("driver", applications, OTHER_CORES, DRIVER_HEAP_MIB)
    if cluster.sites:
        edges = max(_edges(manifests, site.name) for site in cluster.sites)
        held = {"queues": queues, "edges": edges * EDGE_BUFFERS * BUFFER_BYTES / MIB}
        yield _process("site", len(cluster.sites), HOST_CORES, 0, held)
    yield _process("coordinator", cluster.coordinators, OTHER_CORES)
    yield _process("web", 1, OTHER_CORES)
    if not cluster.zookeeper.address:
        servers = cluster.zookeeper.servers
        yield _process("zookeeper", servers, OTHER_CORES, ZOOKEEPER_HEAP_MIB)


def _process(
    name: str,
    count: int,
    cores: float,
    heap_mib: int = 0,
    held: Mapping[str, float] | None = None,
) -> ProcessSize:
    """A process whose base is known, and what it holds beside that, MiB."""
    base = {
        key.removeprefix(f"{name}.").removesuffix("_mib"): value
        for key, value in memory_sizes().items()
        if key.startswith(f"{name}.")
    }
    parts = {**base, **(held or {})}
    overhead_mib = math.ceil(sum(parts.values()) * HEADROOM / STEP_MIB) * STEP_MIB
    return ProcessSize(
        process=name,
        count=count,
        cores=cores,
        heap_mib=heap_mib,
        overhead_mib=overhead_mib,
        limit_mib=heap_mib + overhead_mib,
        parts={part: round(mib, 1) for part, mib in parts.items() if mib},
    )


def _edges(manifests: Manifests, site: str) -> int:
    """Streams that enter or leave at a site."""
    enter = sum(site in each.record.sites for each in manifests.streams)
    leave = sum([*each.record.outputs.values()].count(site) for each in manifests.queries)
    return enter + leave


def _states(
    cluster: ClusterManifest, manifests: Manifests, flow: Dataflow
) -> tuple[StateEstimate, ...]:
    streams = {each.record.name: each.record for each in manifests.streams}
    queries = {each.record.name: each.record for each in manifests.queries}
    known = rates(flow, streams, queries, cluster.record.batch_ms)
    budget_mib = cluster.record.memory_bytes / MIB
    return tuple(_state(each, known, budget_mib) for each in flow.fragments.values())


def _state(fragment: Fragment, known: Mapping[str, Rate], budget_mib: float) -> StateEstimate:
    (statement,) = parse(fragment.statement)
    program = compile_statement(statement, fragment.inputs)
    way = way_of(program)
    # What a loop keeps depends on what its statements give each other.
    tuples: float | None = 0.0
    state_mib = 0.0
    if program.loop is not None:
        # What it keeps depends on what its statements give each other.
        return StateEstimate(
            query=fragment.query,
            fragment=fragment.name,
            way=way.value,
            tuples=None,
            state_mib=round(budget_mib, 3),
        )
    for window in program.windows if way is not EvaluationWay.STATELESS else ():
        held = _held(program, window, known[window.stream])
        if way is EvaluationWay.PANES and held is not None:
            held = min(held, _groups(program, window, known[fragment.name]))
        if held is None:
            tuples, state_mib = None, budget_mib
            break
        width = row_bytes(fragment.uses[window.stream]) + _beyond_width(program, window, way)
        tuples, state_mib = tuples + held, state_mib + held * width / MIB
    return StateEstimate(
        query=fragment.query,
        fragment=fragment.name,
        way=way.value,
        tuples=tuples,
        state_mib=round(state_mib, 3),
    )


def _held(program: Program, window: WindowPlan, rate: Rate) -> float | None:
    """Tuples that a window holds at most; None: nothing bounds them."""
    if window.range_ms is not None:
        return max(rate.tuples_s * program.in_ms(window.reach_ms) / 1e3, rate.burst)
    if window.session_ms is not None:
        # Each may be a session of its own, which is open until the gap is over.
        return rate.tuples_s * window.session_ms / 1e3
    return None if window.rows is None or window.partition_by else float(window.rows)


def _groups(program: Program, window: WindowPlan, given: Rate) -> float:
    """Groups that the panes of a window hold at most, if all that it shows are told when it slides,
    at the rate that the owner has stated or that follows from each tuple being one."""
    range_ms, slide_ms = window.range_ms or 1, window.slide_ms or 1
    return given.tuples_s * program.in_ms(slide_ms) / 1e3 * range_ms / math.gcd(range_ms, slide_ms)


def _beyond_width(program: Program, window: WindowPlan, way: EvaluationWay) -> float:
    """What a tuple of a window takes beyond its width, bytes."""
    kinds = [way.value]
    if way is EvaluationWay.STEPWISE:
        at = program.windows.index(window)
        groups = [
            select.group
            for select in program.selects
            if select.group is not None and any(source.window == at for source in select.sources)
        ]
        kinds += ["stepwise_partitions"] if window.partition_by else []
        kinds += ["stepwise_groups"] if groups else []
        if any(one.distinct for group in groups for one in group.aggregates):
            kinds += ["stepwise_distinct"]
    return sum(memory_sizes()[f"{kind}.tuple_bytes"] for kind in kinds)
