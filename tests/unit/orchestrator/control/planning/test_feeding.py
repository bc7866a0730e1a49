"""Standby schemes of fragments: what the planner makes of what a query's owner says."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from orchestrator.control.decide.schemes import SCHEME_CHANGED
from orchestrator.control.observe.view import LEAST_SAMPLES
from orchestrator.control.planning.feeding import DELAY_INTERVALS, fed, undecided
from orchestrator.control.planning.planner import Planning
from orchestrator.manifest import Manifests
from orchestrator.records import CostStatus, Estimate, MoveRequest, Scheme, Standby, Timing
from orchestrator.store.protocol import REQUESTS
from placement.standby_schemes import NEVER
from tests.obedient_cluster import (
    EXECUTORS,
    ObedientCluster,
    aircraft,
    query_manifest,
    short_reigns,
    stream_manifest,
)

FILTER = "REGISTER QUERY a RSTREAM(SELECT id, x FROM north [NOW]);"
SECOND = "REGISTER QUERY b RSTREAM(SELECT id, x FROM a [NOW]);"


def applied(
    standby: Standby,
    statements: str = FILTER,
    *,
    output: str = "a",
    bound_ms: float = 2000.0,
    cost_us: float = 100.0,
) -> ObedientCluster:
    """An obedient cluster that runs a query."""
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
    return cluster


def timings_of(cluster: ObedientCluster) -> dict[str, Timing]:
    """Timing of each fragment, which its replicas are told too."""
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


def placed(standby: Standby, statements: str = FILTER, **query: Any) -> dict[str, Timing]:
    """Timing of each fragment of a query that is applied to an obedient cluster."""
    return timings_of(applied(standby, statements, **query))


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
    acknowledged_ms = timings["b"].covered_ms + DELAY_INTERVALS * 50.0
    assert timings["a"].covered_ms == pytest.approx(2 * acknowledged_ms)


def test_a_small_stated_batch_takes_no_checkpoints() -> None:
    timing = placed(Standby(scheme=Scheme.BATCHES, batch=3))["a"]
    assert timing.checkpoint_ms == 0
    assert timing.covered_ms > 0


def costing(cluster: ObedientCluster, per_tuple_us: float) -> None:
    """The primary of `a` says what it costs."""
    node = cluster.view().fragments["q.a"].record.primary.node
    measured = CostStatus(fixed_us=0.0, per_tuple_us=per_tuple_us, samples=LEAST_SAMPLES)
    cluster.hosts[node].costs["a"] = measured
    cluster.settle()


def decided(cluster: ObedientCluster) -> Planning:
    """What runs, as the planner sees it."""
    view = cluster.view()
    return Planning.of(view)


def changes(cluster: ObedientCluster) -> int:
    return sum(each.startswith(SCHEME_CHANGED) for each in cluster.history())


def test_a_cost_that_drifts_makes_the_adaptive_scheme_choose_again() -> None:
    cluster = applied(Standby(scheme=Scheme.ADAPTIVE), bound_ms=600.0)
    assert timings_of(cluster)["a"].batch == NEVER
    costing(cluster, 20_000.0)
    dear = timings_of(cluster)["a"]
    assert (dear.batch, changes(cluster)) == (1, 1)
    costing(cluster, 100.0)
    assert timings_of(cluster)["a"].batch == NEVER
    assert changes(cluster) == 2


def test_a_cost_that_drifts_a_little_changes_no_scheme() -> None:
    cluster = applied(Standby(scheme=Scheme.ADAPTIVE), bound_ms=600.0)
    before = timings_of(cluster)["a"]
    for cost_us in (90.0, 120.0, 110.0):
        costing(cluster, cost_us)
    assert (timings_of(cluster)["a"], changes(cluster)) == (before, 0)


def test_stated_schemes_are_not_chosen_again() -> None:
    cluster = applied(Standby(scheme=Scheme.UPSTREAM), bound_ms=600.0)
    costing(cluster, 20_000.0)
    assert changes(cluster) == 0


@pytest.mark.parametrize(("bound_ms", "with_checkpoints"), [(420.0, 1), (1000.0, 2)])
def test_fragments_that_die_together_share_the_bound(
    bound_ms: float, with_checkpoints: int
) -> None:
    """Both primaries share a node: what `a` takes longer, `b` waits for."""
    narrow = "REGISTER QUERY b RSTREAM(SELECT id FROM a [NOW]);"
    adaptive = Standby(scheme=Scheme.ADAPTIVE)
    cluster = applied(adaptive, FILTER + narrow, output="b", bound_ms=bound_ms, cost_us=200.0)
    records = {f.record.fragment: f.record for f in cluster.view().fragments.values()}
    assert records["a"].primary.node == records["b"].primary.node
    found = timings_of(cluster)
    assert sum(each.batch > 1 for each in found.values()) == with_checkpoints
    planned = decided(cluster).evaluate("q")
    assert all(each.recovery_ms <= bound_ms for each in planned.placements)


def test_a_consumer_that_is_sent_everything_acknowledges_at_once() -> None:
    """So a fragment before it is covered as soon as one before an output."""
    narrow = "REGISTER QUERY b RSTREAM(SELECT id FROM a [NOW]);"
    cluster = applied(Standby(), FILTER + narrow, output="b")
    planning = decided(cluster)
    task = planning.task("q")
    standbys = planning.standbys(task)
    assert [fed(task, name, standbys[name]).levels for name in ("a", "b")] == [1, 1]
    around = undecided(task, {name: nodes[0] for name, nodes in task.kept.items()})
    assert [fed(around, name, standbys[name]).levels for name in ("a", "b")] == [2, 1]


def test_adaptive_sends_no_more_than_the_paper_s_rule() -> None:
    statements = FILTER + SECOND
    for bound_ms in (300.0, 420.0, 600.0, 1000.0, 2000.0):
        sent: list[float] = []
        for scheme in (Scheme.ADAPTIVE, Scheme.LARGEST, Scheme.ACTIVE):
            asked = Standby(scheme=scheme)
            cluster = applied(asked, statements, output="b", bound_ms=bound_ms, cost_us=200.0)
            placed = decided(cluster).evaluate("q").placements
            sent.append(sum(each.standby.bytes_s for each in placed if each.standby is not None))
            assert all(each.recovery_ms <= bound_ms for each in placed)
        assert sent == sorted(sent)


@pytest.mark.parametrize(
    ("scheme", "bound_ms"),
    [(Scheme.LARGEST, 240.0), (Scheme.LARGEST, 255.0), (Scheme.UPSTREAM, 270.0)],
)
def test_no_move_has_a_query_break_the_bound_by_how_it_is_fed_then(
    scheme: Scheme, bound_ms: float
) -> None:
    narrow = "REGISTER QUERY b RSTREAM(SELECT id FROM a [NOW]);"
    cluster = applied(
        Standby(scheme=scheme), FILTER + narrow, output="b", bound_ms=bound_ms, cost_us=20.0
    )
    made = 0
    for role, node in product(("primary", "secondary"), EXECUTORS):
        moved = cluster.ask(MoveRequest(fragment="q.b", role=role, node=node))
        if moved.refusal is not None:
            cluster.store.delete(REQUESTS.key("asked"), 0)
            continue
        cluster.consent()
        cluster.settle()
        made += 1
        assert all(e.recovery_ms <= bound_ms for e in decided(cluster).evaluate("q").placements)
    assert made


@pytest.mark.parametrize("bound_ms", [210.0, 220.0])
def test_the_adaptive_scheme_keeps_the_bound_whichever_write_is_the_last_one(
    bound_ms: float,
) -> None:
    """A producer redoes what its consumer has yet to acknowledge, so it changes first."""
    narrow = "REGISTER QUERY b RSTREAM(SELECT id FROM a [NOW]);"
    adaptive = Standby(scheme=Scheme.ADAPTIVE)
    cluster = applied(adaptive, FILTER + narrow, output="b", bound_ms=bound_ms, cost_us=20.0)
    changed = 0
    for role, node in product(("primary", "secondary"), EXECUTORS):
        moved = cluster.ask(MoveRequest(fragment="q.b", role=role, node=node))
        if moved.refusal is not None:
            cluster.store.delete(REQUESTS.key("asked"), 0)
            continue
        cluster.consent()
        made = True
        while made:
            made = False
            for write in short_reigns(cluster):
                made = True
                changed += write.event is not None and write.event.kind == SCHEME_CHANGED
                placed = decided(cluster).evaluate("q").placements
                assert all(each.recovery_ms <= bound_ms for each in placed)
            for host in cluster.hosts.values():
                host.obey()
    assert changed
