"""Failure drills: something fails on purpose while every output concerned is watched.

A drill tells its blast radius first, and is refused if something would be lost. An observer then
receives the outputs over the network, as a sink does. Lost and repeated tuples are counted from
their sequence numbers; and where the site of an output keeps an archive on this machine, what it
has kept is compared with what the observer saw, tuple by tuple and value by value.
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from foundation.suggestions import nearest
from orchestrator.api import moving
from orchestrator.api.aiming import Moved, aimed, cluster_pid, still_aimed
from orchestrator.api.connection import LOCAL, Cluster
from orchestrator.api.observer import Observer
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills import disturbances
from orchestrator.drills.acting import CORDON_S, Acting, Disturbed, DrillFailed, Inapplicable
from orchestrator.drills.disturbances import DRILLS
from orchestrator.drills.drill import Drill
from orchestrator.drills.kill_executor import Killed
from orchestrator.drills.processor_use import ProcessorLog, processor_use
from orchestrator.drills.report import for_history, measured, over_links
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks import DEFAULT, read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.errors import Cancelled, InvalidInput, Refused
from orchestrator.host.shell.garbage import set_aside
from orchestrator.progress import Progress, silent
from orchestrator.records import HistoryEvent
from orchestrator.results.drill_report import Blast, DrillReport
from orchestrator.results.drills import DrillDocument
from streams.vectors.chunk import stream_schema

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
        It does not fit the cluster, or nobody could see what it does.
    Refused
        There is no such target, hitting it would lose something, or the outputs do not flow.
        `Moved`: what is aimed at moves again and again.
    DrillFailed
        Nobody takes over, or redundancy is not restored in time.
    """
    chosen = known(name)

    def attempt() -> DrillReport:
        view, blast = aimed(cluster, chosen, target, on_progress)
        on_progress("blast radius", blast.summary)
        if unseen := [s for s in over_links(view, blast) if not _is_archived(cluster, view, s)]:
            raise Inapplicable(
                name,
                f"only an archive of {', '.join(unseen)} would say when results arrived over the "
                "link, and there is none on the machine of the HTTP API; name another link with "
                "--target SOURCE:TARGET",
            )
        if blast.would_lose and not force:
            raise Refused(
                f"drill {name}", "--target", ", ".join(blast.nodes),
                f"would lose {'; '.join(blast.would_lose)}",
                "Run it with --force if that is what you want to see.", {},
            )  # fmt: skip
        return _watched(cluster, view, chosen, target, blast, on_progress)

    try:
        report = _with_several_aims(attempt)
    except (DrillFailed, Cancelled) as error:
        _note(cluster, FAILED, name, str(error))
        raise
    detail = "; ".join(report.failures) or (
        f"recovery {report.recovery_ms:.0f} of {report.bound_ms:.0f} ms, lost 0, repeated 0"
    )
    report = msgspec.structs.replace(report, predicted_ms=predicted_ms)
    _note(cluster, FAILED if report.failures else PASSED, name, detail, report)
    return report


def _with_several_aims(attempt: Callable[[], DrillReport]) -> DrillReport:
    """The first attempt whose aim holds; raises `Moved` if not even the last one's does."""
    for _ in range(AIMS - 1):
        with suppress(Moved):
            return attempt()
    return attempt()


def known(name: str) -> Drill:
    """The drill of a name.

    Raises
    ------
    InvalidInput
        There is none.
    """
    if name not in DRILLS:
        raise InvalidInput("", "drill", name, "is no drill", nearest(name, DRILLS))
    return DRILLS[name]


def _note(
    cluster: Cluster, kind: str, name: str, detail: str, report: DrillReport | None = None
) -> None:
    """Keep the beginning or the result of a drill in the history."""
    at_us = cluster_now_us(read_view(cluster.store).cluster_clocks)
    told = None if report is None else for_history(report)
    cluster.store.append_history(
        HistoryEvent(
            at_us=at_us, kind=kind, subject=name, detail=detail, by=cluster.by, report=told
        )
    )


