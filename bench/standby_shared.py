"""What it saves that links carry a stream once: part of kind `model` of benchmark `standby`.

Queries that read one stream on one host receive it there once, and so do their standbys. Network
usage (2) of primaries and secondaries under Active Standby is summed twice for the same places:

- `alone`: of each query as if it were the only one, as reliable placement does;
- `once`: of each stream once for each host that it flows to, as the product carries it, and as
  `vivace plan` prices it.

`paper` are the paper's 100 queries, where the sources of a node are one stream; `one_stream` are 40
queries on one stream, each with a selection and a destination of its own. Their places are chosen
twice: each query by itself (`apart`), and knowing where its sources flow because of the queries
before it (`knowing`), as the product's are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import repeat

import numpy as np

from bench.placement_methods import METHODS, OURS, Pairs
from bench.placement_workload import (
    BOUND_MS,
    COST_US,
    DEADLINE_MS,
    SELECTED,
    SOURCE_BYTES_S,
    TUPLE_BYTES,
    Workload,
)
from placement.evaluation.load import Load
from placement.graph import Link, Operator, QueryGraph
from placement.planner import free_points, place_query
from placement.records import Request

METHOD = "ours"
QUERIES = 40


def shared(load: Workload, pairs: Pairs, seed: int) -> dict[str, float]:
    """Flat figures of one network.

    Parameters
    ----------
    load, pairs
        The paper's queries, and where `METHOD` places them.
    """
    one = on_one_stream(load, seed)
    placed = METHODS[METHOD](one, np.random.default_rng(seed))
    flat: dict[str, float] = {}
    for kind, work, apart in (("paper", load, pairs), ("one_stream", one, placed)):
        places = {"apart": apart, "knowing": knowing(work, np.random.default_rng(seed))}
        for chosen, where in places.items():
            for key, value in carried(work, where).items():
                flat[f"{kind}.{chosen}.{key}"] = value
    return flat


def knowing(load: Workload, rng: np.random.Generator) -> Pairs:
    """Places chosen query by query, each knowing where its sources flow already."""
    flows_to: dict[str, frozenset[str]] = {}
    around = Load(load.view, operator_load=OURS.operator_load, cpu=OURS.cpu)
    pairs: Pairs = {}
    points = free_points(load.requests, load.view, OURS, repeat(rng))
    for request, points_ms in zip(load.requests, points, strict=True):
        graph = _with_flows(request.graph, flows_to)
        told = request._replace(graph=graph)
        placed, _ = place_query(told, points_ms, load.view, around, {}, OURS)
        chosen = {each.operator: (each.primary, each.secondary) for each in placed}
        around = around.with_operators(graph, chosen)
        pairs |= chosen
        for link in graph.links:
            if link.target in chosen:
                stream = _stream(graph.by_name, link.source)
                flows_to[stream] = flows_to.get(stream, frozenset()).union(chosen[link.target])
    return pairs


def _with_flows(graph: QueryGraph, flows_to: Mapping[str, frozenset[str]]) -> QueryGraph:
    operators = (
        each
        if each.pinned is None or not graph.outputs[each.name]
        else replace(each, flows_to=flows_to.get(each.pinned, frozenset()))
        for each in graph.operators
    )
    return replace(graph, operators=tuple(operators))


def on_one_stream(load: Workload, seed: int) -> Workload:
    """Queries on the stream of one node, over the network of another workload."""
    rng = np.random.default_rng(seed)
    names = [node.name for node in load.view.nodes]
    source = str(rng.choice(names))
    graphs = (_selection(f"s{i:03d}", source, str(rng.choice(names))) for i in range(QUERIES))
    requests = tuple(Request(graph, DEADLINE_MS, BOUND_MS, 0.0) for graph in graphs)
    return Workload(view=load.view, requests=requests)


def carried(load: Workload, pairs: Pairs) -> dict[str, float]:
    """Network usage of places, priced query by query and stream by stream."""
    alone = 0.0
    once: dict[tuple[str, str], float] = {}
    for request in load.requests:
        graph = request.graph
        primaries = graph.pinned | {name: pairs[name][0] for name in graph.to_place}
        for link in graph.links:
            sender = primaries[link.source]
            stream = _stream(graph.by_name, link.source)
            secondary = pairs[link.target][1:] if link.target in pairs else ()
            for receiver in (primaries[link.target], *secondary):
                one_way_ms = load.view.one_way_ms(sender, receiver)
                usage = link.rate_bytes_s * one_way_ms / 1e3
                alone += usage
                once[stream, receiver] = max(usage, once.get((stream, receiver), 0.0))
    total = sum(once.values())
    return {
        "alone.network_usage": alone,
        "once.network_usage": total,
        "saved_pct": 100 * (1 - total / alone),
    }


def _stream(operators: Mapping[str, Operator], name: str) -> str:
    """The stream that leaves an operator: of sources on one node the same."""
    return operators[name].pinned or name


def _selection(name: str, source: str, destination: str) -> QueryGraph:
    entry, operator, exit_ = f"{name}.source", f"{name}.selection", f"{name}.destination"
    ends = [(entry, operator, 1.0), (operator, exit_, SELECTED)]
    return QueryGraph(
        name=name,
        operators=(
            Operator(name=entry, pinned=source),
            Operator(name=operator, cost_us=COST_US),
            Operator(name=exit_, pinned=destination),
        ),
        links=tuple(
            Link(
                source=start,
                target=end,
                rate_bytes_s=share * SOURCE_BYTES_S,
                tuples_s=share * SOURCE_BYTES_S / TUPLE_BYTES,
            )
            for start, end, share in ends
        ),
    )
