"""Benchmark `restart`: every process is killed at once, and started again on its folder.

A client pushes numbers over HTTP, each batch until it is acknowledged, while every process of a
cluster is killed (SIGKILL) at a random moment, again and again. One statement forwards the numbers,
one keeps the newest tuple of each of a million keys, one counts in windows. In the end each
acknowledged number must have its results once, as in a cluster that was never disturbed; since they
are numbered, it is known without one which these are.

The aircraft example is killed alike, while its receivers push what they hear; `vivace verify`
judges it. So is Spark Structured Streaming: it reads its own source of numbers, and counts them by
key in windows.

Resuming takes from the start of the first process to the first result of a number that came after
the kill. Of that, `hosts` is the time until the last executor has joined, and `decided` the time
until the leader has said from which checkpoints everything goes on. What is left is reading them,
and what came since.

The cost of checkpoints is the processor time of all processes for a tuple, to which throughput on a
busy machine is in inverse proportion. One cluster, which gets tuples all the time, has turns in
which every fragment writes its checkpoint, and between them turns in which none does: what differs
by placement, or drifts, is the same in both. A checkpoint writes the whole state, however long ago
the last one was. So what it costs in a turn of 10 s is a third of that in the default interval.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet

from bench.killed_cluster import (
    FLOWS_S,
    KilledCluster,
    Restarts,
    SteadyClient,
    await_,
    kill_again,
    killed_cluster,
    kills,
)
from bench.registry import Figures, Settings, benchmark
from bench.report import ROOT
from bench.restart_aircraft import aircraft
from foundation.arrays import FloatArray, IntArray
from orchestrator.edges.sinks import read_back
from orchestrator.embedded.ports import free_port
from orchestrator.errors import VivaceError
from orchestrator.records.checkpoints import CHECKPOINT_EVERY_MS
from streams.vectors.reserved import TIMESTAMP

TUPLES_PER_S = 5000
BATCH = 50
KEYS, QUICK_KEYS = 1_000_000, 100_000
FILL = 20_000
"""Tuples of a batch by which every key gets its first one; fewer than there are keys."""

COST_TURN_S = 10.0
BEFORE_S = 1.0
"""A turn with checkpoints begins so long before they are due."""

COST_TURNS, QUICK_COST_TURNS = 24, 8
"""Turns with checkpoints; each lies between two without."""

LEAST_TURNS = 4
"""How many of them there must be in which every fragment has written, and none beside them."""

WINDOW_MS = 200
FILES = 4
"""Of those that Spark has committed, the newest ones, which tell how far it has come."""

CLUSTER = """\
kind: Cluster
name: bench-restart
admission: off
nodes: [{{name: n1, region: here}}, {{name: n2, region: here}}]
sites: [{{name: desk, region: here}}]
{state}
"""

REST = f"""\
kind: Stream
name: numbers
site: desk
columns: {{{{key: int, number: int}}}}
rate: 120 KB/s
from: {{{{http: {{{{listen: {{port}}}}}}}}}}
---
kind: Query
name: restarts
deadline: 5 s
recovery: 5 s
outputs: {{{{each: desk, newest: desk, counts: desk}}}}
statements: |
  REGISTER QUERY each RSTREAM(SELECT number FROM numbers [NOW]);
  REGISTER QUERY newest ISTREAM(SELECT key, number FROM numbers [PARTITION BY key ROWS 1]);
  REGISTER QUERY counts RSTREAM(SELECT count(*) AS tuples, max(number) AS last
    FROM numbers [RANGE {WINDOW_MS} MILLISECONDS SLIDE {WINDOW_MS} MILLISECONDS]);
