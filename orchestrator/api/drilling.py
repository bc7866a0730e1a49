"""Failure drills: kill something on purpose, and measure the failover."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.view import ClusterView, read_view
from orchestrator.drills import kill_executor
from orchestrator.drills.kill_executor import DrillFailed, choose_protected
from orchestrator.drills.measurement import Failover, failover
from orchestrator.errors import InvalidInput
from orchestrator.host.events import Deliver
from orchestrator.host.observer import Observer
from orchestrator.progress import Progress, silent
from orchestrator.sinks.delivered import Delivered
from streams.chunk import stream_schema
from topology.suggestions import nearest

FLOW_TIMEOUT_S = 15.0
"""How long to wait for the outputs to flow before anything is killed."""

CALM_S = 1.0
"""Watched before the kill and after everything is restored, so that tuples lost at either edge
would show."""


class DrillReport(Failover, frozen=True, kw_only=True):
    """The consequences of a drill, as its observer measured them.

    Attributes
    ----------
    fragments
        Those whose primary was killed.
    causes
        How the secondaries noticed.
    outputs
        Watched streams.
    tuples
        Of all watched outputs, while the drill ran.
    """

    drill: str
    fragments: tuple[str, ...]
    causes: tuple[str, ...]
    outputs: tuple[str, ...]
    tuples: int


class DrillDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A drill that can be run."""

    name: str
    what: str


def drills() -> tuple[DrillDocument, ...]:
    """The drills there are."""
    what = (kill_executor.__doc__ or "").split("\n", 1)[0].split(": ", 1)[-1]
    return (DrillDocument(name=kill_executor.NAME, what=what),)


def drill(
    cluster: Cluster, name: str, target: str | None = None, on_progress: Progress = silent
) -> DrillReport:
    """Run a drill while watching every output it bears on.

    Parameters
    ----------
    target
        A fragment, whose primary is hit, or a node; None: the drill chooses.

    Raises
    ------
    InvalidInput
        There is no such drill.
    Refused
        There is no such target, or hitting it would lose state.
    DrillFailed
        The outputs do not flow, nobody takes over, or redundancy is not restored in time.
    """
    if name not in DRILLS:
        raise InvalidInput("command line", "NAME", name, "is no drill", nearest(name, DRILLS))
    return DRILLS[name](cluster, target, on_progress)


def _kill_executor(cluster: Cluster, target: str | None, on_progress: Progress) -> DrillReport:
    """Kill the executor of a fragment's primary while watching every output that depends on it."""
    chosen = choose_protected(cluster.store, target, on_progress)
    view = read_view(cluster.store)
    outputs = _outputs(view, chosen.fragments)
    deliveries: dict[str, list[Deliver]] = {stream: [] for stream in outputs}

    def watch(at_most_s: float, until: Callable[[], bool] = lambda: False) -> None:
        end = time.monotonic() + at_most_s
        while not until() and time.monotonic() < end:
            for delivery in observer.poll(0.1):
                deliveries[delivery.stream].append(delivery)

    with (
        Observer(cluster.reach, outputs, _region(view, outputs)) as observer,
        ThreadPoolExecutor(1, thread_name_prefix="drill") as pool,
    ):
        on_progress("watch", f"outputs {', '.join(outputs)}")
        watch(FLOW_TIMEOUT_S, lambda: all(deliveries.values()))
        if waiting := [stream for stream, seen in deliveries.items() if not seen]:
            raise DrillFailed(
                f"no result of {', '.join(waiting)} came within {FLOW_TIMEOUT_S:.0f} s: "
                "a drill needs streams that flow; has the replay ended?"
            )
        watch(CALM_S)
        killing = pool.submit(kill_executor.run, cluster.store, chosen.node, on_progress)
        watch(float("inf"), killing.done)
        killed = killing.result()
        watch(CALM_S)
    columns = view.dataflow.columns
    delivered = [
        Delivered.from_deliveries(each, stream_schema(dict(columns[stream])))
        for stream, each in deliveries.items()
    ]
    return DrillReport(
        drill=kill_executor.NAME,
        fragments=killed.target.fragments,
        causes=tuple(sorted(set(killed.causes))),
        outputs=tuple(outputs),
        tuples=sum(one.rows.num_rows for one in delivered),
        **msgspec.structs.asdict(failover(killed, delivered)),
    )


DRILLS = {kill_executor.NAME: _kill_executor}
"""Name → drill."""


def _outputs(view: ClusterView, fragments: tuple[str, ...]) -> list[str]:
    """Outputs of the queries whose fragments are hit, or of all queries if none is."""
    hit = {view.fragments[name].record.query for name in fragments} or set(view.queries)
    return [s for q in sorted(hit) for s in view.query_records[q].outputs]


def _region(view: ClusterView, outputs: list[str]) -> str:
    """Region of the site where the first output is delivered: the drill observes from there."""
    sites = [q.outputs[outputs[0]] for q in view.query_records.values() if outputs[0] in q.outputs]
    return next((view.nodes[site].record.region for site in sites if site in view.nodes), "")
