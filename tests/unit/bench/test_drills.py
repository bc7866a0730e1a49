"""What benchmark `drills` makes of a series, and the moves in which leaders are killed."""

from __future__ import annotations

import msgspec

from bench.drills import figures
from bench.leader_kills import NAME, ten_moves, written
from orchestrator.api import Cluster, DrillReport, DrillRun
from orchestrator.deploy.context import ClusterContext
from orchestrator.records import MovePlan
from orchestrator.results.drill_report import Blast
from orchestrator.store.protocol import MOVES
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.unit.orchestrator.cli.render.test_drills import run


def reported(recovery_ms: float, planned_ms: float, lost: int = 0) -> DrillRun:
    report = run("hang", recovery_ms).report
    assert isinstance(report, DrillReport)
    blast = Blast(bound_ms=300.0, planned_ms=planned_ms)
    report = msgspec.structs.replace(report, blast=blast, lost=lost)
    return DrillRun(drill="hang", report=report)


def test_a_bound_that_was_broken_as_planned_is_told_apart() -> None:
    runs = [
        reported(100.0, 193.0),
        reported(310.0, 193.0),
        reported(340.0, 350.0, lost=2),
        DrillRun(drill="hang", problem="nobody takes over"),
        DrillRun(drill="kill-driver", inapplicable="there is one application"),
    ]
    flat = figures("busy", runs)
    assert (flat["busy.runs"], flat["busy.passed"], flat["busy.unfit"]) == (4, 1, 1)
    assert flat["busy.without_figures"] == 1
    assert (flat["busy.bound_kept"], flat["busy.bound_broken_as_planned"]) == (1, 1)
    assert (flat["busy.lost"], flat["busy.repeated"]) == (2, 0)
    assert flat["busy.hang.recovery_ms_median"] == 310.0
    assert flat["busy.hang.recovery_ms_max"] == 340.0
    assert flat["busy.hang.planned_ms_max"] == 350.0
    assert flat["busy.hang.bound_ms_min"] == 300.0
    assert not any("kill-driver" in key for key in flat)


def test_after_the_moves_every_fragment_is_where_it_was() -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    view = cluster.view()
    before = {name: found.record.replicas for name, found in view.fragments.items()}
    reach = ClusterContext(cluster="c", pid=1, started_s=0.0, folder="")
    steps = ten_moves(Cluster(reach, cluster.store), view, lambda step, detail: cluster.settle())
    assert len(steps) == 2 * len(before)
    assert {step.role for step in steps} == {"primary", "secondary"}
    writes = written(view)
    cluster.store.create(MOVES.key(NAME), MovePlan(name=NAME, steps=steps, submitted_us=0))
    cluster.settle()
    after = cluster.view()
    assert all(step.done for step in after.moves[NAME].record.steps)
    assert {name: found.record.replicas for name, found in after.fragments.items()} == before
    # The journal is written at least once a step, and so is a fragment's record.
    assert written(after) - writes >= 2 * len(steps)
