"""The main job, once and whole: replay an example, kill a primary, check the answer.

A cluster is started, the example's streams and query are applied, the recording is replayed in
one pass; on the way the executor that runs a join's primary is killed. Afterwards everything is
judged from what the sites were delivered, and the answer is recomputed by Spark SQL.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator.api.applying import apply
from orchestrator.api.connection import Cluster
from orchestrator.api.mapping import CoordinateMap, coordinate_map
from orchestrator.api.plans import PlanDocument
from orchestrator.control.view import read_view
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.drills import kill_executor
from orchestrator.drills.kill_executor import DrillFailed, Killed, outage
from orchestrator.drills.measurement import sequence_faults
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, Manifests, StreamManifest, load
from orchestrator.progress import Progress
from orchestrator.sinks import read_back
from orchestrator.sinks.delivered import SEQUENCE, Delivered
from orchestrator.sources import played, recorded
from orchestrator.sources.driver import RecordedSource
from orchestrator.store.protocol import Store

ANSWER = "answer.sql"
"""In the example's folder: recomputes every output of its query in Spark SQL."""

KILL_AT = 0.4
"""Share of the recording after which the executor is killed: in the thick of it, and early
enough for redundancy to be restored before the end."""

MISSES_ALLOWED = 0.01
"""Deadline-miss ratio up to which the demo counts as passed. The machine that plays six others,
and starts a Java process in the middle of it, may be late now and then."""

STALLED_S = 60.0
"""Without progress for so long, the replay is given up."""

LOOK_S = 0.2


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the demo; see `docs/measurements.md` for how each figure is taken.

    Attributes
    ----------
    verified
        Whether Spark SQL computes exactly the delivered outputs from the archived input.
    lost, repeated
        Tuples, from the sequence numbers delivered.
    latency_ms_p50, latency_ms_p99, deadline_miss_ratio
        Of all answers: closed instants of each output.
    detection_ms
        From the kill until the slowest secondary noticed.
    recovery_ms
        From the kill until output had resumed.
    gap_ms
        The longest silence of an output in the seconds after the kill.
    """

    verified: bool
    lost: int
    repeated: int
    latency_ms_p50: float
    latency_ms_p99: float
    deadline_miss_ratio: float
    detection_ms: float
    recovery_ms: float
    gap_ms: float
    bound_ms: float
    deadline_ms: float
    alerts: int
    input_rows: int
    completed_timestamps: int
    redundancy_restored_s: float
    killed_node: str
    outputs: dict[str, int]
    differences: tuple[str, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """What does not hold of all that was promised; empty if everything does."""
        checks = {
            "the answer differs from Spark SQL's": not self.verified,
            f"{self.lost} tuples were lost": self.lost > 0,
            f"{self.repeated} tuples came twice": self.repeated > 0,
            f"recovery took {self.recovery_ms:.0f} ms, the bound is {self.bound_ms:.0f} ms": (
                self.recovery_ms > self.bound_ms
            ),
            f"{self.deadline_miss_ratio:.2%} of the answers missed the deadline": (
                self.deadline_miss_ratio > MISSES_ALLOWED
            ),
        }
        return tuple(failure for failure, failed in checks.items() if failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example's folder, read and made fit for one pass.

    Attributes
    ----------
    recordings
        Stream → its source.
    """

    cluster: ClusterManifest
    manifests: Manifests
    recordings: Mapping[str, RecordedSource]
    answer: str
    folder: Path

    @staticmethod
    def load(folder: Path, speed: float | None) -> Example:
        """Read it.

        Raises
        ------
        InvalidInput
            If it is not an example: a cluster, one query, replayed streams and `answer.sql`.
        """
        manifests = load([folder])
        if manifests.cluster is None or len(manifests.queries) != 1:
            raise InvalidInput(
                str(folder), "", None, "does not hold one Cluster and one Query",
                "Name an example's folder, such as examples/aircraft.",
            )  # fmt: skip
        streams: list[StreamManifest] = []
        recordings: dict[str, RecordedSource] = {}
        for stream in manifests.streams:
            found = recorded(stream.record)
            if found is None:
                raise InvalidInput(
                    stream.file, f"Stream {stream.record.name}: from", None, "is no recording",
                    "The demo plays recordings of all streams of an example.",
                )  # fmt: skip
            if not found.recording.exists():
                raise InvalidInput(
                    stream.file, f"Stream {stream.record.name}: from", str(found.recording),
                    "does not exist", "`make data` fetches the examples' input.",
                )  # fmt: skip
            recordings[stream.record.name] = found
            record = played(stream.record, repeat=False, speed=speed or found.speed)
            streams.append(msgspec.structs.replace(stream, record=record))
        return Example(
            cluster=manifests.cluster,
            manifests=msgspec.structs.replace(manifests, streams=tuple(streams)),
            recordings=recordings,
            answer=(folder / ANSWER).read_text(encoding="utf-8"),
            folder=folder,
        )

    @property
    def outputs(self) -> dict[str, str]:
        """Output stream → site."""
        return self.manifests.queries[0].record.outputs

    @property
    def begin_ms(self) -> int:
        """First instant of the recording."""
        return min(each.begin_ms for each in self.recordings.values())

    @property
    def end_ms(self) -> int:
        """Last instant of the recording."""
        return max(each.end_ms for each in self.recordings.values())


