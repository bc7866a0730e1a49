"""Which nodes may hold the two replicas of an operator."""

from __future__ import annotations

import numpy as np
import pytest

from placement.errors import BoundUnattainable
from placement.failure_domains import TOGETHER, FailureDomains
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.planner import plan
from placement.records import Request


def domains(*sites: int, **named: str) -> FailureDomains:
    """Of nodes, by one letter for each label: `application="aabb"`; a space is none.

    Parameters
    ----------
    sites
        Numbers of nodes that take no replicas.
    """
    labels = {kind: [letter.strip() for letter in letters] for kind, letters in named.items()}
    size = len(next(iter(named.values())))
    return FailureDomains.of(labels, ~np.isin(np.arange(size), sites))


def together(found: FailureDomains) -> set[str]:
    """Pairs of nodes, by number, that may not hold both replicas."""
    size = found.labels.shape[1]
    return {
        f"{i}{j}" for i in range(size) for j in range(i + 1, size) if not found.apart_from(i)[j]
    }


def test_replicas_share_no_label_of_which_there_are_several() -> None:
    found = domains(application="aabb", machine="mnmn")
    assert found.kinds == ("application", "machine")
    assert together(found) == {"01", "23", "02", "13"}


def test_a_label_that_all_have_parts_nobody() -> None:
    found = domains(application="aaa", machine="mmm")
    assert found.kinds == ()
    assert together(found) == set()
    assert not found.apart_from(1)[1]


def test_a_node_without_a_label_shares_none() -> None:
    assert together(domains(domain="rr  ")) == {"01"}
    assert domains(domain="   ").kinds == ()


def test_labels_of_nodes_that_take_no_replicas_do_not_count() -> None:
    assert domains(2, zone="aab").kinds == ()
    found = domains(3, zone="aaba")
    assert together(found) == {"01", "03", "13"}


def test_zones_cease_to_count_first_and_then_machines() -> None:
    found = domains(application="aabb", machine="mnmo", zone="yzzz")
    assert found.levels == (0, 1, 3)
    assert together(found) == {"01", "23", "02", "12", "13"}
    assert together(found.loosened(1)) == {"01", "23", "02"}
    assert together(found.loosened(3)) == {"01", "23"}
    looseness = found.looseness_between(np.array([0, 0, 0, 1, 0]), np.array([3, 2, 1, 3, 0]))
    assert looseness.tolist() == [0, 3, TOGETHER, 1, TOGETHER]
    assert found.shared(0, 2) == ("machine",)


@pytest.mark.parametrize(
    ("named", "levels"),
    [
        ({"machine": "mmn"}, (0,)),
        ({"zone": "mmn"}, (0,)),
        ({"machine": "mmn", "zone": "yzz"}, (0, 1)),
        ({"application": "aab", "machine": "mmm"}, (0,)),
        ({"domain": "rr ", "machine": "mnn"}, (0, 3)),
        ({"machine": "mmno", "driver": "pqpq"}, (0, 2)),
        ({"driver": "ppq"}, (0,)),
    ],
)
def test_the_last_kind_that_parts_nodes_always_counts(
    named: dict[str, str], levels: tuple[int, ...]
) -> None:
    assert domains(**named).levels == levels


def test_a_kind_that_says_what_another_one_says_is_no_level() -> None:
    """Each application has machines of its own: whoever shares a machine shares the application."""
    found = domains(application="aabb", machine="mnop", zone="yyzz")
    assert found.levels == (0,)
    assert len(found.distinct) == 1


def test_who_dies_with_a_machine_of_drivers_is_compared_crosswise() -> None:
    # 0 is where the driver of 2 and 3 is; that of 0 and 1 is where nobody else is.
    found = domains(machine="mnop", driver="ddmm")
    assert found.kinds.count("driver") == 2
    assert together(found) == {"01", "02", "03", "23"}
    assert found.shared(0, 2) == ("driver",)
    assert found.looseness_between(np.array([0, 0]), np.array([2, 0])).tolist() == [TOGETHER] * 2


def test_drivers_that_are_on_one_machine_part_nobody() -> None:
    assert domains(machine="mnop", driver="dddd").kinds == ()
    assert domains(machine="mmno", driver="dddd").kinds == ("machine",)


def test_drivers_cease_to_count_before_machines() -> None:
    found = domains(machine="mmno", driver="nnmm")
    assert together(found) == {"01"}
    assert found.kinds == ("machine",)
    apart = domains(machine="mmnop", driver="nnmmx")
    assert apart.levels == (0, 2)
    assert together(apart.loosened(2)) == {"01"}


def placed_with(bound_ms: float) -> set[str]:
    """Where the replicas of an operator are placed, whose only input comes from beside p."""

    def node(name: str, at_ms: float, application: str, machine: str, zone: str) -> Node:
        place = np.array([at_ms, 0.0])
        return Node(
            name=name, position_ms=place, application=application, machine=machine, zone=zone
        )

    view = NetworkView(
        nodes=(
            Node(name="site", position_ms=np.zeros(2), hosts_operators=False),
            node("p", 0, "a", "m", "y"),
            node("q", 2, "b", "m", "y"),
            node("r", 40, "b", "n", "y"),
            node("s", 80, "b", "o", "z"),
            node("t", 80, "b", "o", "z"),
        )
    )
    link = {"rate_bytes_s": 1e3, "tuples_s": 10.0}
    graph = QueryGraph(
        name="q",
        operators=(
            Operator(name="in", pinned="site"),
            Operator(name="o", cost_us=1.0, allowed=("p",)),
            Operator(name="out", pinned="site"),
        ),
        links=(Link(source="in", target="o", **link), Link(source="o", target="out", **link)),
    )
    request = Request(graph, 1e6, bound_ms, 0.0)
    (found,) = plan([request], view, rng=np.random.default_rng(1)).placements
    return {found.primary, found.secondary}


@pytest.mark.parametrize(
    ("bound_ms", "secondary"), [(100, {"s", "t"}), (39, {"r"}), (19, {"q"}), (1.5, {"q"})]
)
def test_a_query_is_placed_with_labels_shared_that_need_not_count(
    bound_ms: float, secondary: set[str]
) -> None:
    """Beyond 40 ms one way no other zone is near enough, beyond 20 ms no other machine."""
    pair = placed_with(bound_ms)
    assert "p" in pair
    assert pair <= {"p"} | secondary


def test_the_application_is_never_shared() -> None:
    with pytest.raises(BoundUnattainable, match="no node can stand by"):
        placed_with(0.5)
