"""Benchmark `ingest`: tuples a second into a fragment that filters, and latency to its results.

A client on one processor sends tuples of five columns to a site on another one, which parses,
orders, numbers and journals them (the disk has them before they are acknowledged), and evaluates a
filter. Beside it, in the same run, Spark Structured Streaming reads the same lines, out of files
and from a socket, and filters, on one processor too. Latencies are those of `bench.ingest_latency`
and `bench.ingest_spark_runs`: from a client that sends to a client that gets the results.
"""

from __future__ import annotations

import os
from typing import IO

import msgspec
import numpy as np

from bench import ingest_workload as workload
from bench.ingest_latency import RATE_ROWS_S, latencies_ms
from bench.ingest_site import Passed, Passing, clock_us
from bench.ingest_sources import PROCESSORS, SOURCES, Source, running_site
from bench.ingest_spark_runs import spark_latencies_ms, spark_rates
from bench.registry import Figures, Settings, benchmark
from foundation.arrays import FloatArray
from orchestrator.errors import VivaceError

KINDS = (*SOURCES, "spark")


@benchmark("ingest", kinds=KINDS)
def ingest(settings: Settings) -> Figures:
    """Tuples a second into a fragment and latency to its results, beside Spark's own sources."""
    flat: dict[str, float] = {}
    os.sched_setaffinity(0, PROCESSORS[:1])
    for name in settings.only or KINDS:
        if name == "spark":
            flat |= spark_rates(settings)
            for spark, found_ms in spark_latencies_ms(settings):
                flat |= _percentiles(spark, found_ms)
            continue
        source = SOURCES[name]
        settings.say(f"{name}: as fast as it goes")
        rows = source.quick_rows if settings.quick else source.rows
        flat[f"{name}.rows_s"] = measured_rate(source, rows)
        settings.say(f"{name}: {RATE_ROWS_S} tuples a second")
        flat |= _percentiles(name, latencies_ms(source, 2 if settings.quick else 10))
    return flat | _ratios(flat)


def _percentiles(name: str, found_ms: FloatArray) -> Figures:
    p50, p99 = np.percentile(found_ms, [50, 99]).tolist()
    return {f"{name}.latency_ms_p50": p50, f"{name}.latency_ms_p99": p99}


def _ratios(flat: dict[str, float]) -> dict[str, float]:
    """The rates, divided by those of Spark's own sources, where both were measured."""
    return {
        f"{name}.rows_to_{own}": flat[f"{name}.rows_s"] / flat[f"{own}.rows_s"]
        for name in KINDS
        for own in ("spark_files", "spark_socket")
        if f"{name}.rows_s" in flat and f"{own}.rows_s" in flat
    }


def measured_rate(source: Source, rows: int) -> float:
    """Tuples a second, from the first send until the last one has been filtered.

    Raises
    ------
    VivaceError
        Others have passed the filter than should have.
    """
    size = source.batch_rows
    batches = [workload.batch(n, min(size, rows - n)) for n in range(0, rows, size)]
    # Few different bodies: their numbers come again, which no source looks at.
    few = {n * size: source.encode(batches[n]) for n in range(min(8, len(batches)))}
    with running_site(source, rows) as site:
        send = source.connect(site.address, few)
        begun_us = clock_us()
        whole, rest = divmod(rows, size)
        due = 0
        passed_rows = 0
        for number in range(whole):
            if source.ahead_rows is not None:
                while number * size - passed_rows > source.ahead_rows - size:
                    told = _told(site.said)
                    assert isinstance(told, Passing)
                    passed_rows = told.rows
            sent = batches[number % len(few)]
            send(sent)
            due += workload.passing(sent)
        if rest:
            # Kept to the end: a client may still hold what it was told to send.
            send_rest = source.connect(site.address, {whole * size: source.encode(batches[-1])})
            send_rest(batches[-1])
            due += workload.passing(batches[-1])
        passed = _all_passed(site.said)
    if passed.passed != due:
        raise VivaceError(f"{passed.passed} tuples have passed the filter, and {due} should have")
    return rows / ((passed.times[-1][1] - begun_us) / 1e6)


def _all_passed(said: IO[str]) -> Passed:
    """What a site says at the end."""
    while isinstance(told := _told(said), Passing):
        pass
    return told


def _told(said: IO[str]) -> Passing | Passed:
    """What a site says next."""
    line = said.readline()
    if not line:
        raise RuntimeError("the site has ended; its own error stands above")
    return msgspec.json.decode(line, type=Passing | Passed)
