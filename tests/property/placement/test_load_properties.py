"""The price that a load keeps up to date is the one that follows from its replicas."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.evaluation.load import Load
from placement.network import NetworkView, Node
from topology.cpu import Power


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(0, 12))
def test_the_price_is_that_of_the_replicas_whatever_was_changed(
    seed: int, count: int, changes: int
):
    rng = np.random.default_rng(seed)
    view = NetworkView(
        nodes=tuple(
            Node(
                name=f"n{i}",
                position_ms=np.zeros(2),
                cpu_ms=rng.uniform(0, 9),
                operators=int(rng.integers(4)),
            )
            for i in range(count)
        )
    )
    load = Load(view, operator_load=0.3, cpu=Power(10, exponent=1.5))
    for _ in range(changes):
        at = rng.integers(count, size=rng.integers(1, 5))
        more = int(rng.choice([-1, 1]))
        load = load.with_expected(at) if more > 0 else load.with_replicas(view.names(at), count=-1)
        assert load.price_ms().tolist() == load.axis_ms(1).tolist()
