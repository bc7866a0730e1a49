"""A drill, watched from outside: kill, measure at the outputs, judge."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pyarrow as pa

from orchestrator.control.view import ClusterView, read_view
from orchestrator.drills import kill_executor
from orchestrator.drills.kill_executor import DrillFailed, Killed, choose_protected, outage
from orchestrator.drills.measurement import sequence_faults
from orchestrator.host.events import Deliver
from orchestrator.host.observer import Observer, Reach
from orchestrator.progress import Progress
from orchestrator.sinks.delivered import Delivered
from orchestrator.store.protocol import Store
from streams.chunk import stream_schema

FLOW_TIMEOUT_S = 15.0
"""How long to wait for the outputs to flow before anything is killed."""

CALM_S = 1.0
"""Watched before the kill and after everything is restored, so that what is lost at either edge
would show."""


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a drill, as its observer measured it.

    Attributes
    ----------
    lost, repeated
        Tuples of all watched outputs, from their sequence numbers, while the drill ran.
    outputs
        Watched streams.
    """

    drill: str
    killed_node: str
    fragments: tuple[str, ...]
    causes: tuple[str, ...]
    outputs: tuple[str, ...]
    detection_ms: float
    recovery_ms: float
    gap_ms: float
    bound_ms: float
    lost: int
    repeated: int
    tuples: int
    completed_timestamps: int
    redundancy_restored_s: float

    @property
    def failures(self) -> tuple[str, ...]:
        """What did not hold."""
        late = f"recovery took {self.recovery_ms:.0f} ms, the bound is {self.bound_ms:.0f} ms"
        checks = {
            f"{self.lost} tuples were lost": self.lost > 0,
            f"{self.repeated} tuples came twice": self.repeated > 0,
            late: self.recovery_ms > self.bound_ms,
        }
        return tuple(failure for failure, failed in checks.items() if failed)


def run_kill_executor(
    store: Store, reach: Reach, target: str | None, on_progress: Progress
) -> DrillReport:
    """Kill the executor of a fragment's primary while watching every output it bears on.

    Raises
    ------
    Refused
        There is no such target, or killing it would lose state.
    DrillFailed
        The outputs do not flow, nobody takes over, or redundancy is not restored in time.
    """
    chosen = choose_protected(store, target, on_progress)
    view = read_view(store)
    outputs = _outputs(view, chosen.fragments)
    deliveries: dict[str, list[Deliver]] = {stream: [] for stream in outputs}
    with (
        Observer(reach, outputs, _region(view, outputs)) as observer,
        ThreadPoolExecutor(1, thread_name_prefix="drill") as pool,
    ):
        on_progress("watch", f"outputs {', '.join(outputs)}")
        _watch(observer, deliveries, FLOW_TIMEOUT_S, lambda: all(deliveries.values()))
        if not all(deliveries.values()):
            silent = [stream for stream, seen in deliveries.items() if not seen]
            raise DrillFailed(
                f"no answer of {', '.join(silent)} came within {FLOW_TIMEOUT_S:.0f} s: "
                "a drill needs streams that flow; has the replay ended?"
            )
        _watch(observer, deliveries, CALM_S)
        killing = pool.submit(kill_executor.run, store, chosen.node, on_progress)
        _watch(observer, deliveries, None, killing.done)
        killed = killing.result()
        _watch(observer, deliveries, CALM_S)
    columns = view.dataflow.columns
    schemas = {stream: stream_schema(dict(columns[stream])) for stream in outputs}
    return _report(killed, deliveries, schemas)


def _outputs(view: ClusterView, fragments: tuple[str, ...]) -> list[str]:
    """Outputs of the queries whose fragments are hit, or of all if none is."""
    hit = {view.fragments[name].record.query for name in fragments} or set(view.queries)
    return [s for q in sorted(hit) for s in view.query_records[q].outputs]


def _region(view: ClusterView, outputs: list[str]) -> str:
    """Where the first output is delivered: the drill watches from there."""
    for query in view.query_records.values():
        site = query.outputs.get(outputs[0])
        if site is not None and site in view.nodes:
            return view.nodes[site].record.region
    return ""


def _watch(
    observer: Observer,
    deliveries: dict[str, list[Deliver]],
    at_most_s: float | None,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Take in deliveries for a time, or until a condition holds."""
    end = time.monotonic() + at_most_s if at_most_s is not None else float("inf")
    while not until() and time.monotonic() < end:
        for delivery in observer.poll(0.1):
            deliveries[delivery.stream].append(delivery)


def _report(
    killed: Killed, deliveries: dict[str, list[Deliver]], schemas: dict[str, pa.Schema]
) -> DrillReport:
    delivered = [Delivered.from_deliveries(d, schemas[s]) for s, d in deliveries.items()]
    suffered = outage(killed, delivered)
    faults = [sequence_faults(one) for one in delivered]
    return DrillReport(
        drill=kill_executor.NAME,
        killed_node=killed.target.node,
        fragments=killed.target.fragments,
        causes=tuple(sorted(set(killed.causes))),
        outputs=tuple(deliveries),
        detection_ms=killed.detection_ms,
        recovery_ms=suffered.recovery_ms,
        gap_ms=suffered.gap_ms,
        bound_ms=killed.target.bound_ms,
        lost=sum(fault.lost for fault in faults),
        repeated=sum(fault.repeated for fault in faults),
        tuples=sum(one.rows.num_rows for one in delivered),
        completed_timestamps=sum(one.completed_timestamps.num_rows for one in delivered),
        redundancy_restored_s=killed.redundancy_restored_s,
    )
