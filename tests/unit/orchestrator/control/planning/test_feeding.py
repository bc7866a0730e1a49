"""Standby schemes of fragments: what the planner makes of what a query's owner says."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.manifest import Manifests
from orchestrator.records import Estimate, Scheme, Standby, Timing
from placement.standby_schemes import NEVER
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest, stream_manifest

FILTER = "REGISTER QUERY a RSTREAM(SELECT id, x FROM north [NOW]);"
SECOND = "REGISTER QUERY b RSTREAM(SELECT id, x FROM a [NOW]);"


def placed(
    standby: Standby,
    statements: str = FILTER,
    *,
    output: str = "a",
    bound_ms: float = 2000.0,
    cost_us: float = 100.0,
) -> dict[str, Timing]:
    """Timing of each fragment of a query that is applied to an obedient cluster."""
    made = query_manifest(
        "q",
        statements,
        outputs={output: "control-centre"},
        deadline_ms=1000.0,
        recovery_bound_ms=bound_ms,
    )
    estimates = {name: Estimate(cost_us=cost_us) for name in ("a", output)}
    record = msgspec.structs.replace(made.record, standby=standby, estimates=estimates)
    cluster = ObedientCluster()
    streams = (stream_manifest("north"), stream_manifest("south"))
    cluster.apply(
        Manifests(
            cluster=aircraft().cluster,
            streams=streams,
            queries=(msgspec.structs.replace(made, record=record),),
        )
    )
    cluster.settle()
    found = {f.record.fragment: f.record.timing for f in cluster.view().fragments.values()}
    for each in cluster.view().assignments.values():
        for replica in each.record.fragments:
            timing = found[replica.fragment]
            assert (replica.batch, replica.checkpoint_ms, replica.covered_ms) == (
                timing.batch,
                timing.checkpoint_ms,
                timing.covered_ms,
            )
    return found


def test_active_standby_unless_the_owner_says_otherwise() -> None:
    assert placed(Standby())["a"].batch == 1


def test_upstream_backup() -> None:
    timing = placed(Standby(scheme=Scheme.UPSTREAM))["a"]
    assert timing.batch == NEVER
    assert 0 < timing.checkpoint_ms < timing.covered_ms


def test_a_stated_batch() -> None:
    assert placed(Standby(scheme=Scheme.BATCHES, batch=3))["a"].batch == 3


def test_the_bound_makes_a_batch_smaller() -> None:
    tight = placed(Standby(scheme=Scheme.UPSTREAM), bound_ms=400.0, cost_us=20_000.0)["a"]
    assert 1 <= tight.batch < NEVER


def test_the_adaptive_scheme_takes_rare_checkpoints_where_the_bound_leaves_room() -> None:
    ample = placed(Standby(scheme=Scheme.ADAPTIVE), bound_ms=5000.0)["a"]
    tight = placed(Standby(scheme=Scheme.ADAPTIVE), bound_ms=400.0, cost_us=20_000.0)["a"]
    assert ample.batch == NEVER
    assert tight.checkpoint_ms < ample.checkpoint_ms


def test_a_fragment_before_others_is_behind_by_their_intervals_too() -> None:
    timings = placed(Standby(scheme=Scheme.UPSTREAM), FILTER + SECOND, output="b")
    assert timings["a"].covered_ms == pytest.approx(2 * timings["b"].covered_ms)
