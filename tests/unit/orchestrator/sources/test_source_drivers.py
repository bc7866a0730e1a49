"""A source that fails takes no other with it."""

from __future__ import annotations

import pytest

from orchestrator import sources
from orchestrator.host.events import SourceEmitted
from orchestrator.records import SourceAssignment, SourceSpec
from orchestrator.sources import SourceDrivers
from tests import drivers

drivers.register()

NUMBERS = SourceSpec(driver="numbers", options={"every_ms": 1.0})


def assignment(stream: str, source: SourceSpec = NUMBERS) -> SourceAssignment:
    return SourceAssignment(stream=stream, columns={"number": "int"}, source=source, start_at_us=0)


@pytest.fixture(params=["open", "emit", "next_due_us"])
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The method of a driver that raises for the stream `bad`."""

    class Failing(drivers.OpenNumbers):
        def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
            if request.param == "emit":
                raise ConnectionError("the line is dead")
            return super().emit(start_at_us, now_us)

        def next_due_us(self, start_at_us: int) -> int | None:
            if request.param == "next_due_us":
                raise ConnectionError("the line is dead")
            return super().next_due_us(start_at_us)

    def opened(options: drivers.Numbers, assigned: SourceAssignment) -> drivers.OpenNumbers:
        if assigned.stream != "bad":
            return drivers.OpenNumbers(options, assigned)
        if request.param == "open":
            raise ConnectionError("the line is dead")
        return Failing(options, assigned)

    monkeypatch.setattr(drivers.Numbers, "open", opened)
    return request.param


def test_source_that_raises_stops_and_the_others_go_on(failing: str) -> None:
    opened, assigned = SourceDrivers(), [assignment("bad"), assignment("good")]
    for now_us in (2_000, 4_000):
        opened.next_due_us(assigned)
        assert [each.stream for each in opened.feed(assigned, now_us)] == ["good"]
    assert opened.next_due_us(assigned) == 5_000
    assert opened.problems == {"bad": "bad: the source failed: ConnectionError: the line is dead"}
    opened.feed(assigned[1:], 6_000)
    assert opened.problems == {}


def test_source_that_this_host_does_not_know_is_a_problem() -> None:
    opened = SourceDrivers()
    odd = SourceSpec(driver="telepathy")
    opened.feed([assignment("bad", odd)], 0)
    assert opened.problems == {
        "bad": "bad: vivace.sources: no driver is named telepathy in this process"
    }
    assert sources.restore(NUMBERS) == drivers.Numbers(every_ms=1.0)
