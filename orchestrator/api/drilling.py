"""Failure drills: something fails on purpose while every output concerned is watched.

A drill tells its blast radius first, and is refused if something would be lost. An observer then
receives the outputs over the network, as a sink does. Lost and repeated tuples are counted from
their sequence numbers; and where the site of an output keeps an archive on this machine, what it
has kept is compared with what the observer saw, tuple by tuple and value by value.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orchestrator.api import moving
from orchestrator.api.connection import Cluster
from orchestrator.control.clocks import cluster_now_us
from orchestrator.control.view import ClusterView, read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills import disturbances, kill_executor
from orchestrator.drills.acting import Acting, Disturbed
from orchestrator.drills.blast import (
    Blast,
    blast_of_switchover,
    blast_radius,
    planned_recoveries_ms,
)
from orchestrator.drills.disturbances import (
    DISTURBANCES,
    Aim,
    Disturbance,
    aimed_at,
)
from orchestrator.drills.kill_executor import (
    WAYS,
    DrillFailed,
    Inapplicable,
    Killed,
    Moved,
    Way,
    choose_protected,
)
from orchestrator.drills.links import aimed_link, blast_of_link
from orchestrator.drills.processor_use import ProcessorLog, processor_use
from orchestrator.drills.report import DrillReport, for_history, measured
from orchestrator.errors import InvalidInput, Refused
from orchestrator.host.events import Deliver
from orchestrator.host.garbage import set_aside
from orchestrator.host.observer import Observer
from orchestrator.progress import Progress, silent
from orchestrator.records import HistoryEvent
from orchestrator.sinks import DEFAULT, read_back
from orchestrator.sinks.delivered import Delivered
from streams.chunk import stream_schema
from topology.suggestions import nearest

FLOW_TIMEOUT_S = 15.0
"""How long to wait for the outputs to flow before anything fails."""

CALM_S = 1.0
"""Watched before the fault and after everything is restored, so that tuples lost at either edge
would show."""

BREACH_S = 20.0
"""A fault that lasts is ended at once if some output is silent for so long."""

KEPT_TIMEOUT_S = 10.0
"""How long the sites' archives may take to have what the observer saw."""

BEGUN, PASSED, FAILED = "drill begun", "drill passed", "drill failed"
"""Kinds of events in the history."""

AIMS = 3
"""How often a drill takes aim: what it is to hit may move until its outputs are watched."""

DRILLS: Mapping[str, Way | Disturbance] = {**WAYS, **DISTURBANCES}
"""Name → drill, in the order in which all of them are run."""


class DrillDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A drill that can be run."""

    name: str
    what: str


def drills() -> tuple[DrillDocument, ...]:
    """The drills there are."""
    return tuple(DrillDocument(name=each.name, what=each.what) for each in DRILLS.values())


def drill(
    cluster: Cluster,
    name: str,
    target: str | None = None,
    on_progress: Progress = silent,
    *,
    force: bool = False,
    predicted_ms: float | None = None,
) -> DrillReport:
    """Run a drill while watching every output it bears on.

    Parameters
    ----------
    target
        What is hit: a fragment, whose primary it is, or a node; a stream, an output or a site.
        None: the drill chooses.
    force
        Run it although something would be lost.
    predicted_ms
        The recovery that the simulated world has predicted, if it was asked.

    Raises
    ------
    InvalidInput
        There is no such drill.
    Inapplicable
        It does not fit the cluster.
    Refused
        There is no such target, hitting it would lose something, or the outputs do not flow.
    DrillFailed
        Nobody takes over, or redundancy is not restored in time.
    """
    chosen = known(name)
    report: DrillReport | None = None
    for attempt in range(1, AIMS + 1):
        view, blast = aimed(cluster, chosen, target, on_progress)
        on_progress("blast radius", blast.summary)
        if blast.would_lose and not force:
            raise Refused(
                f"drill {name}", "--target", ", ".join(blast.nodes),
                f"would lose {'; '.join(blast.would_lose)}",
                "Run it with --force if that is what you want to see.", {},
            )  # fmt: skip
        try:
            report = _watched(cluster, view, chosen, blast, on_progress)
            break
        except Moved:
            if attempt == AIMS:
                raise
        except DrillFailed as error:
            _note(cluster, FAILED, name, str(error))
            raise
    assert report is not None, "the last attempt has ended otherwise"
    detail = "; ".join(report.failures) or (
        f"recovery {report.recovery_ms:.0f} of {report.bound_ms:.0f} ms, lost 0, repeated 0"
    )
    report = msgspec.structs.replace(report, predicted_ms=predicted_ms)
    _note(cluster, FAILED if report.failures else PASSED, name, detail, report)
    return report


def aimed(
    cluster: Cluster, chosen: Way | Disturbance, target: str | None, on_progress: Progress
) -> tuple[ClusterView, Blast]:
    """What a drill hits, and the store as it is then; raises as `drill` does."""
    store = cluster.store
    if (why := unfit(cluster, read_view(store), chosen)) is not None:
        raise Inapplicable(chosen.name, why)
    if isinstance(chosen, Way):
        nodes = [*choose_protected(store, target, on_progress, chosen).hosts]
        view = read_view(store)
        blast = blast_radius(view, nodes)
        planned_ms = planned_recoveries_ms(view)
        found_ms = [planned_ms[name] for name in blast.primaries if name in planned_ms]
        longest_ms = max(found_ms) if len(found_ms) == len(blast.primaries) > 0 else None
        return view, msgspec.structs.replace(blast, planned_ms=longest_ms)
    if chosen.link is not None:
        named = target is not None and ":" in target
        node = choose_protected(store, None if named else target, on_progress).node
        view = read_view(store)
        link = aimed_link(view, chosen.name, target, node)
        return view, blast_of_link(view, link, chosen.link)
    if chosen.aim is Aim.PRIMARY:
        target = choose_protected(store, target, on_progress).node
    view = read_view(store)
    struck = aimed_at(view, chosen, target)
    if chosen.switches:
        return view, blast_of_switchover(view, struck)
    blast = blast_radius(view, list(filter(None, [struck])))
    if chosen.aim is Aim.EVERYTHING:
        # Each site ends once, and no node before it was drained.
        sites = view.hosts.keys() - view.executors.keys()
        blast = msgspec.structs.replace(blast, would_lose=blast_radius(view, sites).would_lose)
    return view, blast


def unfit(cluster: Cluster, view: ClusterView, chosen: Way | Disturbance) -> str | None:
    """Why a drill does not fit a cluster; None if it does."""
    if isinstance(chosen, Way):
        return chosen.unfit(view)
    return chosen.needs(_cluster_pid(cluster))


def known(name: str) -> Way | Disturbance:
    """The drill of a name.

    Raises
    ------
    InvalidInput
        There is none.
    """
    if name not in DRILLS:
        raise InvalidInput("command line", "NAME", name, "is no drill", nearest(name, DRILLS))
    return DRILLS[name]


def _note(
    cluster: Cluster, kind: str, name: str, detail: str, report: DrillReport | None = None
) -> None:
    """Keep the beginning or the result of a drill in the history."""
    at_us = cluster_now_us(read_view(cluster.store).cluster_clocks)
    told = None if report is None else for_history(report)
    cluster.store.append_history(
        HistoryEvent(at_us=at_us, kind=kind, subject=name, detail=detail, report=told)
    )


@dataclass(frozen=True, slots=True)
class _Mover:
    """Moves replicas by the API."""

    cluster: Cluster

    def switch(self, fragment: str, *, wait: bool = True) -> str:
        """Have primary and secondary change roles; the name of the plan of moves."""
        return self._made(moving.switch(self.cluster, fragment, wait=wait), wait=wait)

    def drain(self, node: str) -> None:
        """Cordon a node and move all replicas away."""
        self._made(moving.drain(self.cluster, node), wait=True)

    def uncordon(self, node: str) -> None:
        """Let a node be used again."""
        moving.uncordon(self.cluster, node)

    def _made(self, moves: moving.MovesDocument, *, wait: bool) -> str:
        if wait and not moves.done:
            problems = [f"{m.fragment}: {m.problem or m.outcome}" for m in moves.moves]
            raise DrillFailed(f"moves have failed: {'; '.join(problems)}")
        return moves.name or ""


class _Watch:
    """All that an observer is delivered of some outputs."""

    def __init__(
        self, observer: Observer, outputs: Sequence[str], read_processors: Callable[[], None]
    ) -> None:
        self.deliveries: dict[str, list[Deliver]] = {stream: [] for stream in outputs}
        self._observer = observer
        self._read_processors = read_processors
        self._heard_s = dict.fromkeys(outputs, time.monotonic())

    def go_on(self, at_most_s: float, until: Callable[[], bool] = lambda: False) -> None:
        """Watch for some time, or until something holds."""
        end = time.monotonic() + at_most_s
        while not until() and (now_s := time.monotonic()) < end:
            for delivery in self._observer.poll(0.1):
                self.deliveries[delivery.stream].append(delivery)
                self._heard_s[delivery.stream] = now_s
            self._read_processors()

    @property
    def silent_s(self) -> float:
        """How long the output that has been silent longest has been so."""
        return time.monotonic() - min(self._heard_s.values())

    def await_flow(self, name: str) -> None:
        """Watch until something has come of each output; without that, a drill is refused."""
        self.go_on(FLOW_TIMEOUT_S, lambda: all(self.deliveries.values()))
        if waiting := [stream for stream, seen in self.deliveries.items() if not seen]:
            raise Refused(
                f"drill {name}", "outputs", ", ".join(waiting),
                f"no result came within {FLOW_TIMEOUT_S:.0f} s",
                "A drill needs streams that flow: replay again, or have clients send.", {},
            )  # fmt: skip


def _watched(
    cluster: Cluster,
    view: ClusterView,
    chosen: Way | Disturbance,
    blast: Blast,
    on_progress: Progress,
) -> DrillReport:
    """Have a drill's fault strike while every output that depends on it is watched."""
    outputs = list(blast.outputs)
    breach, processors = threading.Event(), ProcessorLog(_cluster_pid(cluster))

    def read_processors() -> None:
        processors.read(cluster_now_us(view.cluster_clocks))

    def act() -> Killed | Disturbed:
        node = next(iter(blast.nodes), "")
        if isinstance(chosen, Way):
            primaries = bool(blast.primaries)
            return kill_executor.run(
                cluster.store, node, on_progress, chosen, strikes_primaries=primaries
            )
        pid = _cluster_pid(cluster)
        acting = Acting(
            view=view,
            node=node,
            cluster_pid=pid,
            breach=breach,
            store=cluster.store,
            mover=_Mover(cluster),
            on_progress=on_progress,
            links=blast.links,
        )
        return disturbances.run(chosen, acting)

    with (
        set_aside(),
        Observer(cluster.reach, outputs, region_of(view, outputs)) as observer,
        ThreadPoolExecutor(1, thread_name_prefix="drill") as pool,
    ):
        on_progress("watch", f"outputs {', '.join(outputs)}")
        watch = _Watch(observer, outputs, read_processors)
        watch.await_flow(chosen.name)
        _note(cluster, BEGUN, chosen.name, blast.summary)
        watch.go_on(CALM_S)
        acted = pool.submit(act)
        while not acted.done():
            watch.go_on(CALM_S, acted.done)
            if watch.silent_s > BREACH_S:
                breach.set()
        found = acted.result()
        watch.go_on(CALM_S)
    columns = view.dataflow.columns
    delivered = {
        stream: Delivered.from_deliveries(each, stream_schema(dict(columns[stream])))
        for stream, each in watch.deliveries.items()
    }
    kept = _kept_of(cluster, view, delivered)
    events = [entry.event for entry in cluster.store.history()]
    report = measured(chosen, view, blast, found, delivered, kept, events)
    hosts = read_view(cluster.store).hosts.values()
    return msgspec.structs.replace(
        report,
        aborted=breach.is_set(),
        late_ms=max((host.lag_ms for host in hosts), default=None),
        processors=processor_use(processors.readings, report.resumed_us, report.recovery_ms),
    )


