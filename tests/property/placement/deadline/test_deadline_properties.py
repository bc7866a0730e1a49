"""Deadline placement against all placements there are, and against EDF carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from bench.traffic_baseline import place_by_traffic
from placement.deadline.contraction import contract
from placement.deadline.decomposed import place_in_parts
from placement.deadline.demand import ROUNDING_MS, admit, work_of
from placement.deadline.demand_table import DemandTable
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.estimate import LowerBounds
from placement.deadline.paper_model import place_by_paper_model
from placement.deadline.problem import DeadlineProblem
from placement.deadline.result import DeadlinePlacement, deviation
from placement.deadline.solver import place_by_deadline
from placement.deadline.solver_model import SolverSettings
from placement.errors import SolverStopped
from placement.program import MilpSettings
from tests.contractions import expand
from tests.property.placement.deadline.edf import Edf
from tests.property.placement.deadline.random_deadlines import best_of_all, random_problem

seeds = st.integers(0, 2**32 - 1)
EXACT = SolverSettings(milp=MilpSettings(gap=1e-7))

patient = [HealthCheck.filter_too_much]
small = settings(max_examples=25, deadline=None, suppress_health_check=patient)
few = settings(max_examples=8, deadline=None, suppress_health_check=patient)


def tiny(seed: int, *, latency_ms: float = 0.0) -> DeadlineProblem:
    """Two queries on two or three nodes, about as tight as they can be."""
    return random_problem(
        seed,
        nodes=2 + seed % 2,
        queries=2,
        operators=3,
        looseness=(1.5, 3.5),
        latency_ms=latency_ms,
        busy=seed % 4 >= 2,
    )


def solved(
    problem: DeadlineProblem, place: Callable[[DeadlineProblem], DeadlinePlacement]
) -> DeadlinePlacement | None:
    try:
        return place(problem)
    except DeadlinesUnattainable:
        return None


def solver(problem: DeadlineProblem) -> DeadlinePlacement:
    return place_by_deadline(problem, EXACT)


def check(problem: DeadlineProblem, found: DeadlinePlacement) -> None:
    """Every operator runs where it may, every path fits, and every node has the time."""
    for name, node in found.places.items():
        assert node in problem.by_name[name].candidates
    index, ms = problem.node_index, problem.latency_ms
    for output in problem.outputs:
        for path in problem.paths(output.stream):
            nodes = [index[found.places[name]] for name in path] + [index[output.sink]]
            way_ms = sum(float(ms[n, m]) for n, m in pairwise(nodes))
            spent_ms = sum(found.pair_deadlines_ms[output.stream, name] for name in path)
            assert spent_ms + way_ms <= output.deadline_ms + ROUNDING_MS
    work = work_of(problem, found.places, found.sub_deadlines_ms)
    assert admit(problem.nodes, work)
    assert found.bound <= found.objective
    assert found.objective == pytest.approx(deviation(problem, found.pair_deadlines_ms))


@small
@given(seeds)
def test_brute_force_paper_model_and_solver_agree(seed: int) -> None:
    problem = tiny(seed)
    best = best_of_all(problem)
    paper_model, fast = solved(problem, place_by_paper_model), solved(problem, solver)
    if best is None:
        assert paper_model is None
        assert fast is None
        return
    assert paper_model is not None
    assert fast is not None
    assert paper_model.objective == pytest.approx(best, rel=1e-4, abs=1e-5)
    assert fast.objective == pytest.approx(best, rel=1e-4, abs=1e-5)
    check(problem, paper_model)
    check(problem, fast)


@few
@given(seeds)
def test_brute_force_and_solver_agree_about_latencies(seed: int) -> None:
    problem = tiny(seed, latency_ms=4.0)
    best, fast = best_of_all(problem), solved(problem, solver)
    if best is None or fast is None:
        assert best is None
        assert fast is None
        return
    assert fast.objective == pytest.approx(best, rel=1e-4, abs=1e-5)
    check(problem, fast)


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([0.0, 4.0]))
def test_edf_meets_the_sub_deadlines(seed: int, latency_ms: float) -> None:
    problem = random_problem(
        seed, nodes=3, queries=3, operators=3, looseness=(2, 5), latency_ms=latency_ms, busy=True
    )
    found = solved(problem, lambda p: place_by_deadline(p))
    assume(found is not None)
    assert found is not None
    rng = np.random.default_rng(seed)
    # Queries share streams, so all sources send at once; what runs already comes at any time.
    arrivals_ms = {source.stream: 10.0 for source in problem.sources}
    running_ms = {node.name: float(rng.uniform(0, 40)) for node in problem.nodes}
    run = Edf(problem, found.places, found.sub_deadlines_ms, arrivals_ms, running_ms)
    assert run.run() <= ROUNDING_MS
    for output in problem.outputs:
        assert run.output_ms(output.stream) <= 10.0 + output.deadline_ms + 10 * ROUNDING_MS


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_edf_meets_the_sub_deadlines_whenever_sources_send(seed: int) -> None:
    problem = random_problem(
        seed, nodes=2, queries=3, operators=2, looseness=(2, 5), shared=False, busy=True
    )
    found = solved(problem, lambda p: place_by_deadline(p))
    assume(found is not None)
    assert found is not None
    rng = np.random.default_rng(seed)
    arrivals_ms = {source.stream: float(rng.uniform(0, 20)) for source in problem.sources}
    running_ms = {node.name: float(rng.uniform(0, 40)) for node in problem.nodes}
    run = Edf(problem, found.places, found.sub_deadlines_ms, arrivals_ms, running_ms)
    assert run.run() <= ROUNDING_MS


@small
@given(seeds, st.floats(1.0, 3.0))
def test_later_deadlines_keep_a_problem_feasible(seed: int, factor: float) -> None:
    """Deadlines later by one factor: sub-deadlines, and so the rows of (6), keep their order."""
    problem = tiny(seed)
    found = solved(problem, solver)
    assume(found is not None)
    later_ms = {o.stream: (factor - 1) * o.deadline_ms for o in problem.outputs}
    again = solved(problem.later(later_ms), solver)
    assert again is not None


@small
@given(seeds, st.floats(0.0, 50.0))
def test_one_later_deadline_leaves_a_placement_valid(seed: int, later_ms: float) -> None:
    problem = tiny(seed)
    found = solved(problem, solver)
    assume(found is not None)
    assert found is not None
    relaxed = problem.later({problem.outputs[0].stream: later_ms})
    work = work_of(relaxed, found.places, found.sub_deadlines_ms)
    assert admit(relaxed.nodes, work)
    for output in relaxed.outputs:
        for path in relaxed.paths(output.stream):
            spent_ms = sum(found.pair_deadlines_ms[output.stream, name] for name in path)
            assert spent_ms <= output.deadline_ms + ROUNDING_MS


@few
@given(seeds, st.sampled_from([0.0, 4.0]))
@example(3914, 4.0)  # HiGHS fails after its own presolve.
@example(932, 4.0)  # Later deadlines change the order of (6) four times.
@example(2203, 4.0)  # HiGHS's presolve takes the relaxed problem for infeasible.
def test_a_problem_relaxed_as_advised_is_feasible(seed: int, latency_ms: float) -> None:
    problem = random_problem(
        seed, nodes=2, queries=2, operators=3, looseness=(1.0, 1.8), latency_ms=latency_ms
    )
    assume(solved(problem, lambda p: place_by_deadline(p)) is None)
    with pytest.raises(DeadlinesUnattainable) as refusal:
        place_by_deadline(problem)
    advice_ms = refusal.value.relaxation_ms
    assert advice_ms
    # A little more, for HiGHS's rounding.
    relaxed = problem.later({name: ms + 1e-3 for name, ms in advice_ms.items()})
    check(relaxed, place_by_deadline(relaxed))
    halfway = problem.later({name: ms / 2 for name, ms in advice_ms.items()})
    if sum(advice_ms.values()) > 1e-3 and halfway.first == problem.first == relaxed.first:
        # Less will not do, as long as (6) stays in the same order.
        with pytest.raises(DeadlinesUnattainable):
            place_by_deadline(halfway)


@few
@given(seeds, st.sampled_from([0.0, 4.0]))
def test_the_optimum_is_between_bound_and_objective_of_regions(
    seed: int, latency_ms: float
) -> None:
    problem = tiny(seed, latency_ms=latency_ms)
    best = best_of_all(problem)
    try:
        parts = place_in_parts(problem, EXACT)
    except DeadlinesUnattainable:
        assert best is None
        return
    except SolverStopped:
        return
    assert best is not None
    check(problem, parts)
    assert parts.bound <= best + 1e-5
    assert parts.objective >= best - 1e-5
    if parts.optimal:
        assert parts.objective == pytest.approx(best, rel=1e-4, abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_no_placement_is_below_the_lower_bounds(seed: int) -> None:
    problem = random_problem(seed, nodes=3, queries=3, operators=4, busy=True)
    lower_bounds = LowerBounds(problem)
    alone_ms = lower_bounds.least_ms
    lower_bounds.raise_by_spreading()
    assert (lower_bounds.least_ms >= alone_ms).all()
    rng = np.random.default_rng(seed)
    for _ in range(20):
        places = {name: str(rng.choice(problem.by_name[name].candidates)) for name in problem.order}
        demand_table = DemandTable(problem, places)
        assert (demand_table.least_ms >= lower_bounds.least_ms - 1e-6).all()


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_a_contracted_problem_has_the_same_objective(seed: int) -> None:
    problem = random_problem(seed, nodes=2, queries=2, operators=5, looseness=(4.0, 20.0), free=0.2)
    contraction = contract(problem)
    found = solved(contraction.problem, lambda p: place_by_deadline(p))
    assume(found is not None)
    assert found is not None
    whole = expand(contraction, found)
    assert set(whole.places) == set(problem.by_name)
    assert whole.objective == pytest.approx(deviation(problem, whole.pair_deadlines_ms), abs=1e-6)
    for output in problem.outputs:
        for path in problem.paths(output.stream):
            spent_ms = sum(whole.pair_deadlines_ms[output.stream, name] for name in path)
            assert spent_ms <= output.deadline_ms + ROUNDING_MS


@small
@given(seeds)
def test_no_placement_has_less_traffic_than_the_traffic_baseline(seed: int) -> None:
    problem = random_problem(seed, nodes=2, queries=2, operators=3, looseness=(20, 30))
    rates = {stream: float(1 + at) for at, stream in enumerate(problem.streams)}
    problem = replace(problem, rates_bytes_s=rates)
    found = place_by_traffic(problem)
    least = min(all_figures(problem))
    assert (found.traffic_bytes_s, found.busiest_ms) == pytest.approx(least, rel=1e-4)


def all_figures(problem: DeadlineProblem) -> list[tuple[float, float]]:
    """Traffic and busiest node of all placements there are, counted link by link."""
    found: list[tuple[float, float]] = []
    for nodes in product(*(problem.by_name[name].candidates for name in problem.order)):
        at = dict(zip(problem.order, nodes, strict=True))
        sent: set[tuple[str, str]] = set()
        for name, node in at.items():
            for stream in problem.by_name[name].inputs:
                suppliers = (
                    problem.source[stream].nodes
                    if stream in problem.source
                    else (at[problem.producer[stream]],)
                )
                if node not in suppliers:
                    sent.add((stream, node))
        for output in problem.outputs:
            if at[problem.producer[output.stream]] != output.sink:
                sent.add((output.stream, output.sink))
        busy_ms = {
            node.name: sum(problem.cost_ms(name) for name, n in at.items() if n == node.name)
            for node in problem.nodes
        }
        traffic = sum(problem.rates_bytes_s[stream] for stream, _ in sent)
        found.append((traffic, max(busy_ms.values())))
    return found