class Demo:
    """One run.

    Parameters
    ----------
    on_step
        Told what is under way.
    on_plan
        Shown what runs where, once everything runs.
    on_replay
        Told the share of the recording that is answered, 0 … 1.
    """

    def __init__(
        self,
        example: Example,
        *,
        on_step: Progress,
        on_plan: Callable[[PlanDocument, CoordinateMap], None],
        on_replay: Callable[[float], None],
    ) -> None:
        self._example = example
        self._on_step = on_step
        self._on_plan = on_plan
        self._on_replay = on_replay

    def run(self, work: Path) -> Verdict:
        """Do it all in a folder of one's own; everything started has ended on return."""
        example = self._example
        with LocalCluster(example.cluster, work, on_progress=self._on_step) as cluster:
            store = cluster.store
            connected = Cluster(cluster.config, store)
            applied = apply(connected, example.manifests, on_progress=self._on_step)
            self._on_plan(applied.plan, coordinate_map(connected, applied.plan))
            with ThreadPoolExecutor(1, thread_name_prefix="drill") as drill:
                killed = self._replay(store, drill)
            delivered = {stream: self._archived(cluster, stream) for stream in example.outputs}
            self._on_step("verify", "ending the hosts, whose executors Spark SQL needs")
            cluster.stop_hosts()
            self._on_step("verify", "recomputing the answer in Spark SQL")
            differences = self._differences(cluster, delivered)
        return self._verdict(delivered, killed, differences)

    def _replay(self, store: Store, drill: ThreadPoolExecutor) -> Killed:
        """Watch the replay, and have an executor killed on the way."""
        killing: Future[Killed] | None = None
        share, moved_at = 0.0, time.monotonic()
        while share < 1.0 or killing is None:
            now = self._share(store)
            if now > share:
                share, moved_at = now, time.monotonic()
                self._on_replay(share)
            if killing is None and share >= KILL_AT:
                killing = drill.submit(kill_executor.run, store, None, self._on_step)
            if time.monotonic() - moved_at > STALLED_S:
                raise DrillFailed(
                    f"the outputs have not moved for {STALLED_S:.0f} s at {share:.0%}"
                )
            time.sleep(LOOK_S)
        return killing.result()

    def _share(self, store: Store) -> float:
        """How much of the recording has been answered by every output."""
        nodes = read_view(store).nodes
        example = self._example
        progress: list[int] = []
        for stream, site in example.outputs.items():
            sinks = nodes[site].record.sinks if site in nodes else {}
            at_ms = sinks[stream].watermark_ms if stream in sinks else None
            progress.append(example.begin_ms if at_ms is None else at_ms)
        return (min(progress) - example.begin_ms) / (example.end_ms - example.begin_ms)

    def _archived(self, cluster: LocalCluster, stream: str) -> Delivered:
        """What the site was delivered, once its files are up to the end."""
        give_up = time.monotonic() + STALLED_S
        while True:
            delivered = read_back(cluster.archive, stream)
            if int(delivered.completed_column("watermark_ms").max()) >= self._example.end_ms:
                return delivered
            if time.monotonic() > give_up:
                raise DrillFailed(f"the archive of {stream} is not complete")
            time.sleep(LOOK_S)

    def _differences(
        self, cluster: LocalCluster, delivered: Mapping[str, Delivered]
    ) -> tuple[str, ...]:
        # Spark is imported by who runs it only: that takes a second.
        from orchestrator.spark.jobs.verification import verify

        example = self._example
        found = verify(
            cluster.session,
            example.answer,
            {stream: each.recording for stream, each in example.recordings.items()},
            {stream: _plain(one.rows) for stream, one in delivered.items()},
            through_ms=dict.fromkeys(delivered, example.end_ms),
            file=str(example.folder / ANSWER),
        )
        return tuple(
            f"{check.output}: {check.missing} of {check.expected} rows are missing "
            f"(first {check.first_missing}), {check.unexpected} should not be there "
            f"(first {check.first_unexpected})"
            for check in found.outputs
            if not check.equal
        )

    def _verdict(
        self, delivered: Mapping[str, Delivered], killed: Killed, differences: tuple[str, ...]
    ) -> Verdict:
        query = self._example.manifests.queries[0].record
        latencies_ms = np.concatenate([one.latencies_ms for one in delivered.values()])
        faults = [sequence_faults(one) for one in delivered.values()]
        suffered = outage(killed, delivered.values())
        p50, p99 = (float(v) for v in np.percentile(latencies_ms, [50, 99]))
        rows = {stream: one.rows.num_rows for stream, one in delivered.items()}
        return Verdict(
            verified=not differences,
            lost=sum(fault.lost for fault in faults),
            repeated=sum(fault.repeated for fault in faults),
            latency_ms_p50=p50,
            latency_ms_p99=p99,
            deadline_miss_ratio=float(np.mean(latencies_ms > query.deadline_ms)),
            detection_ms=killed.detection_ms,
            recovery_ms=suffered.recovery_ms,
            gap_ms=suffered.gap_ms,
            bound_ms=query.recovery_bound_ms,
            deadline_ms=query.deadline_ms,
            alerts=rows[next(iter(rows))],
            input_rows=sum(
                parquet.ParquetFile(each.recording).metadata.num_rows
                for each in self._example.recordings.values()
            ),
            completed_timestamps=len(latencies_ms),
            redundancy_restored_s=killed.redundancy_restored_s,
            killed_node=killed.target.node,
            outputs=rows,
            differences=differences,
        )


def _plain(rows: pa.Table) -> pa.Table:
    """Delivered tuples without their sequence numbers."""
    return rows.select([name for name in rows.column_names if name != SEQUENCE])
