"""The main job, once and whole: replay an example, kill a primary, check the results.

The demo starts a cluster, applies the example's streams and query, and plays the recordings once.
Meanwhile it kills the executor that runs a join's primary. Afterwards it measures the archived
outputs, and has Spark SQL recompute the results from the recordings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from pyarrow import parquet

from orchestrator.api.applying import apply
from orchestrator.api.connection import Cluster
from orchestrator.api.mapping import coordinate_map
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.drills.acting import DrillFailed
from orchestrator.drills.disturbances import fail_primary
from orchestrator.drills.kill_executor import Killed
from orchestrator.drills.measurement import failover
from orchestrator.drills.processor_use import ProcessorLog, processor_use
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.edges.sources import played, recorded
from orchestrator.edges.sources.driver import RecordedSource
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, Manifests, StreamManifest, load
from orchestrator.progress import Progress
from orchestrator.records import PlanDocument, QueryRecord
from orchestrator.results.coordinate_map import CoordinateMap
from orchestrator.results.drill_report import FailoverFigures
from orchestrator.store.protocol import NODES, Store

ANSWER = "answer.sql"
"""In the example's folder: recomputes every output of its query in Spark SQL."""

VERIFICATION_MB = 1536
"""Heap of the Spark application that recomputes the results."""

KILL_AT = 0.4
"""Share of the recording after which the executor is killed: while all streams flow, and early
enough for redundancy to be restored before the end."""

MISSES_ALLOWED = 0.01
"""Deadline-miss ratio up to which the demo counts as passed. One machine plays six executors and
three sites, and starts a Java process meanwhile, so single results may be late."""

STALLED_S = 60.0
"""The demo fails if the outputs have not moved for so long."""

LOOK_S = 0.2


