"""The site of benchmark `ingest` responds to its clients to the end."""

from __future__ import annotations

import msgspec
import pytest

import vivace
from bench import ingest_workload as workload
from bench.ingest import measured_rate
from bench.ingest_latency import latencies_ms
from bench.ingest_site import Passed
from bench.ingest_sources import SOURCES, running_site


@pytest.mark.slow
def test_a_batch_in_parts_is_committed_after_all_its_rows_have_passed() -> None:
    rows = workload.batch(0, 1000)
    with running_site(SOURCES["http-arrow"], rows.num_rows) as site:
        stream = vivace.connect(site.address, client="test", patience_s=5.0).stream(workload.STREAM)
        stream.stage(rows, number=1, part="a")
        assert stream.commit(1, ["a"]).accepted == rows.num_rows
        passed = msgspec.json.decode(site.said.readline(), type=Passed)
        assert passed.times[-1][0] == rows.num_rows - 1
        assert stream.commit(1, ["a"]).repeated


@pytest.mark.slow
def test_more_messages_than_the_mock_cluster_keeps_all_pass() -> None:
    assert measured_rate(SOURCES["kafka"], 120_000) > 0


@pytest.mark.slow
def test_latency_ends_where_a_client_has_the_results() -> None:
    assert latencies_ms(SOURCES["csv-tcp"], 1).min() > 0
