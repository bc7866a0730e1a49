"""The first line of the status: the worst that can be said of the cluster now."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from orchestrator import api
from orchestrator.cli.render.status import concerns, ignores, misses, status_view, waits
from orchestrator.records import BatchingStatus, InputStatus, LostInput, WaitingInput

FRAGMENT = api.FragmentStatus(
    query="q",
    fragment="count",
    epoch=1,
    primary="one",
    primary_alive=True,
    sub_deadline_ms=100.0,
    secondary="two",
    secondary_state="warm",
    redundant=True,
)
STREAM = api.StreamStatus(stream="readings", site="edge", entered=5, shed=0)
OUTPUT = api.OutputStatus(
    query="q",
    stream="count",
    site="exit",
    deadline_ms=300.0,
    next_seq=5,
    watermark_ms=10,
    rows=5,
    latency_ms_p50=10.0,
    latency_ms_p99=20.0,
    deadline_misses=0,
    completed_timestamps=5,
    recent_miss_pct=0.0,
    lost=0,
    repeated=0,
)


def document(
    *,
    fragments: tuple[api.FragmentStatus, ...] = (FRAGMENT,),
    streams: tuple[api.StreamStatus, ...] = (STREAM,),
    outputs: tuple[api.OutputStatus, ...] = (OUTPUT,),
    problems: tuple[str, ...] = (),
) -> api.StatusDocument:
    return api.StatusDocument(
        cluster="c",
        problems=problems,
        nodes=(),
        fragments=fragments,
        streams=streams,
        outputs=outputs,
        history=(),
    )


def first_line(shown: api.StatusDocument) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_view(shown))
    return captured.get().splitlines()[0]


def late(pct: float | None, *, stream: str = "count", ever: float = 0.0) -> api.OutputStatus:
    return msgspec.structs.replace(OUTPUT, stream=stream, recent_miss_pct=pct, miss_pct=ever)


def test_a_healthy_cluster_gets_a_tick() -> None:
    assert concerns(document()) == []
    assert "✓ every fragment has a warm standby" in first_line(document())


def test_no_tick_stands_above_late_outputs() -> None:
    shown = first_line(document(outputs=(late(60.0),)))
    assert "! late: count 60.0 %" in shown
    assert "✓" not in shown


def test_the_latest_output_comes_first_and_of_many_only_some_are_named() -> None:
    outputs = tuple(late(float(pct), stream=f"o{pct}") for pct in (0, 2, 30, 50, 40))
    assert concerns(document(outputs=outputs)) == [
        "late: o50 50.0 %, o40 40.0 %, o30 30.0 % and 1 more"
    ]


def test_outputs_that_were_late_long_ago_or_hardly_ever_are_no_concern() -> None:
    assert concerns(document(outputs=(late(0.5, ever=60.0),))) == []


def test_an_output_to_which_nothing_comes_any_more_is_no_concern_however_late_it_was() -> None:
    assert concerns(document(outputs=(late(None, ever=60.0),))) == []


def waiting(tuples: int, waits_s: float, *, entered: int = 0) -> api.StreamStatus:
    """A stream whose accepted tuples wait for a later one."""
    input_ = InputStatus(waiting=WaitingInput(tuples=tuples, bytes=100, since_us=0, for_ms=1001))
    return msgspec.structs.replace(
        STREAM, entered=entered, input=input_, waits_s=waits_s, waits_for="a tuple from then on"
    )


def test_a_stream_that_nothing_has_entered_is_named_and_is_nothing_wrong() -> None:
    empty = msgspec.structs.replace(STREAM, entered=0)
    beside = msgspec.structs.replace(empty, stream="readings.late", beside="readings")
    shown = document(streams=(empty, beside, waiting(560, 0.1)))
    assert concerns(shown) == []
    assert first_line(shown).endswith(
        "✓ every fragment has a warm standby; nothing has entered: readings"
    )


def test_a_stream_whose_tuples_wait_for_long_is_named_with_what_they_wait_for() -> None:
    assert waits([STREAM, waiting(560, 0.9), waiting(0, 0.0)]) == []
    assert waits([waiting(1, 7.2), waiting(560, 3600.0, entered=5)]) == [
        "readings: 1 accepted tuple waits for a tuple from then on; none has entered for 7 s",
        "readings: 560 accepted tuples wait for a tuple from then on; none has entered for 3600 s",
    ]
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_view(document(streams=(waiting(560, 7.0),))))
    assert "· readings: 560 accepted tuples wait" in captured.get()


def test_fields_that_a_stream_does_not_have_are_named_beside_how_many_tuples_had_some() -> None:
    ignoring = msgspec.structs.replace(
        STREAM, input=InputStatus(ignored=1200, last_ignored="referer")
    )
    assert ignores([STREAM, ignoring]) == [
        "readings: fields that the stream does not have were ignored, such as referer; "
        "tuples that had some: 1,200"
    ]
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_view(document(streams=(ignoring,))))
    assert "fields that the stream does not have were ignored, such as referer" in captured.get()
    assert concerns(document(streams=(ignoring,))) == []


def test_the_glossary_explains_each_phrase_of_the_first_line() -> None:
    bare = msgspec.structs.replace(FRAGMENT, primary_alive=False, redundant=False)
    stream = msgspec.structs.replace(STREAM, throttled=True, overflowing=True)
    output = msgspec.structs.replace(late(60.0), unkept_ms=13_000.0)
    found = concerns(
        document(fragments=(bare,), streams=(stream,), outputs=(output,), problems=("it hurts",))
    )
    phrases = [each.partition(":")[0] for each in found]
    assert len(phrases) == 7
    glossary = (Path(__file__).parents[5] / "docs" / "glossary.md").read_text()
    for phrase in (*phrases, "nothing has entered"):
        assert f"\n| **{phrase}**" in glossary


def test_a_stream_that_waits_for_consumers_is_named_with_its_slip() -> None:
    slow = msgspec.structs.replace(STREAM, throttled=True, slipped_ms=12_340.0)
    assert concerns(document(streams=(slow,))) == ["throttled: readings, by 12.3 s so far"]


def test_the_worst_comes_first() -> None:
    bare = msgspec.structs.replace(FRAGMENT, redundant=False, secondary_state="none")
    dead = msgspec.structs.replace(bare, fragment="dead", primary_alive=False)
    empty = msgspec.structs.replace(STREAM, entered=0)
    shown = document(
        fragments=(bare, dead), streams=(empty,), outputs=(late(60.0),), problems=("it hurts",)
    )
    assert concerns(shown) == [
        "without a primary: dead",
        "late: count 60.0 %",
        "problems: 1",
        "without a warm standby: count, dead",
    ]
    assert first_line(shown).endswith("; nothing has entered: readings")
    assert "; ! without a primary: dead; ! late" in first_line(shown)


def test_a_buffer_that_was_full_long_ago_is_no_concern_and_its_tuples_count_as_lost() -> None:
    before = msgspec.structs.replace(STREAM, overflowed=1234)
    assert concerns(document(streams=(before,))) == []
    now = msgspec.structs.replace(before, overflowing=True)
    assert concerns(document(streams=(now,))) == ["input dropped at a full buffer: readings"]
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_view(document(streams=(before,))))
    assert "1,234" in captured.get()


def test_the_sink_that_holds_everything_up_is_named_before_what_it_holds_up() -> None:
    slow = msgspec.structs.replace(STREAM, throttled=True, slipped_ms=12_340.0)
    stuck = msgspec.structs.replace(OUTPUT, unkept_ms=13_000.0)
    assert concerns(document(streams=(slow,), outputs=(stuck,))) == [
        "sink does not keep: count at exit, nothing for 13.0 s",
        "throttled: readings, by 12.3 s so far",
    ]


def test_a_row_of_an_output_is_whole_in_120_columns() -> None:
    named = msgspec.structs.replace(
        OUTPUT, query="proximity", stream="alerts_per_minute", site="control-centre",
        latency_ms_p50=83.1, latency_ms_p99=140.2, rows=21_598,
    )  # fmt: skip
    console = Console(width=120)
    with console.capture() as shown:
        console.print(status_view(document(outputs=(named,))))
    assert "proximity.alerts_per_minute  control-centre  21,598  83.1 ms" in shown.get()


@pytest.mark.parametrize(("tuples", "shown"), [(4_640, "4,640"), (None, "some")])
def test_input_that_has_no_results_stands_beside_its_fragment(
    tuples: int | None, shown: str
) -> None:
    lost = LostInput(after_ms=10, until_ms=20, tuples=tuples)
    fragment = msgspec.structs.replace(FRAGMENT, lost_input={"readings": lost})
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_view(document(fragments=(fragment,))))
    heading, row = (
        next(line for line in captured.get().splitlines() if word in line)
        for word in ("input lost", "q.count")
    )
    assert heading.split()[-2:] == ["input", "lost"]
    assert row.split()[-1] == shown


def test_moves_that_are_proposed_and_a_pause_have_a_line_each() -> None:
    found = api.ProposalSummary(
        name="d",
        made_us=0,
        until_us=0,
        reasons=("paris has joined",),
        moves=2,
        state_bytes=None,
        cost_bytes=(2.0, 1.0),
    )
    quiet = document()
    told = msgspec.structs.replace(quiet, proposal=found, automation_paused=True)
    assert "proposed" not in shown(quiet)
    assert "automation" not in shown(quiet)
    assert "2 moves are proposed until " in shown(told)
    assert "vivace rebalance --proposed" in shown(told)
    assert "automation is paused until `vivace automation --resume`" in shown(told)


def shown(status: api.StatusDocument) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(status_view(status))
    return capture.get()


def missing(name: str, sdmr_pct: float) -> api.FragmentStatus:
    batching = BatchingStatus(policy="measured", k=4, sdmr_pct=sdmr_pct)
    return msgspec.structs.replace(FRAGMENT, fragment=name, batching=batching)


def test_fragments_that_evaluate_input_too_late_are_named_the_worst_first() -> None:
    assert misses((FRAGMENT, missing("fine", 0.9))) == []
    assert misses((missing("a", 3.0), missing("b", 12.0))) == [
        "q.b evaluates 12 % of its input after its sub-deadline (batching: measured, k 4)",
        "q.a evaluates 3 % of its input after its sub-deadline (batching: measured, k 4)",
    ]
    many = misses(tuple(missing(name, 5.0) for name in "abcdef"))
    assert (len(many), many[-1]) == (4, "and so do 3 more: vivace top --sort SDMR")
    console = Console(width=200)
    with console.capture() as captured:
        console.print(status_view(document(fragments=(missing("a", 3.0),))))
    assert "· q.a evaluates 3 % of its input" in captured.get()