"""


FRAGMENTS = 3
"""Of these statements."""


KINDS = "ours", "spark", "aircraft", "cost"


@benchmark("restart", kinds=KINDS)
def restart(settings: Settings) -> Figures:
    """Seconds until results flow again when every process was killed, and what was lost."""
    kinds = settings.only or KINDS
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="vivace-bench-restart-") as folder:
        if "ours" in kinds:
            found |= _ours(Path(folder), settings)
        if "spark" in kinds:
            found |= _spark(Path(folder), settings).figures("spark")
        if "aircraft" in kinds:
            found |= aircraft(Path(folder), settings)
        if "cost" in kinds:
            found |= _cost(Path(folder), settings)
    return found


def _numbers(keys: int) -> Iterator[tuple[pa.Table, float]]:
    """Batches for `SteadyClient`: at first one number of every key as fast as they are taken."""
    first = 0
    while True:
        count, every_s = (FILL, 0.0) if first < keys else (BATCH, BATCH / TUPLES_PER_S)
        numbers = np.arange(first, first + count)
        yield pa.table({"key": numbers % keys, "number": numbers}), every_s
        first += count


def _ours(folder: Path, settings: Settings) -> dict[str, float]:
    keys = QUICK_KEYS if settings.quick else KEYS
    found = Restarts()
    with _cluster(folder / "ours", "state: {folder: state, every: 10 s}") as (cluster, port):
        pusher = SteadyClient("numbers", port, _numbers(keys))
        await_(lambda: pusher.acknowledged > keys and _counted(cluster) >= keys, pusher.check)
        anew = kill_again(
            cluster,
            found,
            settings,
            lambda: pusher.acknowledged,
            lambda: _counted(cluster),
            pusher.check,
            seed=51,
        )
        acknowledged = pusher.end()
        await_(lambda: _counted(cluster) >= acknowledged - 1, pusher.check)
        cluster.down()
        differing = _judge(cluster.archive, acknowledged, keys, found)
    return {
        **found.figures("restart"),
        "restart.differing": differing,
        "restart.tuples": acknowledged,
        "restart.began_anew": len(anew),
        "restart.violations": found.lost + found.repeated + differing,
        "checkpoint.bytes": found.checkpoint_bytes,
        "retained.bytes": found.retained_bytes,
    }


def _judge(archive: Path, acknowledged: int, keys: int, found: Restarts) -> int:
    """Count what is lost and repeated; returns how many results are not as they should be."""
    each, newest, counts = (
        read_back(archive, stream).rows for stream in ("each", "newest", "counts")
    )
    for rows in (each, newest):
        numbers = _column(rows, "number")
        distinct = len(np.unique(numbers))
        found.repeated += len(numbers) - distinct
        found.lost += acknowledged - distinct
    differing = int((_column(newest, "key") != _column(newest, "number") % keys).sum())
    differing += int((np.diff(_column(each, "number")) != 1).sum())
    ends_ms, times_ms = _column(counts, TIMESTAMP), np.sort(_column(each, TIMESTAMP))
    expected = np.searchsorted(times_ms, ends_ms, "right") - np.searchsorted(
        times_ms, ends_ms - WINDOW_MS, "right"
    )
    told = _column(counts, "tuples")
    differing += int((told != expected).sum())
    found.lost += max(acknowledged - int(told.sum()), 0)
    found.repeated += max(int(told.sum()) - acknowledged, 0)
    return differing


def _column(rows: pa.Table | pa.RecordBatch, name: str) -> IntArray:
    return np.asarray(rows.column(name).to_pylist(), dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn of `_cost`.

    Attributes
    ----------
    began_s, ended_s
        By the clock of the machine.
    tuple_us
        Processor time for a tuple.
    written
        Number of checkpoints that were written.
    """

    began_s: float
    ended_s: float
    tuple_us: float
    written: int


