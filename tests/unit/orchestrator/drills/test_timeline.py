"""What is shown of a drill: the silences, longest first, and what belongs to it."""

from __future__ import annotations

from orchestrator.drills.acting import Disturbed
from orchestrator.drills.timeline import KEPT_OUTPUTS, KEPT_SILENCES, thinned, timeline
from orchestrator.records import HistoryEvent
from orchestrator.results.drill_report import Moment, Silence, Timeline
from tests.streams_of_numbers import chunk
from tests.unit.orchestrator.drills.test_measurement import deliver, delivered

STRUCK_US = 10_000_000


def at(ms: float) -> int:
    return STRUCK_US + round(ms * 1000)


def event(kind: str, ms: float) -> HistoryEvent:
    return HistoryEvent(at_us=at(ms), kind=kind, subject="q.f", detail="")


def test_of_each_tenth_of_a_second_the_longest_silence_is_kept() -> None:
    arrivals_ms = (-2000, -50, 10, 30, 600, 640)
    came = delivered(
        *(
            deliver(chunk(i, [(10 * (i + 1), 1)]), arrived_us=at(ms))
            for i, ms in enumerate(arrivals_ms)
        )
    )
    found = Disturbed(struck_us=at(0), over_us=at(500), restored_us=at(550))
    shown = timeline(found, 300.0, {"out": came}, [])
    assert shown.silences == {
        "out": (
            Silence(ended_ms=-50.0, lasted_ms=1950.0),
            Silence(ended_ms=10.0, lasted_ms=60.0),
            Silence(ended_ms=600.0, lasted_ms=570.0),
        )
    }


def test_what_happened_stands_in_order_and_other_events_are_left_out() -> None:
    found = Disturbed(struck_us=at(0), over_us=at(500), restored_us=at(550))
    events = [event("took over", 40), event("took over", -40), event("cost differs", 50)]
    assert timeline(found, 300.0, {}, events).moments == (
        Moment(at_ms=0.0, what="fault"),
        Moment(at_ms=40.0, what="took over: q.f"),
        Moment(at_ms=500.0, what="fault over"),
        Moment(at_ms=550.0, what="everything protected"),
    )


def test_the_history_keeps_the_longest_silences_of_the_outputs_that_suffered_most() -> None:
    def silences(worst_ms: float) -> tuple[Silence, ...]:
        lasted_ms = [worst_ms if i == 777 else 1.0 for i in range(3000)]
        return tuple(Silence(ended_ms=100.04 * i, lasted_ms=ms) for i, ms in enumerate(lasted_ms))

    long = Timeline(
        bound_ms=300.0,
        moments=(Moment(at_ms=0.04, what="fault"),),
        silences={f"out{i:02}": silences(20.0 + i) for i in range(KEPT_OUTPUTS + 3)},
    )
    kept = thinned(long)
    assert kept.moments == (Moment(at_ms=0.0, what="fault"),)
    assert list(kept.silences) == [f"out{i:02}" for i in range(3, KEPT_OUTPUTS + 3)]
    for number, found in enumerate(kept.silences.values(), start=3):
        assert len(found) <= KEPT_SILENCES + 1
        assert Silence(ended_ms=77731.1, lasted_ms=20.0 + number) in found
    assert thinned(kept).silences.keys() == kept.silences.keys()


def test_a_short_timeline_is_kept_whole() -> None:
    few = tuple(Silence(ended_ms=150.0 * i, lasted_ms=10.0) for i in range(20))
    short = Timeline(bound_ms=300.0, moments=(), silences={"out": few, "still": ()})
    assert thinned(short) == short
