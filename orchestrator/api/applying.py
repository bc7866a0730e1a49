"""Bringing what manifests say into a cluster.

The leader plans, and proposes where everything would run. Sites look at sources and sinks. Then the
client consents to exactly that proposal, and the leader carries it out. If something has changed
since it was made, it says what, and is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from orchestrator.api.cluster_status import problems
from orchestrator.api.connection import Cluster
from orchestrator.api.edge_checks import check_edges
from orchestrator.api.proposals import NOTHING, ProposalClient, running_plan
from orchestrator.control.decide.placing import PLANNED_AGAIN, with_first_epochs
from orchestrator.control.observe.dataflow import Dataflow, sound_dataflow
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import InvalidInput, Outdated, Unreachable
from orchestrator.manifest import ClusterManifest, Manifests, cluster_record
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    BeginFrom,
    ClusterRecord,
    ProposalRecord,
    QueryRecord,
    StateSpec,
)
from orchestrator.results.changes import Applied, Change, Effect
from orchestrator.store.protocol import Store

PROTECTED_TIMEOUT_S = 60.0
"""How long fragments may take to run with a warm standby; a second or two is usual, but a lost
executor that Spark replaces at this moment takes its time."""

RETIRED_TIMEOUT_S = 10.0
"""How long the leader may take to retire the fragments of a deleted query. It does so at once; a
new leader may have to be elected first."""

LOOK_EVERY_S = 0.1

ATTEMPTS = 3
"""How often the leader plans while others change what its proposals rest on."""

SHOWN_PROBLEMS = 10
"""Of those that a message shows."""


def changes(view: ClusterView, manifests: Manifests) -> tuple[Change, ...]:
    """Effects of applying admitted manifests.

    Admission refuses those that would change a stream that runs.
    """
    streams = [
        Change(
            kind="Stream",
            name=each.record.name,
            effect=Effect.UNCHANGED if each.record.name in view.streams else Effect.NEW,
        )
        for each in manifests.streams
    ]
    return (*streams, *(_query_change(view, each.record) for each in manifests.queries))


def _query_change(view: ClusterView, query: QueryRecord) -> Change:
    effect, found = Effect.NEW, view.queries.get(query.name)
    if found is not None:
        effect = Effect.UNCHANGED if found.record == query else Effect.CHANGED
    return Change(kind="Query", name=query.name, effect=effect)


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
    wanted = msgspec.structs.replace(wanted, id=runs.id, state=_state(wanted, runs))
    for field in wanted.__struct_fields__:
        if getattr(wanted, field) != getattr(runs, field):
            raise InvalidInput(
                manifest.file,
                f"{subject}: {field}",
                None,
                "differs from the running cluster's",
                "A cluster's own settings change with a restart: `vivace down`, `vivace up`.",
            )


def _state(wanted: ClusterRecord, runs: ClusterRecord) -> StateSpec | None:
    """The folder of checkpoints that a manifest means: `vivace up` has said where it lies."""
    state, running = wanted.state, runs.state
    if state is None or running is None:
        return running if state is None else state
    if "://" in state.folder or state.folder.startswith("/"):
        return state
    return msgspec.structs.replace(state, folder=running.folder)


def apply(
    cluster: Cluster,
    manifests: Manifests,
    *,
    dry_run: bool = False,
    wait: bool = True,
    begin: BeginFrom = BeginFrom.NOW,
    savepoint: str = "",
    on_progress: Progress = silent,
) -> Applied:
    """Check and plan all of it, submit it, and wait until every fragment runs with a warm standby.

    The leader plans. It carries its proposal out, or plans again if something of what that rests on
    has changed: nobody has seen it yet.

    Parameters
    ----------
    dry_run
        Check and plan, but change nothing.
    wait
        Whether to wait for the fragments.
    begin
        From where on statements of changed queries read whose state cannot be kept.
    savepoint
        With whose states new queries begin; empty: they begin from nothing.

    Raises
    ------
    VivaceError
        It cannot run, or does not come to run.
    """
    store = cluster.store
    view = _view_without_retiring(store, manifests, on_progress)
    if manifests.cluster is not None:
        check_cluster(view, manifests.cluster)
    with ProposalClient(store, on_progress) as client:
        attempts = ATTEMPTS
        while True:
            plan = client.plan(manifests, begin, savepoint)
            view = read_view(store)
            flow = _flow(view, client.proposal)
            check_edges(store, view, manifests, flow, client.proposal, on_progress)
            made = changes(view, manifests)
            for each in plan.changed:
                step = f"from savepoint {each.savepoint}" if each.savepoint else "changing"
                on_progress(step, f"query {each.query}: {'; '.join(each.words())}")
            try:
                if not dry_run:
                    client.consent()
                break
            except Outdated:
                if not (attempts := attempts - 1):
                    raise
        anew = _begins_anew(view, client.proposal, flow, manifests)
        planned_again: dict[str, str] = {}
        if wait and not dry_run:
            await_protected(store, [each.record.name for each in manifests.queries], on_progress)
            view = read_view(store)
            planned_again = _planned_again(store, view, client.proposal, client.began_us)
            plan = client.plan(NOTHING) if planned_again else running_plan(view, plan)
    return Applied(
        cluster=view.settings.name,
        changes=made,
        plan=plan,
        planned_again=planned_again,
        applied=not dry_run,
        protected=wait and not dry_run,
        begins_anew=anew,
    )


def _begins_anew(
    view: ClusterView, proposal: ProposalRecord, flow: Dataflow, manifests: Manifests
) -> dict[str, str]:
    """Queries that depend on a stream of which nothing can be read again."""
    if view.settings.state is None:
        return {}
    streams = view.stream_records | {each.name: each for each in proposal.streams}
    found: dict[str, str] = {}
    for name in (each.record.name for each in manifests.queries):
        reads, unseen = set[str](), [stream for each in flow.of(name) for stream in each.inputs]
        while unseen:
            if (stream := unseen.pop()) not in reads:
                reads.add(stream)
                maker = flow.fragments.get(stream)
                unseen += [] if maker is None else maker.inputs
        once = sorted(each for each in reads if each in streams and not streams[each].resumes)
        if once:
            found[name] = f"{', '.join(once)} can be read once only"
    return found


def _flow(view: ClusterView, proposal: ProposalRecord) -> Dataflow:
    """The dataflow as it will be, with the columns of all outputs."""
    streams = view.stream_records | {each.name: each for each in proposal.streams}
    changed = proposal.alterations
    queries = view.query_records | {each.name: each for each in proposal.queries}
    queries |= {each.query.name: each.query for each in changed}
    running = view.running_records | {each.name: each for each in proposal.running}
    running |= {each.query.name: each.running for each in changed}
    flow, _ = sound_dataflow(streams, queries, running)
    return flow


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


def _planned_again(
    store: Store, view: ClusterView, proposal: ProposalRecord, since_us: int
) -> dict[str, str]:
    """Query that was not placed as proposed → why, as the history says."""
    running = [found.record for found in view.fragments.values()]
    placed_at = {(each.key, each.primary, each.secondary) for each in running}
    others = {
        placed.query
        for placed in proposal.placements
        for made in with_first_epochs(view, placed)
        # One that has begun from a savepoint has other epochs since.
        if made not in running
        and not (made.paused and (made.key, made.primary, made.secondary) in placed_at)
    }
    # The history is long; it is read only if something runs otherwise than it was planned.
    events = [entry.event for entry in store.history()] if others else []
    own = {placed.query for placed in proposal.placements}
    found = [
        event.detail
        for event in events
        if event.kind == PLANNED_AGAIN and event.at_us >= since_us and event.subject in own
    ]
    return dict.fromkeys(sorted(others), found[-1]) if found else {}


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
    records = {key: found.record for key, found in view.fragments.items()}
    protected = {
        key
        for key, each in records.items()
        if (each.paused and view.is_paused(each.query)) or view.protected(each)
    }
    fragments = [fragment for query in queries for fragment in view.dataflow.of(query)]
    changing = {
        key
        for key, found in view.fragments.items()
        if found.record.changing is not None or found.record.restart is not None
    }
    return [each.name for each in fragments if each.key not in protected or each.key in changing]