def _cost(folder: Path, settings: Settings) -> dict[str, float]:
    keys = QUICK_KEYS if settings.quick else KEYS
    count = 2 * (QUICK_COST_TURNS if settings.quick else COST_TURNS) + 1
    state = f"state: {{folder: state, every: {2 * COST_TURN_S:g} s}}"
    with _cluster(folder / "cost", state) as (cluster, port):
        pusher = SteadyClient("numbers", port, _numbers(keys))
        await_(lambda: _counted(cluster) >= keys, pusher.check)
        # The first turn is one without: checkpoints are due at whole intervals.
        ends_s = (time.time() // (2 * COST_TURN_S) + 2) * 2 * COST_TURN_S - BEFORE_S
        time.sleep(ends_s - COST_TURN_S - time.time())
        turns: list[Turn] = []
        for number in range(count):
            settings.say(f"cost: turn {number + 1} of {count}")
            began_s, before, used_s = time.time(), pusher.acknowledged, cluster.processor_s()
            time.sleep(max(ends_s + number * COST_TURN_S - began_s, 0.0))
            tuples, now_used_s = pusher.acknowledged - before, cluster.processor_s()
            taken_s = sum(each_s - used_s.get(pid, 0.0) for pid, each_s in now_used_s.items())
            pusher.check()
            turns.append(
                Turn(
                    began_s=began_s,
                    ended_s=time.time(),
                    tuple_us=1e6 * taken_s / tuples,
                    written=_written_since(cluster, began_s),
                )
            )
        acknowledged = pusher.end()
        await_(lambda: _counted(cluster) >= acknowledged - 1, pusher.check)
        cluster.down()
        delivered = read_back(cluster.archive, "newest")
    arrived_us = delivered.completed_column("arrived_us")
    latencies_ms = (arrived_us - delivered.completed_column("ingestion_time_us")) / 1e3
    return cost_figures(turns, arrived_us / 1e6, latencies_ms)


def cost_figures(
    turns: Sequence[Turn], arrived_s: FloatArray, latencies_ms: FloatArray
) -> dict[str, float]:
    """What checkpoints cost at their default interval, of turns without and with them alternately.

    Parameters
    ----------
    turns
        The first one and every second one after it are without.
    arrived_s, latencies_ms
        When results came, and how long after their tuples.
    """
    costs_pct: list[float] = []
    with_, without = list[Turn](), list[Turn]()
    for before, turn, after in zip(turns[:-2:2], turns[1::2], turns[2::2], strict=True):
        if turn.written >= FRAGMENTS and not before.written and not after.written:
            beside_us = (before.tuple_us + after.tuple_us) / 2
            costs_pct.append(100 * (turn.tuple_us / beside_us - 1))
            with_.append(turn)
            without += [before, after]
    if len(with_) < LEAST_TURNS:
        raise VivaceError(f"only {len(with_)} turns had all checkpoints, and none beside them")

    def latency_ms(some: Sequence[Turn]) -> float:
        within = [(arrived_s >= each.began_s) & (arrived_s < each.ended_s) for each in some]
        return float(np.quantile(latencies_ms[np.logical_or.reduce(within)], 0.99))

    default_s = CHECKPOINT_EVERY_MS / 1e3
    low, middle, high = np.quantile(costs_pct, (0.25, 0.5, 0.75)) * COST_TURN_S / default_s
    return {
        "checkpoint.cost_pct": float(middle),
        "checkpoint.cost_pct_quarter": float(low),
        "checkpoint.cost_pct_three_quarters": float(high),
        "checkpoint.cost_turns": len(with_),
        "checkpoint.tuple_us": median(each.tuple_us for each in with_),
        "checkpoint.without.tuple_us": median(each.tuple_us for each in without),
        "checkpoint.latency_ms_p99": latency_ms(with_),
        "checkpoint.without.latency_ms_p99": latency_ms(without),
    }


@contextmanager
def _cluster(folder: Path, state: str) -> Generator[tuple[KilledCluster, int]]:
    """A cluster, and the port at which its site takes numbers."""
    port = free_port()
    manifest, rest = CLUSTER.format(state=state), REST.format(port=port)
    with killed_cluster(folder, manifest, rest) as cluster:
        yield cluster, port


def _counted(cluster: KilledCluster) -> int:
    """The newest number that a window has counted."""
    try:
        numbers = read_back(cluster.archive, "counts").rows["last"].to_pylist()
    except FileNotFoundError:
        return -1
    return max((each for each in numbers if each is not None), default=-1)


def _written_since(cluster: KilledCluster, began_s: float) -> int:
    """How many checkpoints have been written since."""
    count = 0
    for file in (cluster.data / "state").glob("*/*.checkpoint"):
        with contextlib.suppress(FileNotFoundError):
            count += file.stat().st_mtime >= began_s
    return count


def _spark(folder: Path, settings: Settings) -> Restarts:
    from bench.restart_spark import COUNTS, NUMBERS

    keys = QUICK_KEYS if settings.quick else KEYS
    rng, found, made = np.random.default_rng(52), Restarts(), folder / "spark"
    made.mkdir()
    command = [sys.executable, "-m", "bench.restart_spark", str(made), str(keys)]

    def start() -> psutil.Popen:
        log = (folder / "spark.log").open("a")
        return psutil.Popen(
            [*command, str(TUPLES_PER_S)], cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log
        )

    def kill(process: psutil.Popen) -> None:
        for each in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()

    process = start()
    try:
        await_(lambda: _last(made / NUMBERS) >= 0 and _last(made / COUNTS, "tuples") >= 0)
        for number in range(1, 1 + kills(settings)):
            time.sleep(rng.uniform(*FLOWS_S))
            settings.say(f"Spark: kill {number}")
            kill(process)
            before, began_s = _last(made / NUMBERS), time.monotonic()
            process = start()
            await_(lambda before=before: _last(made / NUMBERS) > before)
            found.resume_s.append(time.monotonic() - began_s)
    finally:
        kill(process)
    files = [made / NUMBERS / name for name in _committed(made / NUMBERS)]
    numbers = np.concatenate([_column(parquet.read_table(each), "value") for each in files])
    distinct = len(np.unique(numbers))
    found.repeated, found.lost = len(numbers) - distinct, int(numbers.max()) + 1 - distinct
    return found


def _last(folder: Path, column: str = "value") -> int:
    """The greatest value of the files that Spark has committed last."""
    names = list(_committed(folder))[-FILES:]
    found = [_column(parquet.read_table(folder / name), column) for name in names]
    return max((int(each.max()) for each in found if len(each)), default=-1)


def _committed(folder: Path) -> list[str]:
    """The names of files that count, in order: those in Spark's own log of what it has written."""
    names: dict[str, None] = {}
    logs = [*(folder / "_spark_metadata").glob("[0-9]*")]
    for log in sorted(logs, key=lambda each: int(each.stem)):
        for line in log.read_text().splitlines()[1:]:
            names[json.loads(line)["path"].rpartition("/")[2]] = None
    return [*names]
