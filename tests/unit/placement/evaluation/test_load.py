"""The CPU axis and the room of nodes while a plan is made."""

from __future__ import annotations

import numpy as np
import pytest

from placement.evaluation.load import Load
from placement.network import NetworkView, Node
from tests.unit.placement.on_a_line import line
from topology.cpu import Linear, Power

view = NetworkView(
    nodes=(
        Node(name="b", position_ms=np.zeros(1), cpu_ms=3, operators=2, capacity_cores=0.3),
        Node(name="a", position_ms=np.ones(1)),
    )
)


def fresh() -> Load:
    return Load(view, operator_load=0.2, cpu=Linear(10))


def test_what_is_measured_what_runs_and_what_is_placed_all_count():
    load = fresh()
    # 0.2 cores a replica at 10 ms each: 2 ms.
    assert load.axis_ms() == pytest.approx([3 + 4, 0])
    assert load.with_replicas(("a", "a", "b")).axis_ms() == pytest.approx([3 + 6, 4])
    assert load.replicas.tolist() == [2, 0]


def test_the_price_is_what_one_more_replica_meets():
    load = fresh()
    assert load.price_ms() == pytest.approx([3 + 6, 2])
    assert load.price_bytes(5000) == pytest.approx([5 * 9, 5 * 2])


def test_a_steeper_scaling_prices_busy_nodes_higher():
    load = Load(view, operator_load=0.5, cpu=Power(10, exponent=2))
    # 1.5 cores on b and 0.5 on a.
    assert load.price_ms() == pytest.approx([3 + 22.5, 2.5])


def test_loads_do_not_change_each_other():
    before = fresh()
    more = before.with_replicas(("a",), cores=0.5)
    assert before.replicas.tolist() == [2, 0]
    assert before.used_cores.tolist() == [0, 0]
    back = more.with_replicas(("a",), cores=0.5, count=-1)
    assert more.replicas.tolist() == [2, 1]
    assert back.axis_ms() == pytest.approx(before.axis_ms())
    assert back.used_cores == pytest.approx([0, 0])


def test_fewer_replicas_than_none_weigh_nothing():
    assert fresh().with_replicas(("a",), count=-1).axis_ms()[1] == 0


def test_room_ends_where_the_capacity_does():
    load = fresh().with_replicas(("b", "b"), cores=0.1)
    assert load.room_cores() == pytest.approx([0.1, np.inf])
    # Three tenths are a little more than 0.3 in binary, and fit all the same.
    assert load.has_room(0.1).tolist() == [True, True]
    assert load.has_room(0.11).tolist() == [False, True]


def test_a_full_node_takes_what_needs_nothing():
    load = fresh().with_replicas(("b",), cores=0.3)
    assert load.has_room(0.0).tolist() == [True, True]


def test_replicas_on_an_unknown_node_are_a_mistake():
    with pytest.raises(KeyError, match="nowhere"):
        Load(line({"a": 0}), operator_load=0.2, cpu=Linear(10)).with_replicas(("nowhere",))