def _kept_of(
    cluster: Cluster, view: ClusterView, delivered: Mapping[str, Delivered]
) -> dict[str, Delivered]:
    """Output → what its archive has kept, as far as an observer was delivered of it.

    Outputs whose archives are not on this machine are left out.
    """
    sinks = {s: spec for q in view.query_records.values() for s, spec in q.sinks.items()}
    found: dict[str, Delivered] = {}
    for stream, observed in delivered.items():
        if sinks.get(stream, DEFAULT).driver != DEFAULT.driver:
            continue
        kept = _kept(cluster, stream, int(observed.completed_column("watermark_ms")[-1]))
        if kept is not None:
            found[stream] = kept
    return found


def _kept(cluster: Cluster, stream: str, until_ms: int) -> Delivered | None:
    """What the archive of an output has kept, once that reaches a timestamp; None without one.

    Raises
    ------
    DrillFailed
        The site keeps nothing more.
    """
    folder = _archive(cluster)
    if folder is None:
        return None
    give_up = time.monotonic() + KEPT_TIMEOUT_S
    while time.monotonic() < give_up:
        with suppress(FileNotFoundError):
            kept = read_back(folder, stream)
            ends_ms = kept.completed_column("watermark_ms")
            if len(ends_ms) and ends_ms[-1] >= until_ms:
                return kept
        time.sleep(0.2)
    raise DrillFailed(
        f"the archive of {stream} has not come as far as an observer within {KEPT_TIMEOUT_S:.0f} s"
    )


def _archive(cluster: Cluster) -> Path | None:
    reach = cluster.reach
    folder = reach.archive if isinstance(reach, ClusterContext) else None
    return folder if folder is not None and folder.is_dir() else None


def _cluster_pid(cluster: Cluster) -> int:
    """The process that runs the cluster: another one, or this one."""
    return cluster.reach.pid if isinstance(cluster.reach, ClusterContext) else os.getpid()


def region_of(view: ClusterView, outputs: list[str]) -> str:
    """Region of the site where the first output is delivered: the drill observes from there."""
    sites = [q.outputs[outputs[0]] for q in view.query_records.values() if outputs[0] in q.outputs]
    return next((view.nodes[site].record.region for site in sites if site in view.nodes), "")
