"""Out of Spark, through a query, into Spark, while either side's processes are killed: all once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from bench.cluster import running
from orchestrator.embedded.java import Java
from orchestrator.embedded.ports import free_port
from orchestrator.manifest import load
from tests.conftest import WaitUntil
from tests.round_trip.conftest import Say
from tests.round_trip.kills import kill_executor, kill_site
from tests.round_trip.market import (
    END_MS,
    STATEMENTS,
    TRADES_OF_QUOTE,
    expected,
    quote,
    trade,
)

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

FILE_S = 0.5
FILE_TRADES = 100
STREAMS, OUTPUTS = ("trades", "quotes"), ("spreads", "seconds")
KILLED = ("write", "read", "one", "entry", "exit")
"""The queries of Spark, an executor of ours, and both sites."""

MANIFESTS = """\
kind: Cluster
name: round
nodes: [one, two, three]
sites: [entry, exit]
executorMemory: 512m
---
kind: Stream
name: trades
site: entry
columns: {{symbol: string, number: int, price: float}}
rate: 20 KB/s
from: {{http: {{{http}}}}}
---
kind: Stream
name: quotes
site: entry
columns: {{symbol: string, bid: float}}
rate: 4 KB/s
from: {{http: {{{http}}}}}
---
kind: Query
name: market
deadline: 5 s
recovery: 1 s
outputs:
  spreads: {{site: exit, to: {{http: {{listen: {exit}}}}}}}
  seconds: {{site: exit, to: {{http: {{listen: {exit}}}}}}}
statements: |
{statements}"""


class Files:
    """Files of trades and quotes, which appear as a whole, until it is told to end.

    Attributes
    ----------
    trades
        How many have been written.
    """

    def __init__(self, folder: Path) -> None:
        self.trades = 0
        self._folder = folder
        self._ended = threading.Event()
        for stream in STREAMS:
            (folder / stream).mkdir(parents=True)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> int:
        """End the streams; returns the time of the last rows, which never enter."""
        self._ended.set()
        self._thread.join()
        at = trade(self.trades).at + END_MS
        self._write("trades", [asdict(trade(self.trades)) | {"at": at}])
        self._write("quotes", [asdict(quote(0)) | {"at": at}])
        return at

    def _run(self) -> None:
        while not self._ended.wait(FILE_S):
            numbers = range(self.trades, self.trades + FILE_TRADES)
            quotes = {n // TRADES_OF_QUOTE for n in numbers}
            self._write("quotes", [asdict(quote(n)) for n in sorted(quotes)])
            self._write("trades", [asdict(trade(n)) for n in numbers])
            self.trades += FILE_TRADES

    def _write(self, stream: str, rows: Sequence[Mapping[str, object]]) -> None:
        # Spark does not look at files whose name begins with a dot.
        hidden = self._folder / stream / f".{self.trades}.json"
        hidden.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        hidden.rename(hidden.with_name(f"{self.trades:09}.json"))


class Spark:
    """A process with Spark's queries."""

    def __init__(self, java: Java, folder: Path, verb: str, argument: object) -> None:
        self._environment = {**java.environment(), "PYSPARK_PYTHON": sys.executable}
        program = Path(__file__).with_name("spark_queries.py")
        self._command = [sys.executable, str(program), verb, str(folder), str(argument)]
        self._log = folder / f"{verb}.log"
        streams = STREAMS if verb == "write" else OUTPUTS
        self._checkpoints = [folder / f"{stream}.checkpoint" for stream in streams]
        self.start()

    def start(self) -> None:
        """Start it, with all that it starts itself in a group."""
        self._before = self.batches()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=Path(__file__).resolve().parents[2],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill it and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def works(self) -> bool:
        """Whether all its queries have finished a batch since it was started."""
        assert self._process.poll() is None, self._log.read_text(encoding="utf-8")[-4000:]
        return all(now > was for now, was in zip(self.batches(), self._before, strict=True))

    def wait(self) -> str:
        """Wait until it has ended, in order; what it said."""
        status = self._process.wait()
        said = self._log.read_text(encoding="utf-8")
        assert status == 0, said[-4000:]
        return said

    def batches(self) -> list[int]:
        """The newest finished batch of each query; -1 if there is none."""
        return [_newest(checkpoint / "commits") for checkpoint in self._checkpoints]

    def reached(self) -> dict[str, int]:
        """The number of rows in finished batches of each output that it reads."""
        found: dict[str, int] = {}
        for name, checkpoint in zip(OUTPUTS, self._checkpoints, strict=True):
            newest = _newest(checkpoint / "commits")
            found[name] = 0
            if newest >= 0:
                last = (checkpoint / "offsets" / str(newest)).read_text().splitlines()[-1]
                offset = msgspec.json.decode(last)
                found[name] = offset["seq"]
        return found


def _newest(folder: Path) -> int:
    """Number of the newest batch in a folder of a checkpoint; -1 if there is none."""
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


@pytest.fixture
def started() -> Iterator[list[Spark]]:
    processes: list[Spark] = []
    yield processes
    for each in processes:
        each.kill()


def test_spark_sql_agrees_whatever_is_killed_of_spark_and_of_vivace(
    java: Java,
    tmp_path: Path,
    started: list[Spark],
    dice: random.Random,
    say: Say,
    wait_until: WaitUntil,
) -> None:
    entry, out = free_port(), free_port()
    http = f"listen: {entry}, timestamp: {{column: at, format: ms}}, idleAfter: off, maxAhead: off"
    manifests = tmp_path / "round.yaml"
    manifests.write_text(MANIFESTS.format(http=http, exit=out, statements=STATEMENTS))
    folder = tmp_path / "spark"
    files = Files(folder)
    with running(load([manifests]), tmp_path / "work", say) as cluster:
        started += [
            writing := Spark(java, folder, "write", f"http://127.0.0.1:{entry}"),
            reading := Spark(java, folder, "read", f"http://127.0.0.1:{out}"),
        ]
        queries = {"write": writing, "read": reading}
        try:
            for kill in dice.sample(KILLED, len(KILLED)):
                for query in started:
                    wait_until(query.works)
                time.sleep(dice.uniform(0.0, 2.0))
                say("killed", kill)
                if kill in queries:
                    queries[kill].kill()
                    queries[kill].start()
                elif kill == "one":
                    kill_executor(cluster.store, kill)
                else:
                    kill_site(cluster.store, kill)
            end_ms = files.end()
            wanted = {name: len(rows) for name, rows in expected(files.trades).items()}
            say("wanted", str(wanted))
            wait_until(lambda: reading.works() and reading.reached() == wanted)
        finally:
            say("written", f"{files.trades} trades; {writing.batches()} batches into Vivace")
            say("reached", str(reading.reached()))
    reading.kill()
    checking = Spark(java, folder, "check", end_ms)
    started[:] = [writing, checking]
    say("checked", checking.wait())
