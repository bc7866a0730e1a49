"""Proportional sub-deadlines use up every deadline, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.deadline.problem import DeadlineProblem
from placement.deadline.sub_deadlines import proportional_stretch, proportional_sub_deadlines
from tests.property.placement.deadline.random_deadlines import random_problem

seeds = st.integers(0, 10_000)


def some(seed: int, *, shared: bool = True) -> tuple[DeadlineProblem, dict[str, str]]:
    """A problem and places for it."""
    found = random_problem(
        seed, nodes=3, queries=2, operators=4, shared=shared, latency_ms=float(seed % 4)
    )
    rng = np.random.default_rng(seed)
    places = {name: str(rng.choice(found.by_name[name].candidates)) for name in found.order}
    return found, places


def ways(problem: DeadlineProblem, output: str) -> Iterator[tuple[str, ...]]:
    """From a source through operators to the one that makes the output."""
    seen: set[tuple[str, ...]] = set()
    for path in problem.paths(output):
        for begin in range(len(path)):
            way = path[begin:]
            reads = problem.by_name[way[0]].inputs
            if any(stream in problem.source for stream in reads) and way not in seen:
                seen.add(way)
                yield way


def travel_ms(
    problem: DeadlineProblem, places: dict[str, str], output: str, way: tuple[str, ...]
) -> float:
    """All latencies of a way, from the source and to the sink."""
    at = [problem.node_index[places[name]] for name in way]
    latency_ms = problem.latency_ms
    before_ms = max(
        min(latency_ms[problem.node_index[node], at[0]] for node in problem.source[stream].nodes)
        for stream in problem.by_name[way[0]].inputs
        if stream in problem.source
    )
    stops = [*at, problem.node_index[problem.output[output].sink]]
    hops = pairwise(stops)
    return float(before_ms + sum(latency_ms[one, other] for one, other in hops))


@settings(max_examples=120, deadline=None)
@given(seeds)
def test_every_path_keeps_its_deadline_and_one_uses_it_up(seed: int) -> None:
    problem, places = some(seed)
    stretch = proportional_stretch(problem, places)
    for output in problem.outputs:
        lasts_ms = [
            travel_ms(problem, places, output.stream, way)
            + stretch[output.stream] * sum(map(problem.cost_ms, way))
            for way in ways(problem, output.stream)
        ]
        if stretch[output.stream] > 0:
            assert max(lasts_ms) == pytest.approx(output.deadline_ms)
    least_ms = proportional_sub_deadlines(problem, places)
    assert (least_ms is None) == (min(stretch.values()) <= 0)
    if least_ms is not None:
        for output in problem.outputs:
            for way in ways(problem, output.stream):
                way_ms = travel_ms(problem, places, output.stream, way)
                way_ms += sum(least_ms[name] for name in way)
                assert way_ms <= output.deadline_ms * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_all_that_serve_one_output_have_the_same_laxity(seed: int) -> None:
    problem, places = some(seed, shared=False)
    least_ms = proportional_sub_deadlines(problem, places)
    if least_ms is None:
        return
    for output in problem.outputs:
        ratios = [
            (least_ms[name] - problem.cost_ms(name)) / problem.cost_ms(name)
            for name in problem.needed[output.stream]
        ]
        assert ratios == pytest.approx([ratios[0]] * len(ratios))


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_there_are_none_only_if_latencies_use_up_a_deadline(seed: int) -> None:
    problem, places = some(seed)
    late = any(
        travel_ms(problem, places, output.stream, way) >= output.deadline_ms
        for output in problem.outputs
        for way in ways(problem, output.stream)
    )
    assert (proportional_sub_deadlines(problem, places) is None) == late
