"""Bringing what manifests say into a cluster.

Everything is checked and planned before anything is written. Streams are written before the queries
that read them, and plans before the queries they are made for. Each write names the version it
rests on, so that a change that somebody else made meanwhile is never overwritten.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum

import msgspec

from orchestrator.api.cluster_status import problems
from orchestrator.api.connection import Cluster
from orchestrator.api.edge_checks import check_edges
from orchestrator.api.plans import PlanDocument, plan_document
from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.decide.placing import PLANNED_AGAIN, with_first_epochs
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import InvalidInput, Refused, Unreachable
from orchestrator.host.shell.trial import run_trial
from orchestrator.manifest import ClusterManifest, Manifests, cluster_record
from orchestrator.progress import Progress, silent
from orchestrator.records import HistoryEvent, PlanRecord
from orchestrator.store.protocol import (
    PLANS,
    QUERIES,
    RUNNING_QUERIES,
    STREAMS,
    RecordInvalid,
    Store,
)

PROTECTED_TIMEOUT_S = 60.0
"""How long fragments may take to run with a warm standby; a second or two is usual, but a lost
executor that Spark replaces at this moment takes its time."""

RETIRED_TIMEOUT_S = 10.0
"""How long the leader may take to retire the fragments of a deleted query. It does so at once; a
new leader may have to be elected first."""

SETTLES_S = 20.0
"""How long latencies may take to be known that speak against a query, as in a cluster that starts.
Where links violate the triangle inequality, coordinates may never settle."""

TRY_EVERY_S = 0.5
"""Between two plans of what was refused; each takes the processor from hosts that start."""

LOOK_EVERY_S = 0.1

SHOWN_PROBLEMS = 10
"""Of those that a message shows."""


class Effect(Enum):
    """The effect of applying on a stream or a query."""

    NEW = "new"
    UNCHANGED = "unchanged"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The effect on one manifest."""

    kind: str
    name: str
    effect: Effect


def changes(view: ClusterView, manifests: Manifests) -> tuple[Change, ...]:
    """Effects of applying admitted manifests.

    Admission refuses those that would change what runs, so a known name means no change.
    """
    named = [("Stream", each.record.name, view.streams) for each in manifests.streams]
    named += [("Query", each.record.name, view.queries) for each in manifests.queries]
    return tuple(
        Change(kind=kind, name=name, effect=Effect.UNCHANGED if name in known else Effect.NEW)
        for kind, name, known in named
    )


def check_cluster(view: ClusterView, manifest: ClusterManifest) -> None:
    """Refuse the manifest of another cluster, or of this one with changes.

    Raises
    ------
    InvalidInput
        Naming the first field that differs.
    """
    runs = view.settings
    subject = f"Cluster {manifest.name}"
    if manifest.name != runs.name:
        raise InvalidInput(
            manifest.file,
            f"{subject}: name",
            manifest.name,
            f"is not the cluster that runs here, {runs.name}",
            f"Start it: `vivace up -f {manifest.file.rpartition(':')[0]}`.",
        )
    wanted = cluster_record(manifest)
    for field in wanted.__struct_fields__:
        if getattr(wanted, field) != getattr(runs, field):
            raise InvalidInput(
                manifest.file,
                f"{subject}: {field}",
                None,
                "differs from the running cluster's",
                "A cluster's own settings change with a restart: `vivace down`, `vivace up`.",
            )


def write(store: Store, view: ClusterView, manifests: Manifests, admission: Admission) -> None:
    """Write what is new: streams, then for each query how it runs, its plan and the query itself.

    A client that dies on the way leaves streams that nobody reads yet, and at most a plan without
    its query, which the leader deletes.

    Raises
    ------
    StoreError
        Somebody else wrote the same name meanwhile; what was written before stays.
    """
    for stream in (manifest.record for manifest in manifests.streams):
        if stream.name not in view.streams:
            store.create(STREAMS.key(stream.name), stream)
            note(store, view, "applied", f"stream {stream.name}", f"enters at {stream.site}")
    submitted = {plan.query: plan for plan in admission.submissions}
    new = {q.record.name: q.record for q in manifests.queries if q.record.name not in view.queries}
    for name in dict.fromkeys((*submitted, *new)):
        if name in submitted:
            _submit(store, submitted[name], cluster_now_us(view.cluster_clocks))
        if name in new:
            if name in admission.running:
                store.create(RUNNING_QUERIES.key(name), admission.running[name])
            store.create(QUERIES.key(name), new[name])
            detail = f"deadline {new[name].deadline_ms:g} ms, "
            detail += f"recovery bound {new[name].recovery_bound_ms:g} ms"
            note(store, view, "applied", f"query {name}", detail)


