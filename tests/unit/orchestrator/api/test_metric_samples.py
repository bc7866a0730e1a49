"""What Prometheus is told: read back with its own parser."""

from __future__ import annotations

import shutil
import subprocess

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.api.metric_samples import exposition_of, samples
from orchestrator.records import (
    Histogram,
    InputStatus,
    LostInput,
    PlaceLoad,
    Skipped,
    WaitingInput,
)
from orchestrator.records.durations import BUCKETS, NO_MOVE, NO_RECOVERY
from orchestrator.results.status import (
    FragmentStatus,
    NodeStatus,
    OutputStatus,
    StatusDocument,
    StreamStatus,
)

NODE = NodeStatus(
    node="paris",
    kind="executor",
    region='the "Île"',
    error=0.1,
    load_ms=0.0,
    primaries=1,
    secondaries=0,
    pid=1,
    counters={"takeovers": 2, "tuples_in": 17},
    reported_us=12_500_000,
    dispatch_histogram=Histogram(least_ms=0.05).plus(0.2),
)
FRAGMENT = FragmentStatus(
    query="q",
    fragment="f",
    epoch=3,
    primary="paris",
    primary_alive=True,
    sub_deadline_ms=12.5,
    secondary=None,
    secondary_state="none",
    redundant=False,
    snapshot_bytes=2048,
    snapshot_ms=1.5,
    lost_input={
        "s": LostInput(after_ms=10, until_ms=20, tuples=7),
        "t": LostInput(after_ms=10, until_ms=20, tuples=None),
    },
)
STREAM = StreamStatus(
    stream="s",
    site="desk",
    entered=70,
    shed=30,
    skipped=Skipped(after_ms=1, until_ms=2, tuples=7),
    input=InputStatus(ignored=9, waiting=WaitingInput(tuples=4, bytes=9, since_us=0)),
)
OUTPUT = OutputStatus(
    query="q",
    stream="f",
    site="desk",
    next_seq=40,
    watermark_ms=None,
    rows=40,
    completed_timestamps=9,
    latency_ms_p50=20.0,
    latency_ms_p99=80.0,
    latency_histogram=Histogram(least_ms=1).plus(1).plus(1.001).plus(60_000),
    deadline_ms=300.0,
    deadline_misses=1,
    late_rows=4,
    miss_pct=10.0,
    recent_miss_pct=25.0,
    lost=5,
    repeated=6,
)


LOAD = PlaceLoad(
    name="rack",
    is_machine=True,
    hosts=("paris", "desk"),
    processors=2.0,
    limit_cores=1.7,
    predicted_cores=0.5,
    measured_cores=0.4,
)


def document(output: OutputStatus = OUTPUT) -> StatusDocument:
    return StatusDocument(
        cluster="c",
        nodes=(NODE,),
        fragments=(FRAGMENT,),
        streams=(STREAM,),
        outputs=(output,),
        problems=("paris: north: cannot be read",),
        history=(),
        loads=(LOAD,),
        recoveries={"q": NO_RECOVERY.plus(250), "r": NO_RECOVERY},
        moves=NO_MOVE.plus(1500),
        missing=("rome",),
    )


