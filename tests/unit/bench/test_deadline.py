"""Missed deadlines out of what was delivered, and figures out of those."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench.deadline import figures
from bench.deadline_trials import (
    COMBINATIONS,
    DESIGN_V2V,
    WARM_UP,
    Combination,
    misses,
    prepared,
)
from examples.collision_rounds import BEGIN_MS, CENTRE, ONBOARD, ROUND_MS
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.manifest import Manifests
from tests.obedient_cluster import query_manifest
from tests.streams_of_numbers import chunk, schema


def manifests(**deadlines_ms: float) -> Manifests:
    made = query_manifest(outputs=dict.fromkeys(deadlines_ms, "car"))
    record = msgspec.structs.replace(made.record, deadlines_ms=deadlines_ms)
    return Manifests(
        cluster=None, streams=(), queries=(msgspec.structs.replace(made, record=record),)
    )


def delivered(*completed: tuple[int, int, float]) -> Delivered:
    """Round, tuples, and how late they came, ms."""
    deliveries: list[Deliver] = []
    seq = 0
    for number, tuples, latency_ms in completed:
        part = chunk(seq, [(BEGIN_MS + number * ROUND_MS + 120, tuples)])
        arrived_us = int(part.ingestion_times_us[0]) + round(latency_ms * 1000)
        deliveries.append(Deliver(stream="s", epoch=1, chunk=part, lost=0, arrived_us=arrived_us))
        seq += tuples
    return Delivered.from_deliveries(deliveries, schema)


def test_tuples_are_late_by_their_outputs_deadline_and_counted_by_volume() -> None:
    first, second, third = (WARM_UP + i for i in range(3))
    found = misses(
        manifests(tight=30, loose=300),
        [15, 20, 15],
        {
            "tight": delivered((first, 4, 30), (second, 4, 31), (third, 1, 31)),
            "loose": delivered((first, 1, 31), (second, 1, 300.5), (third, 1, 31)),
        },
    )
    assert found == {15: {"tight": 20.0, "loose": 0.0}, 20: {"tight": 100.0, "loose": 100.0}}


def test_rounds_of_the_warm_up_do_not_count() -> None:
    found = misses(
        manifests(tight=30),
        [15],
        {"tight": delivered((0, 5, 500), (WARM_UP - 1, 5, 500), (WARM_UP, 5, 1))},
    )
    assert found == {15: {"tight": 0.0}}


def test_figures_are_means_of_outputs_and_of_tuples() -> None:
    name = COMBINATIONS[0].name
    found = figures({"sim": {name: {16: {"o1": 30.0, "o4": 60.0, "o5": 0.0}}}})
    assert found[f"sim.{name}.dmr_pct.16"] == pytest.approx(30.0)
    # Half of the v2v tuples come out.
    pooled_pct = (30.0 * ONBOARD + 60.0 * 8) / (ONBOARD + 8 + CENTRE)
    assert found[f"sim.{name}.pooled_pct.16"] == pytest.approx(pooled_pct)
    assert [found[f"sim.{name}.{output}_pct.16"] for output in ("o1", "o4", "o5")] == [30, 60, 0]


def test_the_four_combinations_have_the_figures_names() -> None:
    assert [each.name for each in COMBINATIONS] == [
        "deadline_edf",
        "existing_edf",
        "deadline_fifo",
        "existing_fifo",
    ]


def test_latencies_are_those_of_the_completed_timestamps() -> None:
    one = delivered((WARM_UP, 2, 12.5))
    assert np.unique(one.row_latencies_ms).tolist() == [12.5]


@pytest.mark.slow
@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda combination: combination.name)
def test_a_trial_has_the_policy_and_the_placement_of_its_combination(
    combination: Combination, tmp_path: Path
) -> None:
    manifests = prepared(combination, [DESIGN_V2V], tmp_path)
    assert manifests.cluster is not None
    assert manifests.cluster.record.scheduling is combination.policy
    candidates = {"deadline": ("car-1", "car-2"), "existing": ("car-1",)}
    assert manifests.queries[0].record.primaries["o3"] == candidates[combination.alloc]