@dataclass(frozen=True, slots=True)
class DrillMoves:
    """Has replicas moved by the API, and does not wait for it."""

    cluster: Cluster
    on_progress: Progress = silent

    def switch(self, fragment: str) -> str:
        """Have primary and secondary change roles; the name of the plan of moves."""
        made = moving.switch(self.cluster, fragment, wait=False, on_progress=self.on_progress)
        return made.name or ""

    def drain(self, node: str) -> str | None:
        """Cordon a node for as long as the drill takes, and have all replicas moved away."""
        made = moving.drain(
            self.cluster, node, wait=False, for_s=CORDON_S, on_progress=self.on_progress
        )
        return made.name

    def uncordon(self, node: str) -> None:
        """Let a node be used again, unless an operator has cordoned it."""
        moving.uncordon(self.cluster, node, lasting=False)


def asking(cluster: Cluster) -> str:
    """Who runs drills, for the history."""
    if cluster.by != LOCAL:
        return cluster.by
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may give its process a number without a name.
        user = str(os.getuid())
    return f"{user} at {socket.gethostname()}"


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
    chosen: Drill,
    target: str | None,
    blast: Blast,
    on_progress: Progress,
) -> DrillReport:
    """Have a drill's fault strike while every output that depends on it is watched.

    It strikes only what it was aimed at; raises as `drill` does.
    """
    outputs, pid = list(blast.outputs), cluster_pid(cluster)
    breach, processors = threading.Event(), ProcessorLog(pid)

    def read_processors() -> None:
        processors.read(cluster_now_us(view.cluster_clocks))

    def act() -> Killed | Disturbed:
        now = still_aimed(cluster, chosen, target, blast, on_progress)
        acting = Acting(
            view=now,
            node=next(iter(blast.nodes), ""),
            store=cluster.store,
            on_progress=on_progress,
            by=asking(cluster),
            cluster_pid=pid,
            mover=DrillMoves(cluster),
            breach=breach,
            links=blast.links,
        )
        _note(cluster, BEGUN, chosen.name, blast.summary)
        try:
            return disturbances.run(chosen, acting)
        except Refused as error:
            # A move that belongs to it.
            _note(cluster, FAILED, chosen.name, str(error))
            raise

    with (
        set_aside(),
        Observer(cluster.reach, outputs, region_of(view, outputs)) as observer,
        ThreadPoolExecutor(1, thread_name_prefix="drill") as pool,
    ):
        on_progress("watch", f"outputs {', '.join(outputs)}")
        watch = _Watch(observer, outputs, read_processors)
        watch.await_flow(chosen.name)
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
    found: dict[str, Delivered] = {}
    for stream, observed in delivered.items():
        if not _is_archived(cluster, view, stream):
            continue
        kept = _kept(cluster, stream, int(observed.completed_column("watermark_ms")[-1]))
        found[stream] = kept
    return found


def _kept(cluster: Cluster, stream: str, until_ms: int) -> Delivered:
    """What the archive of an output has kept, once that reaches a timestamp.

    Raises
    ------
    DrillFailed
        The site keeps nothing more.
    """
    assert cluster.reach.archive is not None
    give_up = time.monotonic() + KEPT_TIMEOUT_S
    while time.monotonic() < give_up:
        with suppress(FileNotFoundError):
            kept = read_back(cluster.reach.archive, stream)
            ends_ms = kept.completed_column("watermark_ms")
            if len(ends_ms) and ends_ms[-1] >= until_ms:
                return kept
        time.sleep(0.2)
    raise DrillFailed(
        f"the archive of {stream} has not come as far as an observer within {KEPT_TIMEOUT_S:.0f} s"
    )


def _is_archived(cluster: Cluster, view: ClusterView, stream: str) -> bool:
    """Whether what was kept of an output can be read on this machine."""
    folder = cluster.reach.archive
    sinks = {s: spec for q in view.query_records.values() for s, spec in q.sinks.items()}
    kept_there = sinks.get(stream, DEFAULT).driver == DEFAULT.driver
    return kept_there and folder is not None and folder.is_dir()


def region_of(view: ClusterView, outputs: list[str]) -> str:
    """Region of the site where the first output is delivered: the drill observes from there."""
    sites = [q.outputs[outputs[0]] for q in view.query_records.values() if outputs[0] in q.outputs]
    return next((view.nodes[site].record.region for site in sites if site in view.nodes), "")
