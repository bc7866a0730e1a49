"""The problems that deadline placement is measured on, and the plot."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import deadline_scale as benchmark
from bench.deadline_scale import deadline_scale, plot
from bench.deadline_workload import random_queries
from bench.registry import Settings
from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem
from placement.deadline.solver import place_by_deadline


@pytest.mark.parametrize(("nodes", "operators"), [(4, 33), (10, 88)])
def test_so_many_nodes_and_operators(nodes: int, operators: int) -> None:
    problem = random_queries(nodes, operators)
    assert (len(problem.nodes), len(problem.operators)) == (nodes, operators)
    again = random_queries(nodes, operators)
    assert again.operators == problem.operators
    assert again.outputs == problem.outputs


def test_below_tightness_1_all_sub_deadlines_are_proportional_above_it_none_can_be() -> None:
    assert place_by_deadline(random_queries(4, 33, tightness=0.9)).objective == 0
    tight = random_queries(4, 33, tightness=1.05)
    found = place_by_deadline(tight)
    assert found.objective > 0.1
    least_ms = DemandTable(tight, found.places).least_ms
    assert (least_ms / tight.proportional_ms).max() >= 1.05 - 1e-9


def test_with_latencies_candidates_are_near_the_way() -> None:
    problem = random_queries(40, 60, farthest_ms=20.0)
    ms = problem.latency_ms
    assert 0 < ms.max() <= 20.0
    operator = problem.by_name["q0.2"]
    site, sink = (problem.by_name[f"q0.{i}"].candidates[0] for i in (0, len(_query(problem)) - 1))
    index = problem.node_index
    way_ms = ms[index[site]] + ms[:, index[sink]]
    worst_ms = max(float(way_ms[index[node]]) for node in operator.candidates)
    assert worst_ms <= sorted(way_ms.tolist())[16]


def _query(problem: DeadlineProblem) -> list[str]:
    return [o.name for o in problem.operators if o.name.startswith("q0.")]


@pytest.mark.slow
def test_the_papers_model_is_not_tried_where_it_would_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = random_queries(4, 33)
    solved = place_by_deadline(small)
    assert solved.optimal, "as the paper's model is at each size here, so it never hits its limit"
    tried: list[str] = []

    def measured(flat: dict[str, float], key: str, *_problem_and_way: object) -> object:
        tried.append(key)
        flat[f"{key}.seconds"] = 1.0
        return solved

    def drawn(*_size: object, **_kind: object) -> DeadlineProblem:
        return small

    monkeypatch.setattr(benchmark, "random_queries", drawn)
    monkeypatch.setattr(benchmark, "_measured", measured)
    deadline_scale(Settings(quick=True, folder=tmp_path, say=lambda _: None))
    assert "10x88.paper_model" in tried
    assert "100x1000.solver" in tried
    assert "100x1000.paper_model" not in tried


@pytest.mark.slow
def test_plot(tmp_path: Path) -> None:
    path = tmp_path / "seconds.png"
    plot(
        {
            "2x21.paper_model.seconds": 0.1,
            "4x33.paper_model.seconds": 1.0,
            "4x33.paper_model.gap": 0,
        },
        path,
    )
    assert path.read_bytes().startswith(b"\x89PNG")
