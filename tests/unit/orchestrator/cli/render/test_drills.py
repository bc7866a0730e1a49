"""A series of drills as people read it."""

from __future__ import annotations

import msgspec
from rich.console import Console

from orchestrator import api
from orchestrator.cli.render.drills import audit_view, report_view, series_view
from orchestrator.results.drill_report import Blast, ProcessorUse


def run(drill: str, recovery_ms: float) -> api.DrillRun:
    report = api.DrillReport(
        drill=drill,
        struck_us=0,
        killed_node="paris",
        detection_ms=3.0,
        recovery_ms=recovery_ms,
        gap_ms=recovery_ms,
        bound_ms=300.0,
        lost=0,
        repeated=0,
        completed_timestamps=10,
        redundancy_restored_s=1.5,
        fragments=("f",),
        causes=("silent",),
        outputs=("out",),
        tuples=20,
        blast=Blast(bound_ms=300.0),
    )
    return api.DrillRun(drill=drill, report=report)


def lines(runs: list[api.DrillRun]) -> list[list[str]]:
    console = Console(width=160)
    with console.capture() as shown:
        console.print(series_view(runs))
    table = shown.get().split("Series")[1]
    return [line.split() for line in table.splitlines() if line.strip()][1:]


def test_each_drill_of_a_series_is_summed_up() -> None:
    runs = [run("hang", 100.0), run("hang", 220.0), run("hang", 400.0)]
    refused = api.DrillRun(drill="kill-executor", problem="nobody takes over")
    unfit = api.DrillRun(drill="kill-driver", inapplicable="there is one application")
    assert lines([*runs, refused, unfit]) == [
        ["hang", "2", "of", "3", "–", "–", "220", "ms", "400", "ms", "300", "ms"],
        ["kill-executor", "0", "of", "1", "–", "–", "–", "–", "–"],
        ["kill-driver", "–", "–", "–", "–", "–", "–"],
    ]


def test_a_series_tells_each_result_as_it_falls() -> None:
    assert run("hang", 220.0).told == "hang: passed; recovery 220 of 300 ms"
    assert "the bound is 300 ms; recovery 400 of 300 ms" in run("hang", 400.0).told
    assert api.DrillRun(drill="hang", problem="is refused").told == "hang: is refused"
    unfit = api.DrillRun(drill="kill-driver", inapplicable="one application")
    assert unfit.told == "kill-driver: does not fit: one application"


def test_the_node_that_was_struck_is_not_said_to_have_failed_the_drill() -> None:
    report = run("kill-executor", 100.0).report
    assert report is not None
    console = Console(width=160)
    with console.capture() as shown:
        console.print(report_view(report))
    rows = [line.split() for line in shown.get().splitlines()]
    assert ["struck", "paris"] in rows
    assert not [row for row in rows if row[:1] == ["failed"]]


def test_a_report_tells_whether_hosts_were_late() -> None:
    report = run("kill-executor", 400.0).report
    assert report is not None
    console = Console(width=160)
    with console.capture() as shown:
        console.print(report_view(msgspec.structs.replace(report, late_ms=35.2)))
    rows = [line.split("  ")[0] for line in shown.get().splitlines()]
    assert "hosts were late by" in rows
    assert "at most 35.2 ms on average" in shown.get()


def test_a_broken_bound_is_told_with_the_use_of_processors() -> None:
    report = run("kill-executor", 400.0).report
    assert report is not None
    use = ProcessorUse(used=60.0, cluster=40.0, stolen=0.0, in_silence=99.0)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(report_view(msgspec.structs.replace(report, processors=use)))
    told = shown.get()
    assert "60 % (the cluster 40 %, others 20 %, stolen 0 %), 99 % while output was silent" in told
    assert "recovery took 400 ms, the bound is 300 ms. While output was silent" in told


def test_a_drill_without_a_result_is_not_said_to_be_one_that_never_was() -> None:
    records = [api.DrillRecord(name=name) for name in ("hang", "fill-disk")]
    begun = api.EventDocument(
        sequence=1, at_us=10**15, kind="drill begun", subject="hang", detail=""
    )
    audit = api.DrillAudit(
        cluster="c", at_us=0, since_us=None, drills=tuple(records), fragments=(), runs=(),
        unended=(begun,),
    )  # fmt: skip
    console = Console(width=160)
    with console.capture() as captured:
        console.print(audit_view(audit))
    hang, fill = captured.get().splitlines()[1:3]
    assert "interrupted, or is under way" in hang
    assert "never" in fill