def _submit(store: Store, plan: PlanRecord, at_us: int) -> None:
    key = PLANS.key(plan.query)
    record = msgspec.structs.replace(plan, submitted_us=at_us)
    try:
        former = store.get(key)
    except RecordInvalid as broken:
        former = broken
    if former is None:
        store.create(key, record)
    else:
        store.update(key, record, former.version)


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The applied manifests, and where their fragments run.

    Attributes
    ----------
    plan
        The running placement, once everything was seen to run; else the planned one.
    planned_again
        Query whose submitted plan the leader did not carry out → what had changed since it was
        made. Known only after waiting.
    applied
        False after a dry run.
    protected
        Whether every fragment of the queries has been seen to run with a warm standby.
    """

    cluster: str
    changes: tuple[Change, ...]
    plan: PlanDocument
    planned_again: dict[str, str]
    applied: bool
    protected: bool


def apply(
    cluster: Cluster,
    manifests: Manifests,
    *,
    dry_run: bool = False,
    wait: bool = True,
    on_progress: Progress = silent,
) -> Applied:
    """Check and plan all of it, submit it, and wait until every fragment runs with a warm standby.

    The plan is made here, again only as long as latencies speak against it that hosts which have
    just started do not know well yet. It is submitted with what it rests on; the leader carries it
    out, or plans again if something of that has changed.

    Parameters
    ----------
    dry_run
        Check and plan, but change nothing.
    wait
        Whether to wait for the fragments.

    Raises
    ------
    VivaceError
        It cannot run, or does not come to run.
    """
    store = cluster.store
    view = _view_without_retiring(store, manifests, on_progress)
    if manifests.cluster is not None:
        check_cluster(view, manifests.cluster)
    view, admission = _admitted(store, view, manifests, on_progress)
    check_edges(store, view, manifests, admission.flow, on_progress)
    made = changes(view, manifests)
    planned_again: dict[str, str] = {}
    if not dry_run:
        begun_us = cluster_now_us(view.cluster_clocks)
        write(store, view, manifests, admission)
        if wait:
            await_protected(store, [each.record.name for each in manifests.queries], on_progress)
        view = read_view(store)
        if wait:
            planned_again = _planned_again(store, view, admission.submissions, begun_us)
            admission = admit(view)
    return Applied(
        cluster=view.settings.name,
        changes=made,
        plan=plan_document(view, admission),
        planned_again=planned_again,
        applied=not dry_run,
        protected=wait and not dry_run,
    )


def _view_without_retiring(
    store: Store, manifests: Manifests, on_progress: Progress
) -> ClusterView:
    """The store, once no deleted query of a name that is applied has fragments there.

    Raises
    ------
    Unreachable
        Nobody retires them.
    """
    deadline = time.monotonic() + RETIRED_TIMEOUT_S
    while True:
        view = read_view(store)
        retiring = view.retiring & {manifest.record.name for manifest in manifests.queries}
        if not retiring:
            return view
        names = ", ".join(sorted(retiring))
        if time.monotonic() > deadline:
            raise Unreachable(
                f"The end of the deleted {names}",
                "the cluster",
                f"did not come within {RETIRED_TIMEOUT_S:g} s",
                _with_problems(
                    store,
                    view,
                    "A coordinator retires its fragments: `vivace status` shows whether one leads.",
                ),
            )
        on_progress("waiting", f"for the end of the deleted {names}")
        time.sleep(LOOK_EVERY_S)


def _admitted(
    store: Store, view: ClusterView, manifests: Manifests, on_progress: Progress
) -> tuple[ClusterView, Admission]:
    """The plan of manifests, with the view that it rests on.

    What is refused because of latencies is tried again until they are known: the first round trips
    of hosts that have just started are slow.
    """
    give_up = time.monotonic() + SETTLES_S
    while True:
        try:
            return view, admit(view, manifests.streams, manifests.queries, run_trial)
        except Refused as refused:
            if not refused.guessed or time.monotonic() > give_up:
                raise
            on_progress("waiting", f"until latencies of {', '.join(refused.guessed)} are known")
        time.sleep(TRY_EVERY_S)
        view = read_view(store)


def _planned_again(
    store: Store, view: ClusterView, plans: Sequence[PlanRecord], since_us: int
) -> dict[str, str]:
    """Query whose plan was not carried out → why, as the history says."""
    running = [found.record for found in view.fragments.values()]
    others = {
        plan.query
        for plan in plans
        if any(made not in running for made in with_first_epochs(view, plan))
    }
    # The history is long; it is read only if something runs otherwise than it was planned.
    events = [entry.event for entry in store.history()] if others else []
    return {
        event.subject: event.detail
        for event in events
        if event.kind == PLANNED_AGAIN and event.subject in others and event.at_us >= since_us
    }


def await_protected(
    store: Store,
    queries: Sequence[str],
    on_progress: Progress,
    timeout_s: float = PROTECTED_TIMEOUT_S,
) -> None:
    """Wait until every fragment of the queries runs with a warm standby.

    Raises
    ------
    Unreachable
        Naming the fragments that do not.
    """
    deadline = time.monotonic() + timeout_s
    told = ""
    while True:
        view = read_view(store)
        waiting = _unprotected(view, queries)
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise Unreachable(
                f"A warm standby for {', '.join(waiting)}",
                "the cluster",
                f"did not come within {timeout_s:g} s",
                _with_problems(store, view, "`vivace status` shows what each fragment waits for."),
            )
        if (now := ", ".join(waiting)) != told:
            on_progress("starting", now)
            told = now
        time.sleep(LOOK_EVERY_S)


def _with_problems(store: Store, view: ClusterView, remedy: str) -> str:
    """A remedy with what the leader and the hosts complain about, a line each."""
    found = problems(store, view)
    shown = [f"\n! {problem}" for problem in found[:SHOWN_PROBLEMS]]
    more = len(found) - SHOWN_PROBLEMS
    if more > 0:
        shown.append(f"\n! … and {more} more")
    return remedy + "".join(shown)


def _unprotected(view: ClusterView, queries: Sequence[str]) -> list[str]:
    protected = {key for key, found in view.fragments.items() if view.protected(found.record)}
    fragments = [fragment for query in queries for fragment in view.dataflow.of(query)]
    return [fragment.name for fragment in fragments if fragment.key not in protected]


def note(store: Store, view: ClusterView, kind: str, subject: str, detail: str) -> None:
    """Keep what a client has done in the history."""
    at_us = cluster_now_us(view.cluster_clocks)
    event = HistoryEvent(at_us=at_us, kind=kind, subject=subject, detail=detail)
    store.append_history(event)
