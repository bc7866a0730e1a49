"""The paper's model and the solver, on problems that can be solved by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placement.deadline.errors import DeadlinesUnattainable, TooManyPaths
from placement.deadline.paper_model import MOST_PATHS, place_by_paper_model
from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import Admitted
from placement.deadline.result import DeadlinePlacement, deviation, network_usage
from placement.deadline.solver import place_by_deadline
from placement.deadline.solver_model import SolverModel, SolverSettings
from placement.errors import SettingsError, SolverStopped
from placement.program import MilpSettings
from tests.unit.placement.deadline.two_nodes import chain, operator, problem

Place = Callable[[DeadlineProblem], DeadlinePlacement]

ways = pytest.mark.parametrize("place", [place_by_paper_model, place_by_deadline])


def two_chains() -> DeadlineProblem:
    """Two queries of 4 ms each, due after 5 ms: they do not fit on one node."""
    return problem([operator("o", 4, "in"), operator("p", 4, "in")], {"o.out": 5, "p.out": 5})


@ways
def test_operators_that_do_not_fit_together_are_separated(place: Place) -> None:
    found = place(two_chains())
    assert set(found.places.values()) == {"a", "b"}
    assert found.objective == pytest.approx(0, abs=1e-6)
    assert found.sub_deadlines_ms == pytest.approx({"o": 5, "p": 5})


@ways
def test_an_operator_goes_only_where_it_may(place: Place) -> None:
    """Both tied to a: together 8 ms, so both would need 8 ms of 9."""
    tied = problem(
        [operator("o", 4, "in", candidates=("a",)), operator("p", 4, "in", candidates=("a",))],
        {"o.out": 9, "p.out": 9},
    )
    assert place(tied).places == {"o": "a", "p": "a"}


@ways
def test_work_that_runs_already_is_kept_in_time(place: Place) -> None:
    busy = problem(
        [operator("o", 4, "in")],
        {"o.out": 8},
        admitted={"a": (Admitted(name="old", cost_ms=6, deadline_ms=9),)},
    )
    assert place(busy).places == {"o": "b"}


@ways
def test_a_fast_node_takes_what_a_slow_one_cannot(place: Place) -> None:
    fast = problem([operator("o", 8, "in")], {"o.out": 5}, speeds=(1, 2))
    assert place(fast).places == {"o": "b"}


@ways
def test_the_deviation_is_least_if_both_operators_share_it(place: Place) -> None:
    """4 ms and 4 ms in a row on one node, 12 ms: 4 and 8 instead of 6 and 6."""
    found = place(chain(4, 4, deadline_ms=12, tied={"o0": "a", "o1": "a"}))
    assert found.objective == pytest.approx(1)
    assert found.pair_deadlines_ms == pytest.approx({("o1.out", "o0"): 4, ("o1.out", "o1"): 8})
    assert found.optimal


@ways
def test_no_placement_is_an_error(place: Place) -> None:
    with pytest.raises(DeadlinesUnattainable):
        place(chain(4, 4, deadline_ms=7, tied={"o0": "a", "o1": "a"}))


def test_too_many_paths_are_told_with_their_number() -> None:
    """Each diamond doubles the paths."""
    operators = [operator("j0", 1, "in")]
    for i in range(14):
        operators.append(operator(f"l{i}", 1, f"j{i}.out"))
        operators.append(operator(f"r{i}", 1, f"j{i}.out"))
        operators.append(operator(f"j{i + 1}", 1, f"l{i}.out r{i}.out"))
    diamonds = problem(operators, {"j14.out": 1e6})
    with pytest.raises(TooManyPaths) as refusal:
        place_by_paper_model(diamonds)
    assert (refusal.value.paths, refusal.value.limit) == (2**14, MOST_PATHS)
    assert place_by_deadline(diamonds).objective == 0


def test_refused_with_the_deadline_and_the_node_and_by_how_much() -> None:
    """8 ms of work on a; d = 4 and 8 on the path need 12 ms, 10 there are."""
    tight = chain(4, 4, deadline_ms=10, tied={"o0": "a", "o1": "a"})
    with pytest.raises(DeadlinesUnattainable) as refusal:
        place_by_deadline(tight)
    error = refusal.value
    assert error.relaxation_ms == pytest.approx({"o1.out": 2})
    # Both rows of a, 4 ≤ d_0 + e and 8 ≤ d_1 + e, have to be met with d_0 + d_1 = 10.
    assert error.excess_ms == pytest.approx({"a": 1})
    assert "o1.out by 2 ms" in str(error)
    assert "a of 1 ms" in str(error)
    later_ms = {name: ms + 1e-6 for name, ms in error.relaxation_ms.items()}
    assert place_by_deadline(tight.later(later_ms)).places == {"o0": "a", "o1": "a"}


def test_latencies_alone_may_be_too_long() -> None:
    """20 ms there and back again; less work would not help."""
    far = chain(1, 1, deadline_ms=15, latency_ms=10, tied={"o0": "b", "o1": "a"})
    with pytest.raises(DeadlinesUnattainable) as refusal:
        place_by_deadline(far)
    assert set(refusal.value.relaxation_ms) == {"o1.out"}
    assert refusal.value.relaxation_ms["o1.out"] > 15
    assert not refusal.value.excess_ms


def test_operators_stay_where_latency_is_saved() -> None:
    """Source on a, sink on b: one crossing is enough, three would leave no time."""
    far = chain(2, 2, 2, deadline_ms=34, latency_ms=20)
    nodes = [place_by_deadline(far).places[name] for name in far.order]
    assert nodes == sorted(nodes)


def test_a_small_weight_of_network_usage_decides_between_equal_deviations() -> None:
    """The stream is large before o and small behind it: o goes to its source."""
    loose = problem(
        [operator("o", 1, "in")],
        {"o.out": 1e4},
        latency_ms=1.0,
        rates_bytes_s={"in": 1e6, "o.out": 1e3},
    )
    assert network_usage(loose, {"o": "a"}) == pytest.approx(1)
    assert network_usage(loose, {"o": "b"}) == pytest.approx(1000)
    settings = SolverSettings(usage_weight=1e-3)
    found = place_by_deadline(loose, settings)
    assert found.places == {"o": "a"}
    assert found.objective == pytest.approx(
        deviation(loose, found.pair_deadlines_ms) + 1e-3, rel=1e-3
    )


def test_a_limit_is_told_from_infeasibility() -> None:
    """No time at all for HiGHS: it is not said that nothing fits."""
    with pytest.raises(SolverStopped):
        place_by_paper_model(chain(*[3.0] * 6, deadline_ms=40), MilpSettings(time_limit_s=1e-9))


def test_lower_bounds_hold_sub_deadlines_up() -> None:
    loose = chain(4, 4, deadline_ms=12)
    model = SolverModel(loose, lower_bounds_ms={("o1.out", "o1"): 7.0})
    answer = model.program.solve(MilpSettings(gap=0.0))
    assert answer.bound == pytest.approx(1 / 4 + 1 / 4)


def test_settings_are_checked() -> None:
    with pytest.raises(SettingsError, match="usage_weight -1"):
        SolverSettings(usage_weight=-1.0)
    with pytest.raises(SettingsError, match="largest -1"):
        SolverSettings(largest=-1)
