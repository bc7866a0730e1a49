"""What the history says of drills: their reports, and what none of them has struck."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator import api
from orchestrator.api import Cluster, DrillReport, drill_audit, drills
from orchestrator.api.cluster_status import event_documents
from orchestrator.api.drilling import BEGUN, FAILED, PASSED
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills.report import for_history
from orchestrator.records import FailureLabels, HistoryEvent
from orchestrator.results.drill_report import Moment, Silence, Timeline
from orchestrator.store.protocol import Store
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft
from tests.unit.orchestrator.api.test_operations import connected, following
from tests.unit.orchestrator.cli.render.test_drills import run

TIMELINE = Timeline(
    bound_ms=300.0,
    moments=(Moment(at_ms=0.0, what="fault"),),
    silences={"alerts": (Silence(ended_ms=30.0, lasted_ms=31.0),)},
)


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def report_of(fragment: str, *, struck_us: int = 100) -> DrillReport:
    report = run("hang", 120.0).report
    assert report is not None
    return msgspec.structs.replace(
        report, fragments=(fragment,), struck_us=struck_us, predicted_ms=90.0, timeline=TIMELINE
    )


def note(store: Store, kind: str, at_us: int, report: DrillReport | None, name: str = "hang"):
    kept = None if report is None else for_history(report)
    store.append_history(
        HistoryEvent(at_us=at_us, kind=kind, subject=name, detail="so", report=kept)
    )


def audit(store: Store) -> api.DrillAudit:
    return drill_audit(Cluster(ClusterContext(cluster="c", pid=1, started_s=0, folder=""), store))


def test_what_was_measured_is_read_back_with_what_belongs_to_it(cluster: ObedientCluster) -> None:
    store = cluster.server.connect()
    report = report_of("proximity.alerts")
    for at_us in (99, 150, 201):
        store.append_history(
            HistoryEvent(
                at_us=at_us, kind="recovered", subject="proximity.alerts", detail=f"{at_us}"
            )
        )
    note(store, PASSED, 200, report)
    found = audit(store)
    (made,) = found.runs
    assert made.report == report
    assert (made.passed, [each.detail for each in made.recoveries]) == (True, ["150"])
    drilled = {each.fragment: each for each in found.fragments}
    assert drilled.keys() == cluster.view().fragments.keys()
    assert drilled["proximity.alerts"].drills == {"hang": 1}
    assert not any(each.drills for name, each in drilled.items() if name != "proximity.alerts")
    (hang,) = (each for each in found.drills if each.name == "hang")
    assert (hang.longest_ms, hang.bound_ms) == (120.0, 300.0)


def test_the_record_tells_what_never_was_and_what_cannot_be_drilled(
    cluster: ObedientCluster,
) -> None:
    for name in EXECUTORS:
        cluster.hosts[name].tell(labels=FailureLabels(application="application-1"))
    store = cluster.server.connect()
    note(store, FAILED, 5, None)
    note(store, PASSED, 7, None)
    records = {each.name: each for each in audit(store).drills}
    assert list(records) == [each.name for each in drills()]
    hang, never = records["hang"], records["kill-executor"]
    assert (hang.at_us, hang.passed, hang.runs, hang.failed) == (7, True, 2, 1)
    assert (never.at_us, never.passed, never.runs, never.unfit) == (None, None, 0, None)
    assert "one Spark application" in str(records["kill-driver"].unfit)


def test_drills_that_were_begun_and_have_no_result_are_told(cluster: ObedientCluster) -> None:
    store = cluster.server.connect()
    for at_us, kind, name in (
        (1, BEGUN, "hang"),
        (2, PASSED, "hang"),
        (3, BEGUN, "hang"),
        (4, BEGUN, "switchover"),
        (5, BEGUN, "hang"),
        (6, FAILED, "hang"),
    ):
        note(store, kind, at_us, None, name)
    told = [(each.subject, each.at_us) for each in audit(store).unended]
    assert told == [("hang", 3), ("switchover", 4)]
    assert len(audit(store).runs) == 2


def test_a_report_of_another_version_leaves_its_result(cluster: ObedientCluster) -> None:
    store = cluster.server.connect()
    event = HistoryEvent(at_us=5, kind=FAILED, subject="hang", detail="so", report={"other": 1})
    store.append_history(event)
    (made,) = audit(store).runs
    assert (made.report, made.passed, made.detail) == (None, False, "so")


def test_lists_of_events_are_not_burdened_with_reports(cluster: ObedientCluster) -> None:
    store = cluster.server.connect()
    note(store, PASSED, 5, report_of("proximity.alerts"))
    (event,) = (each for each in event_documents(store.history()) if each.kind == PASSED)
    assert b"alerts" not in msgspec.json.encode(event)


def test_the_promise_of_each_fragment_stands_beside_it(cluster: ObedientCluster) -> None:
    planned = api.plan(connected(cluster), on_progress=following(cluster))
    expected = {
        f"{each.query}.{each.fragment}": (each.bound_ms, each.recovery_ms)
        for each in planned.fragments
    }
    found = audit(cluster.server.connect())
    assert {each.fragment: (each.bound_ms, each.planned_ms) for each in found.fragments} == expected
    assert expected
