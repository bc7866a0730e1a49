"""The least cost of a query's primaries on any network: exact, whatever its size.

The cost is the placer's objective for primaries (`placement.exact_tree`), bytes: network usage of
all links, and the load price of each replica on its node. Every host may take every operator. The
dynamic programme is that of `placement.min_sum`, but a link's
table over 10,000 × 10,000 nodes is never whole in memory: it is gone through in blocks of rows,
which all the links of all the queries share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foundation.arrays import FloatArray
from orchestrator.errors import InvalidInput
from placement.graph import Link, QueryGraph
from placement.network import NetworkView

BLOCK_ENTRIES = 1 << 17
"""Entries of a table that are made at once: 1 MB, which stays in a processor's cache."""


class Task(NamedTuple):
    """A query, and the load price of one of its replicas by node, shape (n,), bytes."""

    graph: QueryGraph
    price_bytes: FloatArray


class _Flow(NamedTuple):
    """A link between operators to be placed, and the query that it belongs to."""

    query: int
    link: Link


def least_costs(tasks: Sequence[Task], view: NetworkView) -> FloatArray:
    """Least cost of each query, bytes, shape (len(tasks),).

    Raises
    ------
    InvalidInput
        If an operator to be placed feeds another than one: such a query is no tree towards its
        sink.
    """
    # By query and operator: least cost of everything upstream, by host that the operator is on.
    costs = [_upstream(task, view) for task in tasks]
    waves: dict[int, list[_Flow]] = {}
    for query, task in enumerate(tasks):
        for depth, link in _inner_links(task.graph):
            waves.setdefault(depth, []).append(_Flow(query, link))
    for depth in sorted(waves):
        for flow, reached in zip(waves[depth], _passed_on(waves[depth], costs, view), strict=True):
            costs[flow.query][flow.link.target] += reached
    return np.array([_total(task, costs[i], view) for i, task in enumerate(tasks)])


def _upstream(task: Task, view: NetworkView) -> dict[str, FloatArray]:
    """By operator to be placed and host: its load price, and its pinned inputs' usage."""
    graph, hosts = task.graph, view.host_indices
    costs: dict[str, FloatArray] = {}
    for name in graph.to_place:
        costs[name] = task.price_bytes[hosts].copy()
        for link in graph.inputs[name]:
            pinned = graph.by_name[link.source].pinned
            if pinned is not None:
                source = np.array([view.index[pinned]])
                delay_ms = view.one_way_between(source, hosts)[0]
                costs[name] += link.rate_bytes_s * delay_ms / 1e3
    return costs


def _inner_links(graph: QueryGraph) -> list[tuple[int, Link]]:
    """Links between operators to be placed, each after those upstream by their depth."""
    free = set(graph.to_place)
    depth: dict[str, int] = {}
    found: list[tuple[int, Link]] = []
    for name in graph.to_place:
        if len(graph.outputs[name]) > 1:
            targets = ", ".join(link.target for link in graph.outputs[name])
            problem, remedy = "feeds several", "Give a query that is a tree towards its sink."
            raise InvalidInput(graph.name, f"operator {name}", targets, problem, remedy)
        above = [link for link in graph.inputs[name] if link.source in free]
        depth[name] = 1 + max((depth[link.source] for link in above), default=-1)
        found += [(depth[link.source], link) for link in above]
    return found


def _passed_on(
    flows: Sequence[_Flow], costs: Sequence[dict[str, FloatArray]], view: NetworkView
) -> list[FloatArray]:
    """For each link: min over its source's hosts of what is upstream and the link's own usage."""
    hosts = view.host_indices
    least = [np.full(len(hosts), np.inf) for _ in flows]
    rows = max(1, BLOCK_ENTRIES // len(hosts))
    for first in range(0, len(hosts), rows):
        some = slice(first, first + rows)
        delay_s = view.one_way_between(hosts[some], hosts) / 1e3
        for (query, link), best in zip(flows, least, strict=True):
            table = link.rate_bytes_s * delay_s
            table += costs[query][link.source][some, None]
            np.minimum(best, table.min(axis=0), out=best)
    return least


def _total(task: Task, costs: dict[str, FloatArray], view: NetworkView) -> float:
    """What the whole costs at least: every operator that feeds no free one ends a tree."""
    graph, hosts = task.graph, view.host_indices
    total = 0.0
    for name in graph.to_place:
        ends = costs[name]
        for link in graph.outputs[name]:
            pinned = graph.by_name[link.target].pinned
            if pinned is None:
                break
            target = np.array([view.index[pinned]])
            delay_ms = view.one_way_between(target, hosts)[0]
            ends = ends + link.rate_bytes_s * delay_ms / 1e3
        else:
            total += float(ends.min())
    return total
