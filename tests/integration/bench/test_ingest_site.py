"""The site of benchmark `ingest` responds to clients to the end, and ends with its benchmark."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

import vivace
from bench import ingest_workload as workload
from bench.ingest import measured_rate
from bench.ingest_latency import latencies_ms
from bench.ingest_site import Order, Passed
from bench.ingest_sources import SOURCES, running_site
from bench.ingest_spark_runs import through_a_site_ms
from bench.report import ROOT

BENCHMARK = """
import time
from bench.ingest_sources import SOURCES, running_site
with running_site(SOURCES["csv-tcp"], 1000) as site:
    print(site.address, flush=True)
    time.sleep(600)
"""
"""A benchmark that has yet to send."""

ENDS_S = 60.0


@pytest.mark.slow
def test_a_batch_in_parts_is_committed_after_all_its_rows_have_passed() -> None:
    rows = workload.batch(0, 1000)
    with running_site(SOURCES["http-arrow"], rows.num_rows) as site:
        stream = vivace.site(site.address, client="test", patience_s=5.0).stream(workload.STREAM)
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


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_latency_through_spark_ends_where_a_client_has_the_results(tmp_path: Path) -> None:
    before = psutil.Process().children(recursive=True)
    assert through_a_site_ms(tmp_path, 1).min() > 0
    # Neither Spark nor the site is left.
    assert not set(psutil.Process().children(recursive=True)).difference(before)


@pytest.mark.slow
def test_a_site_whose_benchmark_is_killed_ends() -> None:
    benchmark = subprocess.Popen(
        [sys.executable, "-c", BENCHMARK], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    sites: list[psutil.Process] = []
    try:
        assert benchmark.stdout is not None
        assert benchmark.stdout.readline()
        sites = psutil.Process(benchmark.pid).children()
        assert len(sites) == 1
        folder = msgspec.json.decode(sites[0].cmdline()[-1], type=Order).folder
        benchmark.kill()
        _, alive = psutil.wait_procs(sites, ENDS_S)
        assert not alive
        assert not Path(folder).exists()
    finally:
        for each in [*sites, benchmark]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        benchmark.wait()
