"""`status`, `metrics` and drills have the leader's figures: nobody plans to describe a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from rich.console import Console

from orchestrator import api
from orchestrator.api import cluster_status
from orchestrator.api.aiming import aimed
from orchestrator.cli.render.loads import cores
from orchestrator.cli.render.status import NO_FIGURES, status_view
from orchestrator.control.observe.published import read_figures
from orchestrator.control.planning.planner import Planning
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills.disturbances import KILL_EXECUTOR
from orchestrator.progress import silent
from orchestrator.records import ClocksRecord, Processors
from orchestrator.store.protocol import QUERIES
from tests.obedient_cluster import ObedientCluster, aircraft

ROOT = Path(cluster_status.__file__).parents[2]


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> ObedientCluster:
    """A cluster whose query runs, read by somebody who cannot plan."""
    cluster = ObedientCluster()
    for host in cluster.hosts.values():
        host.tell(processors=Processors(machine="rack", shared="boot-1", count=4.0))
    cluster.apply(aircraft())
    cluster.settle()
    cluster.publish_figures()

    def now_us(_: ClocksRecord) -> int:
        return cluster.now_us

    def plans(*_: object) -> None:
        raise AssertionError("a reader plans")

    monkeypatch.setattr(cluster_status, "cluster_now_us", now_us)
    monkeypatch.setattr(Planning, "__init__", plans)
    return cluster


def connected(cluster: ObedientCluster) -> api.Cluster:
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, cluster.store)


def test_status_has_the_leader_s_figures_with_their_age(running: ObedientCluster) -> None:
    running.now_us += 1_500_000
    document = api.status(connected(running))
    assert document.figures_age_s == 3.5
    assert {each.name for each in document.loads} == {*running.hosts, "rack"}
    assert [each.fragment for each in document.costs] == ["north_tracks", "south_tracks", "alerts"]
    (query,) = document.queries
    assert (query.query, query.deadline_ms) == ("proximity", 300.0)
    for fragment in document.fragments:
        assert fragment.plan is not None
        assert (fragment.plan.primary, fragment.plan.secondary) == (
            fragment.primary,
            fragment.secondary,
        )


def test_metrics_have_them_too(running: ObedientCluster) -> None:
    samples = {
        (s.name, *s.labels.values()): s.value for s in api.metrics(connected(running)).metrics
    }
    (query,) = api.status(connected(running)).queries
    assert samples["vivace_query_slack_seconds", "proximity"] == query.slack_ms / 1000
    assert samples["vivace_query_planned_recovery_seconds", "proximity"] > 0
    assert samples["vivace_place_predicted_cores", "rack"] > 0
    assert samples["vivace_figures_age_seconds",] == 2.0


def test_drills_and_their_reports_have_planned_recoveries(running: ObedientCluster) -> None:
    _, blast = aimed(connected(running), KILL_EXECUTOR, None, silent)
    assert blast.planned_ms is not None
    audit = api.drill_audit(connected(running))
    assert all(each.planned_ms is not None for each in audit.fragments)


def test_without_a_leader_there_are_no_figures_and_the_rest_is_shown(
    running: ObedientCluster,
) -> None:
    running.coordinator_store.close()
    document = api.status(connected(running))
    assert (document.figures_age_s, document.loads, document.costs, document.queries) == (
        *(None, (), (), ()),
    )
    assert {each.plan for each in document.fragments} == {None}
    assert NO_FIGURES in shown(document)
    metrics = api.metrics(connected(running)).metrics
    assert not [
        each for each in metrics if each.name.startswith(("vivace_figures", "vivace_place"))
    ]
    _, blast = aimed(connected(running), KILL_EXECUTOR, None, silent)
    assert blast.planned_ms is None


def test_figures_of_a_query_that_is_gone_are_not_shown(running: ObedientCluster) -> None:
    assert "proximity" in shown(api.status(connected(running)))
    running.store.delete(QUERIES.key("proximity"), 0)
    assert api.status(connected(running)).costs == ()


def test_a_figure_of_status_visits_few_files(running: ObedientCluster) -> None:
    """From the store to the screen; reading the rest of the status plans nothing either."""

    def figure() -> object:
        found = read_figures(running.store).loads
        assert found is not None
        return cores(found.places[0])

    visited = files_of(figure) - {str(Path(__file__).relative_to(ROOT))}
    # Through `api.status`, and `status_view`.
    assert len(visited) + 2 <= 8, visited
    everything = files_of(lambda: api.status(connected(running)))
    assert not [each for each in everything if "/planning/" in each or "/decide/" in each]


def files_of(call: Callable[[], object]) -> set[str]:
    """The project's files of which functions run during a call."""
    found: set[str] = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found.add(str(path.relative_to(ROOT)))

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def shown(document: api.StatusDocument) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_view(document))
    return captured.get()
