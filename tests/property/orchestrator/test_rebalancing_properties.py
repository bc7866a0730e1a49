"""What holds for the leader's rebalancing plans, however latencies have drifted."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.control.decide.move_steps import make
from orchestrator.control.decide.rebalancing import rebalance
from orchestrator.control.planning.planner import Planning
from orchestrator.records import NodeCoordinate
from placement.rebalancing.moves import RebalanceSettings
from tests.obedient_cluster import ObedientCluster, aircraft

EAGER = RebalanceSettings(hysteresis_share=0, horizon_s=1e12)


def drifted(cluster: ObedientCluster, rng: np.random.Generator) -> None:
    """Hosts find that they are somewhere else."""
    places = {name: tuple(rng.uniform(-12, 12, size=2).tolist()) for name in cluster.hosts}
    for name, host in cluster.hosts.items():
        host.tell(
            coordinate=NodeCoordinate(position_ms=places[name], cpu_ms=0.0, error=0.1),
            latencies_ms={
                other: math.dist(place, places[name])
                for other, place in places.items()
                if other != name
            },
        )


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_proposed_move_is_refused_and_nothing_is_left_to_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    drifted(cluster, rng)
    for goals in (["network"], ["evacuate:paris", "network"], ["balance"]):
        plan = rebalance(cluster.view(), goals, margins=EAGER)
        planning = Planning.of(cluster.view())
        for move in plan.moves:
            # It raises if the move may not be made.
            make(planning, planning.fragments[move.fragment], move.step)
        for each in plan.after:
            running = planning.running[each.fragment.rpartition(".")[2]]
            assert (running.primary, running.secondary) == (each.primary, each.secondary)
