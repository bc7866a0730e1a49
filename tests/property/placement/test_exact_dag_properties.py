"""The MILP against all placements there are, on networks and graphs small enough to go through."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.arrays import FloatArray, IntArray
from placement.dag_model import DagTask
from placement.errors import CapacityUnattainable, DeadlineUnattainable, NoNode
from placement.evaluation.load import ROUNDING_CORES
from placement.exact_dag import DagPlacement, solve_dag
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from tests.property.placement import definitions

HOP_OVERHEAD_MS = 2.0

Places = dict[str, str]

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 4)


class Instance:
    """A random network of 4 nodes, an acyclic graph, candidates, prices and capacities."""

    def __init__(self, seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        self.view = NetworkView(
            nodes=tuple(
                Node(name=f"n{i}", position_ms=rng.uniform(0, 100, size=2)) for i in range(4)
            ),
            rtt_ms={("n0", "n1"): 300.0},
        )
        self.graph = _graph(rng, size)
        self.price_bytes: FloatArray = rng.uniform(0, 30, size=4)
        self.capacity_left: FloatArray = rng.uniform(0, 0.4, size=4)
        self.candidates: dict[str, IntArray] = {
            name: rng.choice(4, size=rng.integers(1, 5), replace=False)
            for name in self.graph.to_place
        }

    @property
    def task(self) -> DagTask:
        """Without conditions."""
        return DagTask(
            graph=self.graph,
            view=self.view,
            candidates=self.candidates,
            price_bytes=self.price_bytes,
        )

    def placements(self) -> list[Places]:
        """All that the candidates and pins allow."""
        choices = [
            [operator.pinned]
            if operator.pinned is not None
            else self.view.names(self.candidates[operator.name])
            for operator in self.graph.operators
        ]
        names = [operator.name for operator in self.graph.operators]
        return [dict(zip(names, nodes, strict=True)) for nodes in product(*choices)]

    def cost(self, primaries: Places) -> float:
        """Network usage and load price, bytes, term by term."""
        bytes_ms = sum(
            link.rate_bytes_s * self.view.one_way_ms(primaries[link.source], primaries[link.target])
            for link in self.graph.links
        )
        nodes = [self.view.index[primaries[name]] for name in self.graph.to_place]
        return bytes_ms / 1e3 + float(self.price_bytes[nodes].sum())

    def fits(self, primaries: Places) -> bool:
        used = np.zeros(4)
        for name in self.graph.to_place:
            used[self.view.index[primaries[name]]] += self.graph.cores(name)
        return bool((used <= self.capacity_left + ROUNDING_CORES).all())

    def latency_ms(self, primaries: Places) -> float:
        return definitions.longest_path_ms(self.graph, primaries, self.view, HOP_OVERHEAD_MS)

    def is_apart(self, primaries: Places) -> bool:
        return all(
            primaries[link.source] != primaries[link.target]
            for link in self.graph.links
            if link.source in self.graph.to_place and link.target in self.graph.to_place
        )

    def solved_or_refused(
        self, deadline_ms: float, *, fit: bool, apart: bool
    ) -> DagPlacement | DeadlineUnattainable | CapacityUnattainable | NoNode:
        try:
            return solve_dag(
                replace(
                    self.task,
                    capacity_left=self.capacity_left if fit else None,
                    deadline_ms=deadline_ms,
                    hop_overhead_ms=HOP_OVERHEAD_MS,
                    apart=apart,
                )
            )
        except (DeadlineUnattainable, CapacityUnattainable, NoNode) as error:
            return error


def _graph(rng: np.random.Generator, size: int) -> QueryGraph:
    """Two sources, operators fed by one or two before them, which are so shared, and a sink."""
    before = ["s0", "s1"]
    links: list[Link] = []
    for name in [*(f"o{i}" for i in range(size)), "sink"]:
        inputs: list[str] = rng.choice(before, size=rng.integers(1, 3), replace=False).tolist()
        links.extend(
            Link(
                source=source,
                target=name,
                rate_bytes_s=float(10 ** rng.uniform(0, 6)),
                tuples_s=float(rng.uniform(0, 1000)),
            )
            for source in inputs
        )
        before.append(name)
    return QueryGraph(
        name="q",
        operators=tuple(
            Operator(
                name=name,
                cost_us=float(rng.uniform(0, 300)),
                pinned=None if name.startswith("o") else f"n{rng.integers(4)}",
            )
            for name in before
        ),
        links=tuple(links),
    )


@settings(max_examples=40, deadline=None)
@given(seeds, sizes)
def test_no_placement_is_cheaper(seed: int, size: int):
    instance = Instance(seed, size)
    found = solve_dag(instance.task)
    assert found.primaries in instance.placements()
    check_cost(instance, found, instance.placements())


@settings(max_examples=60, deadline=None)
@given(seeds, sizes, st.booleans(), st.floats(0, 1), st.booleans())
def test_conditions_are_kept_at_least_cost_or_refused(
    seed: int, size: int, fit: bool, urgency: float, apart: bool
):
    instance = Instance(seed, size)
    every = [p for p in instance.placements() if not apart or instance.is_apart(p)]
    fitting = [p for p in every if not fit or instance.fits(p)]
    # One of the latencies that occur, so that placements at the very deadline are common.
    latencies_ms = sorted(map(instance.latency_ms, instance.placements()))
    deadline_ms = latencies_ms[int(urgency * (len(latencies_ms) - 1))]
    in_time = [p for p in fitting if instance.latency_ms(p) <= deadline_ms]
    found = instance.solved_or_refused(deadline_ms, fit=fit, apart=apart)
    if isinstance(found, DeadlineUnattainable):
        assert not in_time
        assert math.isclose(found.best_ms, min(map(instance.latency_ms, fitting)), abs_tol=1e-5)
        return
    if isinstance(found, CapacityUnattainable):
        assert every
        assert not fitting
        assert set(found.operators) <= set(instance.graph.to_place)
        return
    if isinstance(found, NoNode):
        assert not every
        return
    assert found.primaries in in_time
    check_cost(instance, found, in_time)


@settings(max_examples=20, deadline=None)
@given(seeds, sizes)
def test_the_order_of_nodes_links_and_candidates_does_not_matter(seed: int, size: int):
    instance, other = Instance(seed, size), Instance(seed, size)
    order: list[int] = np.random.default_rng(seed).permutation(4).tolist()
    there = np.argsort(order)
    other.view = NetworkView(
        nodes=tuple(instance.view.nodes[i] for i in order), rtt_ms=instance.view.rtt_ms
    )
    other.graph = replace(
        instance.graph, operators=instance.graph.operators[::-1], links=instance.graph.links[::-1]
    )
    other.candidates = {n: there[nodes][::-1] for n, nodes in instance.candidates.items()}
    other.price_bytes = instance.price_bytes[order]
    other.capacity_left = instance.capacity_left[order]
    found = instance.solved_or_refused(math.inf, fit=True, apart=False)
    same = other.solved_or_refused(math.inf, fit=True, apart=False)
    assert str(found) == str(same)


def check_cost(instance: Instance, found: DagPlacement, allowed: list[Places]) -> None:
    assert found.cost == pytest.approx(instance.cost(found.primaries))
    least = min(map(instance.cost, allowed))
    assert found.cost == pytest.approx(least, rel=2e-6, abs=1e-6)
    assert found.bound <= least * (1 + 1e-6) + 1e-6
    assert found.optimal