OF_OUTPUT = {"query": "q", "stream": "f", "site": "desk"}


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("vivace_problems", {}, 1),
        ("vivace_host_up", {"node": "paris", "kind": "executor", "region": 'the "Île"'}, 1),
        ("vivace_host_events_total", {"node": "paris", "event": "takeovers"}, 2),
        ("vivace_host_events_total", {"node": "paris", "event": "tuples_in"}, 17),
        ("vivace_place_measured_cores", {"name": "rack"}, 0.4),
        ("vivace_place_predicted_cores", {"name": "rack"}, 0.5),
        ("vivace_place_limit_cores", {"name": "rack"}, 1.7),
        ("vivace_fragment_redundant", {"query": "q", "fragment": "f"}, 0),
        ("vivace_fragment_epoch", {"query": "q", "fragment": "f"}, 3),
        ("vivace_fragment_sub_deadline_seconds", {"query": "q", "fragment": "f"}, 0.0125),
        ("vivace_fragment_snapshot_bytes", {"query": "q", "fragment": "f"}, 2048),
        ("vivace_fragment_snapshot_seconds", {"query": "q", "fragment": "f"}, 0.0015),
        ("vivace_fragment_lost_input_tuples", {"query": "q", "fragment": "f"}, 8),
        ("vivace_stream_tuples_total", {"stream": "s", "site": "desk"}, 70),
        ("vivace_stream_waiting_tuples", {"stream": "s", "site": "desk"}, 4),
        ("vivace_stream_ignored_fields_tuples", {"stream": "s", "site": "desk"}, 9),
        ("vivace_stream_skipped_tuples", {"stream": "s", "site": "desk"}, 7),
        ("vivace_host_missing", {"node": "rome"}, 1),
        ("vivace_host_report_timestamp_seconds", {"node": "paris"}, 12.5),
        ("vivace_stream_shed_tuples_total", {"stream": "s", "site": "desk"}, 30),
        ("vivace_output_tuples_total", OF_OUTPUT, 40),
        ("vivace_output_late_tuples_total", OF_OUTPUT, 4),
        ("vivace_output_completed_timestamps_total", OF_OUTPUT, 9),
        ("vivace_output_late_timestamps_total", OF_OUTPUT, 1),
        ("vivace_output_lost_tuples_total", OF_OUTPUT, 5),
        ("vivace_output_repeated_tuples_total", OF_OUTPUT, 6),
        ("vivace_output_deadline_seconds", OF_OUTPUT, 0.3),
        ("vivace_output_miss_ratio", OF_OUTPUT, 0.25),
        ("vivace_output_latency_quantile_seconds", OF_OUTPUT | {"percentile": "50"}, 0.02),
        ("vivace_output_latency_quantile_seconds", OF_OUTPUT | {"percentile": "99"}, 0.08),
        ("vivace_output_latency_seconds_bucket", OF_OUTPUT | {"le": "0.001"}, 1),
        ("vivace_output_latency_seconds_bucket", OF_OUTPUT | {"le": "0.002"}, 2),
        ("vivace_output_latency_seconds_bucket", OF_OUTPUT | {"le": "16.384"}, 2),
        ("vivace_output_latency_seconds_bucket", OF_OUTPUT | {"le": "+Inf"}, 3),
        ("vivace_output_latency_seconds_count", OF_OUTPUT, 3),
        ("vivace_output_latency_seconds_sum", OF_OUTPUT, 60.002001),
        ("vivace_dispatch_seconds_bucket", {"node": "paris", "le": "0.0001"}, 0),
        ("vivace_dispatch_seconds_bucket", {"node": "paris", "le": "0.0002"}, 1),
        ("vivace_recovery_seconds_sum", {"query": "q"}, 0.25),
        ("vivace_recovery_seconds_count", {"query": "r"}, 0),
        ("vivace_move_seconds_bucket", {"le": "1.28"}, 0),
        ("vivace_move_seconds_bucket", {"le": "2.56"}, 1),
    ],
)
def test_every_figure_is_told_in_base_units(
    name: str, labels: dict[str, str], value: float
) -> None:
    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition_of(document()))
        for sample in family.samples
    }
    assert read[name, tuple(sorted(labels.items()))] == pytest.approx(value)
    assert (name, labels, pytest.approx(value)) in [
        (sample.name, sample.labels, sample.value) for sample in samples(document())
    ]


def test_what_is_not_known_yet_is_left_out() -> None:
    fresh = msgspec.structs.replace(
        OUTPUT, latency_ms_p50=None, latency_ms_p99=None, recent_miss_pct=None
    )
    told = {sample.name for sample in samples(document(fresh))}
    assert "vivace_output_tuples_total" in told
    assert not told & {"vivace_output_latency_quantile_seconds", "vivace_output_miss_ratio"}
    assert "vivace_fragment_checkpoint_bytes" not in told


def test_a_histogram_has_each_bucket_and_no_other() -> None:
    for name in ("output_latency", "dispatch", "recovery", "move"):
        bounds = {
            sample.labels["le"]
            for sample in samples(document())
            if sample.name == f"vivace_{name}_seconds_bucket"
        }
        assert len(bounds) == BUCKETS + 1
        assert "+Inf" in bounds


def test_names_help_and_labels_follow_prometheus_conventions() -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("no promtool on the path")
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=exposition_of(document()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
