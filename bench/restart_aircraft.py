"""The aircraft example, whose receivers push what they hear, in benchmark `restart`.

Each receiver sends its recording over HTTP at the example's speed, each batch until it is
acknowledged, and begins again three hours later, in event time, when the recording is over. In the
end `vivace verify` computes all alerts again from what the journals have, in Spark SQL that knows
nothing of the continuous query, as of a cluster that was never disturbed.
"""

from __future__ import annotations

import json
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from pyarrow import parquet

import vivace
from bench.killed_cluster import (
    PATIENCE_S,
    KilledCluster,
    Restarts,
    await_,
    kill_again,
    killed_cluster,
)
from bench.registry import Settings
from bench.report import ROOT
from orchestrator.drills.measurement import sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.embedded.ports import free_port
from orchestrator.errors import VivaceError
from streams.vectors.chunk import NO_WATERMARK
from streams.vectors.reserved import TIMESTAMP

EXAMPLE = ROOT / "examples" / "aircraft"
STATE = {"folder": "state", "every": "10 s"}
QUERY, OUTPUTS = "proximity", ("alerts", "alerts_per_minute")
PUSH_S = 0.1
SLOWEST_S = 1.0
"""What could not be sent while the cluster was away is not sent faster later, but for so much."""


class AircraftPusher:
    """A client that sends a recording again and again, at a stream's speed.

    Parameters
    ----------
    stream, port
        Its name, and where it takes tuples.
    replay
        What its manifest says of the recording.
    """

    def __init__(self, stream: str, replay: dict[str, Any], port: int) -> None:
        table = parquet.read_table(EXAMPLE / str(replay["path"])).sort_by("timestamp")
        times_ms = table["timestamp"].to_numpy()
        self._table, self._speed = table, float(replay["speed"])
        self._times_ms = times_ms - times_ms[0]
        self._begin_ms = int(times_ms[0])
        self._round_ms = int(self._times_ms[-1]) + 1
        self._stream = vivace.site(f"http://127.0.0.1:{port}", patience_s=PATIENCE_S).stream(stream)
        self._ends = threading.Event()
        self._failure: Exception | None = None
        self.acknowledged, self.newest_ms = 0, self._begin_ms - 1
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def _push(self) -> None:
        try:
            due_s = time.monotonic()
            for turn in count():
                step_ms, shift_ms = PUSH_S * self._speed * 1e3, turn * self._round_ms
                ends = np.searchsorted(
                    self._times_ms, np.arange(step_ms, self._round_ms + step_ms, step_ms)
                )
                for begin, end in zip([0, *ends[:-1]], ends, strict=True):
                    if self._ends.wait(max(due_s - time.monotonic(), 0.0)):
                        return
                    if begin < end:
                        self._send(int(begin), int(end), shift_ms)
                    due_s = max(due_s + PUSH_S, time.monotonic() - SLOWEST_S)
        except Exception as error:  # noqa: BLE001  Told by `check`.
            self._failure = error

    def _send(self, begin: int, end: int, shift_ms: int) -> None:
        times_ms = self._times_ms[begin:end] + (self._begin_ms + shift_ms)
        some = self._table.slice(begin, end - begin)
        self._stream.send(some.set_column(0, "timestamp", pa.array(times_ms)))
        self.acknowledged += end - begin
        self.newest_ms = int(times_ms[-1])

    def sent_until(self, until_ms: int) -> int:
        """How many of the tuples that were acknowledged have no later timestamp."""
        turns, rest_ms = divmod(until_ms - self._begin_ms, self._round_ms)
        within = int(np.searchsorted(self._times_ms, rest_ms, "right"))
        return min(turns * len(self._times_ms) + within, self.acknowledged)

    def check(self) -> None:
        """Fail if the client has given up."""
        if self._failure is not None:
            raise VivaceError(f"nothing is pushed any more: {self._failure}")

    def end(self) -> int:
        """Stop; returns how many tuples were acknowledged."""
        self._ends.set()
        self._thread.join()
        self.check()
        return self.acknowledged


def aircraft(folder: Path, settings: Settings) -> dict[str, float]:
    """Figures of the aircraft example whose every process is killed."""
    found = Restarts()
    cluster_text, rest, replays, ports = _manifests()
    with killed_cluster(folder / "aircraft", cluster_text, rest) as cluster:
        pushers = [AircraftPusher(name, replay, ports[name]) for name, replay in replays.items()]

        def due_ms() -> int:
            return min(each.newest_ms for each in pushers)

        def check() -> None:
            for each in pushers:
                each.check()

        begin_ms = due_ms()
        await_(lambda: _complete_ms(cluster) > begin_ms + 60_000, check)
        # The newest timestamp that a client has sent stays open.
        anew = kill_again(
            cluster, found, settings, due_ms, lambda: _complete_ms(cluster), check, seed=53
        )
        acknowledged = sum(each.end() for each in pushers)
        await_(lambda: _complete_ms(cluster) >= due_ms() - 1)
        # Of a recording the column with event times has another name than of a stream.
        sql = folder / "answer.sql"
        sql.write_text((EXAMPLE / "answer.sql").read_text().replace("timestamp", TIMESTAMP))
        verdict = json.loads(
            cluster.vivace("verify", QUERY, "--all", "--json", "--sql", str(sql), fine=(0, 1))
        )
        cluster.down()
    sent = sum(each.sent_until(verdict["until_ms"]) for each in pushers)
    unread = sent - sum(verdict["inputs"].values())
    differing = sum(each["missing"] + each["unexpected"] for each in verdict["outputs"])
    for output in OUTPUTS:
        faults = sequence_faults(read_back(cluster.archive, output))
        found.lost, found.repeated = found.lost + faults.lost, found.repeated + faults.repeated
    return {
        **found.figures("aircraft"),
        "aircraft.tuples": acknowledged,
        "aircraft.results": sum(each["archived"] for each in verdict["outputs"]),
        "aircraft.unread": unread,
        "aircraft.differing": differing,
        "aircraft.began_anew": len(anew),
        "aircraft.violations": found.lost + found.repeated + differing + abs(unread),
        "aircraft.checkpoint_bytes": found.checkpoint_bytes,
        "aircraft.retained_bytes": found.retained_bytes,
    }


def _complete_ms(cluster: KilledCluster) -> int:
    """How far all results are complete."""
    try:
        outputs = [read_back(cluster.archive, output) for output in OUTPUTS]
    except FileNotFoundError:
        return NO_WATERMARK
    return min(
        int(each.completed_column("watermark_ms").max(initial=NO_WATERMARK)) for each in outputs
    )


def _manifests() -> tuple[str, str, dict[str, dict[str, Any]], dict[str, int]]:
    """The cluster's manifest, that of the rest, and of each stream its recording and its port."""
    cluster = yaml.safe_load((EXAMPLE / "cluster.yaml").read_text())
    cluster |= {"latencies": str((EXAMPLE / cluster["latencies"]).resolve()), "state": STATE}
    streams = list(yaml.safe_load_all((EXAMPLE / "streams.yaml").read_text()))
    replays = {each["name"]: each["from"]["replay"] for each in streams}
    ports = {name: free_port() for name in replays}
    for each in streams:
        timestamp = {"column": "timestamp", "format": "ms"}
        http = {"listen": ports[each["name"]], "timestamp": timestamp, "idleAfter": "off"}
        each["from"] = {"http": http}
    queries = yaml.safe_load_all((EXAMPLE / "query.yaml").read_text())
    return yaml.safe_dump(cluster), yaml.safe_dump_all([*streams, *queries]), replays, ports
