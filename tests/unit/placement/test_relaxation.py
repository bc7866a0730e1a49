"""Algorithm 3 of reliable placement on springs that can be solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from placement.errors import RelaxationDiverges, SettingsError
from placement.graph import Link, Operator, QueryGraph
from placement.relaxation import Relaxation, RelaxationSettings, relax


def chain(rates: dict[tuple[str, str], float], free: str) -> QueryGraph:
    names = {name for pair in rates for name in pair}
    return QueryGraph(
        name="q",
        operators=tuple(
            Operator(name=name, pinned=None if name in free else "n") for name in names
        ),
        links=tuple(
            Link(source=source, target=target, rate_bytes_s=rate, tuples_s=1)
            for (source, target), rate in rates.items()
        ),
    )


pinned = {"S": np.array([0.0, 0.0]), "T": np.array([0.0, 30.0]), "D": np.array([30.0, 0.0])}


def relaxed(
    graph: QueryGraph,
    settings: RelaxationSettings | None = None,
    start: tuple[float, float] = (99, -5),
) -> Relaxation:
    return relax(graph, pinned, np.array([start] * len(graph.to_place)), settings)


def test_an_operator_comes_to_rest_at_the_rate_weighted_mean():
    result = relaxed(chain({("S", "a"): 2000, ("a", "D"): 1000}, "a"))
    assert result.points_ms["a"] == pytest.approx([10, 0], abs=1e-3)
    assert not result.solved


def test_a_chain_divides_the_way():
    """Two operators on equal springs: a third of the way each."""
    result = relaxed(chain({("S", "a"): 5, ("a", "b"): 5, ("b", "D"): 5}, "ab"))
    assert result.points_ms["a"] == pytest.approx([10, 0], abs=1e-2)
    assert result.points_ms["b"] == pytest.approx([20, 0], abs=1e-2)


def test_a_join_is_pulled_by_all_inputs():
    result = relaxed(chain({("S", "j"): 1000, ("T", "j"): 1000, ("j", "D"): 1000}, "j"))
    assert result.points_ms["j"] == pytest.approx([10, 10], abs=1e-3)


def test_any_rate_converges():
    """With δ on the bare force the text's rule diverges for rates above 2/δ bytes/s."""
    result = relaxed(chain({("S", "a"): 2e9, ("a", "D"): 1e9}, "a"), RelaxationSettings(delta=1))
    assert result.points_ms["a"] == pytest.approx([10, 0], abs=1e-3)


def test_what_creeps_is_solved():
    """A strong spring between two operators that hang on weak ones: millions of rounds."""
    graph = chain({("S", "a"): 1, ("a", "b"): 1e8, ("b", "D"): 1}, "ab")
    result = relaxed(graph)
    assert result.solved
    assert result.points_ms["a"] == pytest.approx([15, 0], abs=1e-3)


def test_an_idle_operator_is_still_drawn_somewhere():
    result = relaxed(chain({("S", "a"): 0, ("a", "D"): 0}, "a"))
    assert result.points_ms["a"] == pytest.approx([15, 0], abs=1e-3)


def test_a_query_with_nothing_to_place():
    assert relax(chain({("S", "D"): 1}, ""), pinned, np.zeros((0, 2))).points_ms == {}


@pytest.mark.parametrize("delta", [0, -0.1, 1.1, float("nan")])
def test_delta_is_a_share(delta: float):
    with pytest.raises(SettingsError, match="delta"):
        RelaxationSettings(delta=delta)


@pytest.mark.parametrize("rest_ms", [0, -1, float("nan"), float("inf")])
def test_rest_is_a_positive_extension(rest_ms: float):
    with pytest.raises(SettingsError, match="rest_ms"):
        RelaxationSettings(rest_ms=rest_ms)


def test_paper_model_steps_find_the_same_rest():
    """Algorithm 3 as printed, with a δ small enough for the rates."""
    graph = chain({("S", "a"): 0.5, ("a", "b"): 2, ("b", "D"): 1}, "ab")
    text = relaxed(graph, RelaxationSettings(delta=0.3, paper_steps=True))
    assert not text.solved
    ours = relaxed(graph)
    for name in graph.to_place:
        assert text.points_ms[name] == pytest.approx(ours.points_ms[name], abs=0.01)


def test_the_first_paper_model_step_follows_the_bare_force():
    graph = chain({("S", "a"): 2, ("a", "D"): 1}, "a")
    # F = 2·(0 − 400) + 1·(30 − 400) = −1170 bytes/s·ms; after one step of δ = 0.1 it is −819.
    settings = RelaxationSettings(delta=0.1, paper_steps=True, rest_ms=1000)
    result = relaxed(graph, settings, start=(400, 0))
    assert result.rounds == 1
    assert result.points_ms["a"] == pytest.approx([400 - 117, 0])


def test_a_paper_model_step_that_would_diverge_is_refused():
    """Two operators on a strong spring swing against each other: the limit is below 2 / Σ DR."""
    graph = chain({("S", "a"): 1, ("a", "b"): 2000, ("b", "D"): 1}, "ab")
    with pytest.raises(RelaxationDiverges, match=r"query q: with delta 0\.9 .* below 0\.0005") as e:
        relaxed(graph, RelaxationSettings(paper_steps=True))
    assert e.value.limit == pytest.approx(2 / 4001)
    relaxed(graph, RelaxationSettings(paper_steps=True, delta=0.99 * e.value.limit))
