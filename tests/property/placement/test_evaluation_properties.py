"""The figures of many placements at once against their definitions, one placement at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.evaluation import single
from placement.evaluation.cost import StreamEnd, TrafficCost
from placement.evaluation.evaluator import Evaluator, stacked, tabled
from placement.records import Recovery
from tests.property.placement import definitions
from tests.property.placement.random_problems import network, query

HOP_OVERHEAD_MS = 2.0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 20),
    st.booleans(),
)
def test_a_batch_says_of_each_placement_what_the_definitions_say(
    seed: int, hosts: int, size: int, rows: int, batch_size: int, from_table: bool
):
    rng = np.random.default_rng(seed)
    view, graph = network(rng, hosts), query(rng, "q", size)
    pinned = {o.name: o.pinned for o in graph.operators if o.pinned is not None}
    placements: list[tuple[dict[str, str], dict[str, str]]] = []
    for _ in range(rows):
        pairs = {
            name: view.names(rng.choice(view.host_indices, 2, replace=False))
            for name in graph.to_place
        }
        primaries = pinned | {name: pair[0] for name, pair in pairs.items()}
        placements.append((primaries, {name: pair[1] for name, pair in pairs.items()}))
    every = np.arange(len(view.nodes))
    look_up = tabled(every, len(every), view.one_way_between(every, every))
    evaluator = Evaluator(
        graph,
        look_up if from_table else view.one_way_of,
        hop_overhead_ms=HOP_OVERHEAD_MS,
        batch_size=batch_size,
    )
    batch = stacked([single.as_batch(graph, view, *placement) for placement in placements])
    traffic = TrafficCost(graph, view, look_up if from_table else None)
    usage, standby_usage = (
        traffic.of(batch, traffic.ending(end)) for end in (StreamEnd.PRIMARY, StreamEnd.SECONDARY)
    )
    latency_ms, catch_up_ms = evaluator.latency_ms(batch), evaluator.catch_up_ms(batch)
    for row, (primaries, secondaries) in enumerate(placements):
        assert usage[row] == pytest.approx(definitions.primary_usage(graph, primaries, view))
        assert standby_usage[row] == pytest.approx(
            definitions.standby_usage(graph, primaries, secondaries, view)
        )
        path = single.longest_path(graph, primaries, view, HOP_OVERHEAD_MS)
        expected_ms = definitions.longest_path_ms(graph, primaries, view, HOP_OVERHEAD_MS)
        assert latency_ms[row] == pytest.approx(expected_ms)
        assert path.latency_ms == pytest.approx(expected_ms)
        recoveries: dict[str, definitions.Standby] = {}
        for name in graph.to_place:
            recovery: Recovery = definitions.recovery(
                graph, name, secondaries[name], primaries, recoveries, view, 0.0, batch_size
            )
            recoveries[name] = definitions.Standby(node=secondaries[name], recovery=recovery)
            found_ms = catch_up_ms[row, evaluator.column[name]]
            assert found_ms == pytest.approx(recovery.catch_up_ms)
