"""The ways in of benchmark `ingest`, and the processes of its sites."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa

from bench import ingest_workload as workload
from bench.ingest_site import Order
from bench.report import ROOT

PROCESSORS = sorted(os.sched_getaffinity(0))
"""Clients run on the first one, sites on the last one."""

FETCH_MS = 5
"""How long a fetch from the mock cluster waits for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A way in.

    Attributes
    ----------
    driver, options
        Of the site.
    encode
        A batch as the client holds it before it sends it.
    connect
        Makes what sends, from an address and the encoded batches.
    rows, quick_rows
        Number of tuples.
    batch_rows
        So many are sent at once.
    ahead_rows
        So many at most have been sent but have not passed, if what lies between drops what it
        has no room for.
    """

    driver: str
    options: dict[str, Any]
    encode: Callable[[pa.RecordBatch], Any]
    connect: Callable[[str, Any], workload.Send]
    rows: int
    quick_rows: int
    batch_rows: int = 65_536
    ahead_rows: int | None = None


SOURCES = {
    "csv-tcp": Source(
        driver="tcp",
        options={},
        encode=workload.as_csv,
        connect=workload.tcp,
        rows=5_000_000,
        quick_rows=500_000,
    ),
    "http-arrow": Source(
        driver="http",
        options={},
        encode=workload.as_arrow,
        connect=workload.arrow,
        rows=20_000_000,
        quick_rows=2_000_000,
    ),
    "python": Source(
        driver="http",
        options={},
        encode=lambda _: b"",
        connect=workload.python,
        rows=20_000_000,
        quick_rows=2_000_000,
    ),
    "kafka": Source(
        driver="kafka",
        options={},
        encode=workload.as_json,
        connect=workload.kafka,
        rows=500_000,
        quick_rows=50_000,
        batch_rows=8_192,
        # The mock cluster keeps 5 MiB of a partition.
        ahead_rows=32_768,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSite:
    """A site's process.

    Attributes
    ----------
    address
        Where clients send.
    results
        Where clients get what has passed the filter, if the site delivers.
    said
        What it prints further.
    """

    address: str
    results: str
    said: IO[str]


@contextmanager
def running_site(source: Source, rows: int, *, delivers: bool = False) -> Generator[RunningSite]:
    """A site's process; `delivers`: to clients, as results over HTTP."""
    options = source.options
    brokers = None
    if source.driver == "kafka":
        from tests.mock_kafka import MockKafka

        brokers = MockKafka()
        brokers.create(workload.TOPIC)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        if brokers is not None:
            # The mock cluster responds to a fetch that found nothing when its time is over, not
            # when something comes, as brokers do.
            properties = Path(folder) / "properties"
            properties.write_text(f"fetch.wait.max.ms={FETCH_MS}\n")
            topic = {"brokers": brokers.brokers, "name": workload.TOPIC}
            options = {"source": {**topic, "properties_file": str(properties)}}
        order = Order(
            driver=source.driver,
            options=options,
            rows=rows,
            folder=folder,
            processor=PROCESSORS[-1],
            delivers=delivers,
        )
        command = [sys.executable, "-m", "bench.ingest_site", msgspec.json.encode(order).decode()]
        site = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        try:
            assert site.stdout is not None
            address = site.stdout.readline().strip()
            results = site.stdout.readline().strip() if delivers else ""
            if not address:
                raise RuntimeError(f"the site has ended with {site.wait()}")
            yield RunningSite(
                address=brokers.brokers if brokers is not None else address,
                results=results,
                said=site.stdout,
            )
        finally:
            site.kill()
            site.wait()
