"""The aircraft example, whose receivers push what they hear, in benchmark `restart`.

Each receiver sends its recording over HTTP at the example's speed, each batch until it is
acknowledged, and begins again three hours later, in event time, when the recording is over. In the
end `vivace verify` computes all alerts again from what the journals have, in Spark SQL that knows
nothing of the continuous query, as of a cluster that was never disturbed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml
from pyarrow import parquet

from bench.killed_cluster import (
    KilledCluster,
    Restarts,
    SteadyClient,
    await_,
    kill_again,
    killed_cluster,
)
from bench.registry import Settings
from bench.report import ROOT
from foundation.arrays import IntArray
from orchestrator.drills.measurement import sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.embedded.ports import free_port
from streams.vectors.chunk import NO_WATERMARK
from streams.vectors.reserved import TIMESTAMP

EXAMPLE = ROOT / "examples" / "aircraft"
STATE = {"folder": "state", "every": "10 s"}
QUERY, OUTPUTS = "proximity", ("alerts", "alerts_per_minute")
PUSH_S = 0.1


class PlayedRecording:
    """What a receiver sends: a recording again and again, at its stream's speed.

    Parameters
    ----------
    replay
        What the stream's manifest says of the recording.
    """

    def __init__(self, replay: dict[str, Any]) -> None:
        self._table = parquet.read_table(EXAMPLE / replay["path"]).sort_by("timestamp")
        times_ms: IntArray = np.asarray(self._table["timestamp"].to_numpy(), dtype=np.int64)
        self._step_ms = PUSH_S * float(replay["speed"]) * 1e3
        self.begin_ms, self._times_ms = int(times_ms[0]), times_ms - times_ms[0]
        self._round_ms = int(self._times_ms[-1]) + 1

    def batches(self) -> Iterator[tuple[pa.Table, float]]:
        """For `SteadyClient`."""
        steps_ms = np.arange(1, self._round_ms / self._step_ms + 1) * self._step_ms
        ends: list[int] = [0, *map(int, np.searchsorted(self._times_ms, steps_ms))]
        for turn in count():
            shift_ms = self.begin_ms + turn * self._round_ms
            for begin, end in pairwise(ends):
                times_ms = pa.array(self._times_ms[begin:end] + shift_ms)
                some = self._table.slice(begin, end - begin)
                yield some.set_column(0, "timestamp", times_ms), PUSH_S

    def tuples_until(self, until_ms: int) -> int:
        """How many tuples have no later timestamp."""
        turns, rest_ms = divmod(until_ms - self.begin_ms, self._round_ms)
        within = int(np.searchsorted(self._times_ms, rest_ms, "right"))
        return turns * len(self._times_ms) + within


def aircraft(folder: Path, settings: Settings) -> dict[str, float]:
    """Figures of the aircraft example whose every process is killed."""
    found = Restarts()
    cluster_text, rest, replays, ports = _manifests()
    with killed_cluster(folder / "aircraft", cluster_text, rest) as cluster:
        recordings = {name: PlayedRecording(each) for name, each in replays.items()}
        clients = [
            SteadyClient(name, ports[name], each.batches()) for name, each in recordings.items()
        ]

        def due_ms() -> int:
            return min(each.newest["timestamp"][-1].as_py() for each in clients)

        def check() -> None:
            for each in clients:
                each.check()

        begin_ms = max(each.begin_ms for each in recordings.values())
        await_(lambda: _complete_ms(cluster) > begin_ms + 60_000, check)
        # The newest timestamp that a client has sent stays open.
        anew = kill_again(
            cluster, found, settings, due_ms, lambda: _complete_ms(cluster), check, seed=53
        )
        acknowledged = sum(each.end() for each in clients)
        await_(lambda: _complete_ms(cluster) >= due_ms() - 1)
        # Of a recording the column with event times has another name than of a stream.
        sql = folder / "answer.sql"
        sql.write_text((EXAMPLE / "answer.sql").read_text().replace("timestamp", TIMESTAMP))
        verdict = json.loads(
            cluster.vivace("verify", QUERY, "--all", "--json", "--sql", str(sql), fine=(0, 1))
        )
        cluster.down()
    sent = sum(each.tuples_until(verdict["until_ms"]) for each in recordings.values())
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
