"""The page of all drills: what it tells, and that nothing of it comes from elsewhere."""

from __future__ import annotations

from base64 import b64decode
from html.parser import HTMLParser

import msgspec

from orchestrator.cli.render.drill_page import drill_page
from orchestrator.progress import silent
from orchestrator.results.drill_report import Blast
from orchestrator.results.drills import DrillAudit, DrilledFragment, DrilledRun, DrillRecord
from orchestrator.results.status import EventDocument
from tests.unit.orchestrator.api.test_auditing import TIMELINE, report_of

AT_US = 1_700_000_000_000_000


class Page(HTMLParser):
    """Texts and pictures of a page, whose elements must be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.pictures: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "img":
            self.pictures.append(given["src"] or "")
        elif tag != "meta":
            self.open.append(tag)
        assert tag not in ("script", "link", "b")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style" and data.strip():
            self.texts.append(data.strip())


def audit() -> DrillAudit:
    report = report_of("q.f", struck_us=AT_US)
    blast = Blast(nodes=("paris",), primaries=("q.f",), bound_ms=300.0, planned_ms=193.0)
    report = msgspec.structs.replace(report, blast=blast)
    failed = msgspec.structs.replace(report, lost=3)
    runs = [
        DrilledRun(
            drill="hang", at_us=AT_US + 9_000_000, passed=not each.failures, detail="so",
            report=each, recoveries=(),
        )
        for each in (report, failed)
    ]  # fmt: skip
    lame = DrilledRun(
        drill="hang", at_us=AT_US, passed=False, detail="<b>nobody</b> takes over", report=None,
        recoveries=(),
    )  # fmt: skip
    return DrillAudit(
        cluster="aircraft",
        at_us=AT_US,
        since_us=AT_US - 60_000_000,
        drills=(
            DrillRecord(name="hang", what="a stop", at_us=AT_US, passed=False, runs=3, failed=2),
            DrillRecord(name="fill-disk", what="a full disk"),
            DrillRecord(name="kill-driver", what="no driver", unfit="there is one application"),
        ),
        fragments=(
            DrilledFragment(fragment="q.f", bound_ms=300.0, planned_ms=193.0, drills={"hang": 2}),
            DrilledFragment(fragment="q.g", bound_ms=300.0, planned_ms=None, drills={}),
        ),
        runs=(*runs, lame),
        unended=(
            EventDocument(
                sequence=1, at_us=AT_US, kind="drill begun", subject="switchover", detail=""
            ),
        ),
    )


def test_the_page_tells_what_was_promised_planned_predicted_and_measured() -> None:
    page = Page(drill_page(audit(), silent))
    assert page.open == []
    for name, told in {
        "promised": "300 ms",
        "planned": "193 ms",
        "predicted": "90.0 ms",
        "measured": "120 ms; longest silence 120 ms, held against no bound",
        "lost, repeated": "0, 0 of 20 tuples",
        "struck": "2023-11-14 22:13:20 UTC: paris",
        "failures": "3 tuples were lost",
        "kill-driver": "no driver",
        "q.f": "300 ms",
    }.items():
        follows = [
            later for text, later in zip(page.texts, page.texts[1:], strict=False) if text == name
        ]
        assert told in follows, name
    shown = " ".join(page.texts)
    assert "3 drills exist, 2 of them fit this cluster." in shown
    assert "In all 3 runs together 3 tuples were lost" in shown
    assert "Never drilled: fill-disk." in shown
    assert "switchover was begun on 2023-11-14 22:13:20 UTC and has no result" in shown
    assert "there is one application" in shown
    assert "hang × 2" in shown
    assert "without figures: <b>nobody</b> takes over" in shown
    assert page.texts.count("never") == 2


def test_the_page_holds_its_pictures() -> None:
    page = Page(drill_page(audit(), silent))
    head = "data:image/svg+xml;base64,"
    assert len(page.pictures) == 2
    for source in page.pictures:
        assert source.startswith(head)
        drawn = b64decode(source.removeprefix(head)).decode()
        assert all(stream in drawn for stream in TIMELINE.silences)
    assert drill_page(audit(), silent) == drill_page(audit(), silent)


def test_a_cluster_that_was_never_drilled_has_a_page_too() -> None:
    never = msgspec.structs.replace(audit(), runs=(), since_us=None)
    assert "the history of the cluster is empty" in drill_page(never, silent)