class Verdict(FailoverFigures, frozen=True, kw_only=True):
    """The outcome of the demo.

    Attributes
    ----------
    verified
        Whether Spark SQL computes exactly the delivered outputs from the recordings.
    latency_ms_p50, latency_ms_p99, deadline_miss_ratio
        Over the completed timestamps of all outputs.
    input_waited_ms
        By how much the sources' time axes have slipped, because consumers could not follow: the
        most of all streams. No latency contains it.
    alerts
        Tuples of the first output.
    outputs
        Output → its tuples.
    differences
        Outputs that differ from Spark SQL's, each in a sentence.
    """

    verified: bool
    latency_ms_p50: float
    latency_ms_p99: float
    deadline_miss_ratio: float
    deadline_ms: float
    input_waited_ms: float
    alerts: int
    input_rows: int
    outputs: dict[str, int]
    differences: tuple[str, ...]

    @property
    def failures(self) -> tuple[str, ...]:
        """Promises that were not kept; empty if all were."""
        differ = () if self.verified else ("the results differ from Spark SQL's",)
        late = f"{self.deadline_miss_ratio:.2%} of the completed timestamps missed the deadline"
        misses = (late,) if self.deadline_miss_ratio > MISSES_ALLOWED else ()
        waited = f"the input waited for {self.input_waited_ms:.0f} ms"
        slips = (waited,) if self.input_waited_ms > self.deadline_ms else ()
        return (*differ, *super().failures, *misses, *slips)

    @property
    def machine_told(self) -> str | None:
        """Whether this machine may be why promises were not kept; None if all were."""
        told = super().machine_told
        use = self.processors
        if told is not None or use is None or not self.failures:
            return told
        told = f"During the replay, processors were used to {use.used:.0f} %"
        if use.in_silence is not None:
            told += f", to {use.in_silence:.0f} % while output was silent"
        if use.full or use.short:
            return f"{told}: the machine was too busy, or is too small for this."
        return f"{told}: the machine had time, so it is not to blame."


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
        """Read a folder.

        Raises
        ------
        InvalidInput
            If it does not hold a cluster, one query, and streams with recordings.
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
    def query(self) -> QueryRecord:
        """Its one query."""
        return self.manifests.queries[0].record

    @property
    def begin_ms(self) -> int:
        """First timestamp of the recordings."""
        return min(each.begin_ms for each in self.recordings.values())

    @property
    def end_ms(self) -> int:
        """Last timestamp of the recordings."""
        return max(each.end_ms for each in self.recordings.values())


class Demo:
    """One run.

    Parameters
    ----------
    on_step
        Told each step.
    on_plan
        Given the plan and the map, once everything runs.
    on_replay
        Told the share of the recordings whose results have been delivered, 0 … 1.
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
        """Run the demo in a folder of its own; everything that it started has ended on return."""
        example = self._example
        with LocalCluster(example.cluster, work, on_progress=self._on_step) as cluster:
            store = cluster.store
            connected = Cluster(cluster.config, store)
            applied = apply(connected, example.manifests, on_progress=self._on_step)
            self._on_plan(applied.plan, coordinate_map(connected, applied.plan))
            processors = ProcessorLog(os.getpid())
            with ThreadPoolExecutor(1, thread_name_prefix="drill") as drill:
                killed = self._replay(store, drill, processors)
            waited_ms = input_waited_ms(store)
            delivered = {
                stream: self._archived(cluster, stream) for stream in example.query.outputs
            }
            self._on_step("verify", "ending the hosts, whose processors Spark SQL needs")
            cluster.stop_hosts()
            self._on_step("verify", "recomputing the results in Spark SQL")
            differences = self._differences(cluster.folder / "verification", delivered)
        return self._verdict(delivered, killed, differences, waited_ms, processors)

    def _replay(self, store: Store, drill: ThreadPoolExecutor, processors: ProcessorLog) -> Killed:
        """Watch the replay and the processors, and have an executor killed meanwhile."""
        clocks = read_view(store).cluster_clocks
        killing: Future[Killed] | None = None
        share, moved_at = 0.0, time.monotonic()
        while share < 1.0 or killing is None:
            processors.read(cluster_now_us(clocks))
            now = self._share(store)
            if now > share:
                share, moved_at = now, time.monotonic()
                self._on_replay(share)
            if killing is None and share >= KILL_AT:
                killing = drill.submit(fail_primary, store, None, self._on_step, by="the demo")
            if time.monotonic() - moved_at > STALLED_S:
                raise DrillFailed(
                    f"the outputs have not moved for {STALLED_S:.0f} s at {share:.0%}"
                )
            time.sleep(LOOK_S)
        return killing.result()

    def _share(self, store: Store) -> float:
        """The share of the recordings whose results have been delivered at every output."""
        example = self._example
        progress: list[int] = []
        for stream, site in example.query.outputs.items():
            found = store.get(NODES.key(site))
            sinks = {} if found is None else found.record.sinks
            at_ms = sinks[stream].watermark_ms if stream in sinks else None
            progress.append(example.begin_ms if at_ms is None else at_ms)
        return (min(progress) - example.begin_ms) / (example.end_ms - example.begin_ms)

    def _archived(self, cluster: LocalCluster, stream: str) -> Delivered:
        """The deliveries of an output, once they are archived up to the end."""
        give_up = time.monotonic() + STALLED_S
        while True:
            delivered = read_back(cluster.archive, stream, self._example.query.sinks.get(stream))
            if int(delivered.completed_column("watermark_ms").max()) >= self._example.end_ms:
                return delivered
            if time.monotonic() > give_up:
                raise DrillFailed(f"the sink of {stream} has not kept all of it")
            time.sleep(LOOK_S)

    def _differences(self, work: Path, delivered: Mapping[str, Delivered]) -> tuple[str, ...]:
        """How the results differ from those of Spark SQL, in an application of its own."""
        # Importing Spark takes a second, which nobody else of this module should wait for.
        from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session
        from orchestrator.spark.verify.verification import verify

        example = self._example
        session = start_session(
            SessionSettings(
                name="vivace-verification",
                work_dir=work,
                executors=1,
                driver_memory_mb=VERIFICATION_MB,
                master="local[*]",
            )
        )
        try:
            found = verify(
                session,
                example.answer,
                {stream: each.recording for stream, each in example.recordings.items()},
                {
                    stream: one.rows.drop_columns([GENERATION, SEQUENCE])
                    for stream, one in delivered.items()
                },
                through_ms=dict.fromkeys(delivered, example.end_ms),
                file=str(example.folder / ANSWER),
            )
        finally:
            stop_session(session)
        return tuple(
            f"{check.output}: {check.missing} of {check.expected} rows are missing "
            f"(first {check.first_missing}), {check.unexpected} should not be there "
            f"(first {check.first_unexpected})"
            for check in found
            if not check.equal
        )

    def _verdict(
        self,
        delivered: Mapping[str, Delivered],
        killed: Killed,
        differences: tuple[str, ...],
        waited_ms: float,
        processors: ProcessorLog,
    ) -> Verdict:
        latencies_ms = np.concatenate([one.latencies_ms for one in delivered.values()])
        p50, p99 = (float(v) for v in np.percentile(latencies_ms, [50, 99]))
        rows = {stream: one.rows.num_rows for stream, one in delivered.items()}
        deadline_ms = self._example.query.deadline_ms
        suffered = failover(killed, delivered.values())
        suffered = msgspec.structs.replace(
            suffered,
            processors=processor_use(
                processors.readings, suffered.resumed_us, suffered.recovery_ms
            ),
        )
        recordings = [each.recording for each in self._example.recordings.values()]
        return Verdict(
            verified=not differences,
            latency_ms_p50=p50,
            latency_ms_p99=p99,
            deadline_miss_ratio=float(np.mean(latencies_ms > deadline_ms)),
            deadline_ms=deadline_ms,
            input_waited_ms=waited_ms,
            alerts=next(iter(rows.values())),
            input_rows=sum(parquet.ParquetFile(each).metadata.num_rows for each in recordings),
            outputs=rows,
            differences=differences,
            **msgspec.structs.asdict(suffered),
        )


def input_waited_ms(store: Store) -> float:
    """By how much the time axis of some stream has slipped, ms."""
    nodes = read_view(store).nodes.values()
    sources = [source for found in nodes for source in found.record.sources.values()]
    return max((source.slipped_ms for source in sources), default=0.0)
