"""Whether manifests can be applied: the same planning as the leader's, before anything is written.

A stream that is in the store already stays as it is: it is applied again only if its manifest says
the same. A query that runs and whose manifest says something else is changed in place
(`control.planning.changing`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.control.decide.basis import digests, under_nodes, under_queries
from orchestrator.control.decide.move_steps import in_legal_order, steps_to
from orchestrator.control.decide.placing import placement
from orchestrator.control.observe.dataflow import Dataflow, InvalidQuery, dataflow, located
from orchestrator.control.observe.latencies import latency_uncertainty_ms
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.changing import (
    QueryChanges,
    decided_again,
    place_changed,
    query_changes,
)
from orchestrator.control.planning.collisions import check_collisions
from orchestrator.control.planning.overdue import ACKNOWLEDGEMENTS, ways_of
from orchestrator.control.planning.periods import BETWEEN, PeriodsUnattainable
from orchestrator.control.planning.planner import Planning, order
from orchestrator.control.planning.rewriting import Rewriting
from orchestrator.control.planning.saved_queries import SavedQueries
from orchestrator.control.planning.sharing import computed_by
from orchestrator.control.planning.task import MIN_EXECUTORS, settled, unsettled
from orchestrator.control.planning.trying import StatementTrials, Tries
from orchestrator.control.planning.utilisation import (
    ROUNDING_CORES,
    Overload,
    PredictedPlace,
    advice,
)
from orchestrator.errors import Refused
from orchestrator.manifest.changes import refuse_change
from orchestrator.manifest.kinds import QueryManifest, StreamManifest, place_of
from orchestrator.manifest.load import check_primaries, check_sites
from orchestrator.records import (
    BeginFrom,
    MoveStep,
    NodeKind,
    Overdue,
    QueryPlacement,
    QueryRecord,
    RunningQueryRecord,
    StreamRecord,
)
from placement.deadline.errors import DeadlinesUnattainable
from placement.errors import (
    BoundUnattainable,
    DeadlineUnattainable,
    NoNode,
    PlacementError,
    SolverStopped,
)
from placement.records import Plan

SLOW = 0.8
"""Speed of processors below which a refusal tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The placement that would run.

    Attributes
    ----------
    plan
        Queries that run, at their places and with the figures they have there; new ones where they
        would go.
    placements
        Of the new queries, in the order in which they were planned.
    basis
        What they rest on, as `ProposalRecord` has it.
    running
        How the queries that have a place run.
    waiting
        Query that is in the store but has no place → why.
    places
        How busy nodes and machines would be.
    flow
        Streams and fragments of all of them.
    changes
        What becomes of queries that are changed in place, by name.
    begun
        How queries that begin from a savepoint differ from what it holds, by name.
    moves
        Moves to where changed queries keep what they ask for.
    """

    plan: Plan
    placements: tuple[QueryPlacement, ...]
    basis: dict[str, str]
    running: Mapping[str, RunningQueryRecord]
    waiting: Mapping[str, str]
    places: tuple[PredictedPlace, ...]
    flow: Dataflow
    changes: Mapping[str, QueryChanges]
    begun: Mapping[str, QueryChanges]
    moves: tuple[MoveStep, ...]


def check_readable(view: ClusterView, records: Iterable[StreamRecord | QueryRecord]) -> None:
    """Raise `Refused` if a process runs that could not read what people want."""
    oldest = view.oldest
    for record in records:
        if oldest is not None and record.needs > oldest[2].records:
            kind, name, versions = oldest
            raise Refused(
                f"{'query' if isinstance(record, QueryRecord) else 'stream'} {record.name}",
                "version",
                str(versions),
                f"needs a version that reads records {record.needs}, and that of {kind} {name} "
                f"reads {versions.records}",
                "Apply it once the upgrade is over: `vivace preflight` lists what runs.",
                {"needs_records": float(record.needs), "read_records": float(versions.records)},
            )


def admit(
    view: ClusterView,
    streams: Sequence[StreamManifest] = (),
    queries: Sequence[QueryManifest] = (),
    tries: Tries | None = None,
    begin: BeginFrom = BeginFrom.NOW,
    saved: SavedQueries | None = None,
) -> Admission:
    """Plan what is applied around everything that runs. What runs is evaluated, not planned.

    Queries are placed one after the other, so all together may be refused although each could be
    placed. Then nothing is shared.

    Parameters
    ----------
    tries
        Runs trials of statements; None: nothing is tried.
    begin
        From where on statements of changed queries read whose state cannot be kept.
    saved
        With whose states new queries begin; None: they begin from nothing.

    Raises
    ------
    InvalidInput
        A manifest is wrong in itself or among the others.
    Refused
        It is right, but cannot be had: with the constraint that stands in the way.
    """
    applied = _Applied(view, streams, queries, begin, saved)
    applied.check()
    trials = StatementTrials(view, tries)
    decided, known = applied.decided, (applied.all_streams, applied.all_queries)
    tried = trials.of_new(applied.written, *known, decided)
    running = {**decided, **tried}
    if any(applied.all_queries[name].share for name in applied.written):
        computed = computed_by(applied.all_streams, applied.all_queries)
        offered = [n for n, query in view.query_records.items() if query.share]
        try:
            return applied.admitted(running, Rewriting(trials, computed, offered))
        except Refused:
            pass
    return applied.admitted(running, Rewriting(trials, None, []))


class _Applied:
    """Manifests among what a cluster runs."""

    def __init__(
        self,
        view: ClusterView,
        streams: Sequence[StreamManifest],
        queries: Sequence[QueryManifest],
        begin: BeginFrom,
        saved: SavedQueries | None,
    ) -> None:
        self._view = view
        self._begin = begin
        self._saved = saved
        self._streams = streams
        self._queries = queries
        self.all_streams, self.all_queries = _with_applied(view, streams, queries)
        self.new = [q.record.name for q in queries if q.record.name not in view.queries]
        self.changed = [
            name
            for name in dict.fromkeys(q.record.name for q in queries)
            if name in view.queries and view.queries[name].record != self.all_queries[name]
        ]
        self.begun = [] if saved is None else [name for name in self.new if name in saved.queries]
        # Of a query that was deleted, some may still be there.
        self.decided: Mapping[str, RunningQueryRecord] = {
            n: each for n, each in view.running_records.items() if n in view.queries
        }
        self.changes: dict[str, QueryChanges] = {}

    @property
    def written(self) -> list[str]:
        """New queries of which nothing is decided yet."""
        return [name for name in self.new if name not in self.begun]

    def check(self) -> None:
        """Refuse mistakes, and find out what becomes of the statements of changed queries."""
        view, streams, queries = self._view, self._streams, self._queries
        try:
            self._compare()
            flow = dataflow(self.all_streams, self.all_queries, self.decided)
            others = [*self.new, *self.changed]
            check_collisions(
                flow,
                [stream for stream in streams if stream.record.name not in view.streams],
                [query for query in queries if query.record.name in others],
            )
        except InvalidQuery as problem:
            raise located(problem, queries) from None
        _check_changing(view, queries, self.changed)
        _check_retired(view, queries)
        _check_live_places(view, streams, queries)

    def _compare(self) -> None:
        """Note what becomes of the statements of changed queries, and how they run; of those that
        begin from a savepoint, too."""
        view, saved = self._view, self._saved
        was = {name: view.queries[name].record for name in self.changed}
        ran = {name: view.running_records.get(name) for name in self.changed}
        flows = dict.fromkeys(self.changed, view.dataflow)
        if saved is not None:
            was |= {name: saved.queries[name] for name in self.begun}
            ran |= {name: saved.running[name] for name in self.begun}
            flows |= dict.fromkeys(self.begun, saved.flow)
        if not was:
            return
        plain = {n: each for n, each in self.decided.items() if n not in was}
        written = dataflow(self.all_streams, self.all_queries, plain)
        again = {
            name: decided_again(
                before,
                self.all_queries[name],
                ran[name] or RunningQueryRecord(name=name),
                written,
            )
            for name, before in was.items()
        }
        self.decided = plain | again
        flow = dataflow(self.all_streams, self.all_queries, self.decided)
        for name, before in was.items():
            self.changes[name] = query_changes(
                before, self.all_queries[name], (flows[name], flow), self._begin
            )

    def admitted(
        self, running: Mapping[str, RunningQueryRecord], rewriting: Rewriting
    ) -> Admission:
        """The placement, with new queries written in the way that is best."""
        view, queries, all_queries = self._view, self._queries, self.all_queries
        flow = dataflow(self.all_streams, all_queries, running)
        planning = Planning(view, self.all_streams, all_queries, flow, running)
        applied = {manifest.record.name: manifest for manifest in queries}
        placed = {name for name in all_queries if planning.runs(name)}
        if applied.keys() - placed:
            _check_network(view)
            _check_clocks(planning, [applied[name] for name in sorted(applied.keys() - placed)])
        # Those that the leader is about to place, if a new query reads their streams.
        wanted = {upstream for name in applied for upstream in flow.upstream_queries(name)}
        plans: list[Plan] = []
        placements: list[QueryPlacement] = []
        wanted_places: dict[str, tuple[str, str]] = {}
        touched = [*self.new, *self.changed]
        rests_on = digests(planning, under_queries(planning, touched))
        waiting = {problem.query: str(problem) for problem in view.problems}
        # Queries that run come first: new ones are placed around them, never the other way round.
        for name in sorted(order(flow, all_queries), key=lambda name: name not in placed):
            try:
                if name in self.changed:
                    plan, moved = place_changed(planning, name)
                    wanted_places |= moved
                    plans.append(plan)
                    made = placement(planning, plan)
                    for record in (*made.updated, *made.created):
                        planning.note(record)
                    _check_overdue(planning, applied[name])
                    placements.append(made)
                    continue
                if name in placed:
                    plans.append(planning.evaluate(name))
                    continue
                if name not in wanted:
                    waiting[name] = (
                        "the leader has not placed it; `vivace status` tells its problems"
                    )
                    continue
                if name in self.written:
                    way = rewriting.place(planning, all_queries[name])
                    planning, plan = way.planning, way.plan
                else:
                    plan = planning.place(name)
                plans.append(plan)
                made = placement(planning, plan)
                for record in (*made.updated, *made.created):
                    planning.note(record)
                if name in applied:
                    _check_overdue(planning, applied[name])
                    placements.append(made)
            except InvalidQuery as problem:
                if name in applied:
                    raise located(problem, queries) from None
                waiting[name] = str(problem)
            except PlacementError as error:
                if name in applied:
                    raise _refused(error, applied[name], planning) from None
                waiting[name] = str(error)
        moves = self._moves(planning, wanted_places)
        return Admission(
            plan=Plan(
                placements=tuple(each for plan in plans for each in plan.placements),
                queries=tuple(figures for plan in plans for figures in plan.queries),
            ),
            placements=tuple(placements),
            basis=rests_on | digests(planning, under_nodes(planning, placements)),
            running={
                figures.query: planning.decided[figures.query]
                for plan in plans
                for figures in plan.queries
                if figures.query in planning.decided
            },
            waiting=waiting,
            places=planning.places(),
            flow=planning.flow,
            changes={name: self.changes[name] for name in self.changed},
            begun={name: self.changes[name] for name in self.begun},
            moves=moves,
        )

    def _moves(
        self, planning: Planning, wanted: Mapping[str, tuple[str, str]]
    ) -> tuple[MoveStep, ...]:
        """Moves of replicas of changed queries to where they keep what is asked for.

        Those that break no promise come first; the leader refuses the others, with the reason.
        """
        if not wanted:
            return ()
        trial = planning.fork()
        steps: list[MoveStep] = []
        for name, nodes in wanted.items():
            record = trial.fragments[trial.work.fragments[name].fragment.key]
            if record.secondary is not None:
                steps += steps_to(trial, record, nodes)
        legal, refused = in_legal_order(trial, steps)
        return (*legal, *(step for step, _ in refused))


def _with_applied(
    view: ClusterView, streams: Sequence[StreamManifest], queries: Sequence[QueryManifest]
) -> tuple[dict[str, StreamRecord], dict[str, QueryRecord]]:
    """The content that the store would have, without stored queries that cannot run anyway."""
    view.check_readable(each.record.name for each in (*streams, *queries))
    all_streams = view.stream_records
    broken = {problem.query for problem in view.problems}
    all_queries = {n: query for n, query in view.query_records.items() if n not in broken}
    flow = view.dataflow
    for stream in streams:
        name = stream.record.name
        known = all_streams.setdefault(name, stream.record)
        readers = [query for query in view.queries if name in flow.entering_streams(query)]
        refuse_change(stream, known, _way(view, readers))
    for query in queries:
        name = query.record.name
        all_queries[name] = query.record
    return all_streams, all_queries


def _way(view: ClusterView, readers: Sequence[str]) -> str:
    """How a change is made: by deleting the queries that depend on it, the last readers first."""
    if not readers:
        return "Nothing reads the stream that runs: apply this one under another name."
    deletions = ", ".join(f"`vivace delete {name}`" for name in order(view.dataflow, readers)[::-1])
    return f"What runs is not changed in place: {deletions}, then apply again."


def _check_changing(
    view: ClusterView, queries: Sequence[QueryManifest], changed: Collection[str]
) -> None:
    """Refuse to change a query that is paused, or of which the last change is not agreed yet."""
    for query in queries:
        name = query.record.name
        if name in changed and view.is_paused(name):
            subject = f"query {name} ({query.file})"
            raise Refused(subject, "name", name, "is paused", f"`vivace resume {name}` first.", {})
        pending = [
            found.record.key
            for found in view.fragments.values()
            if found.record.query == name
            and (found.record.changing is not None or found.record.restart is not None)
        ]
        if name in changed and pending:
            problem = f"is being changed: {', '.join(sorted(pending))}"
            subject = f"query {name} ({query.file})"
            raise Refused(subject, "name", name, problem, "Try again in a few seconds.", {})


def _check_retired(view: ClusterView, queries: Sequence[QueryManifest]) -> None:
    """Fragments of a deleted query must not be taken for those of a new one of its name."""
    for query in queries:
        if (name := query.record.name) in view.retiring:
            subject = f"query {name} ({query.file})"
            problem = "was deleted, and its fragments still run"
            raise Refused(subject, "name", name, problem, "Try again in a few seconds.", {})


def _check_live_places(
    view: ClusterView, streams: Sequence[StreamManifest], queries: Sequence[QueryManifest]
) -> None:
    sites = [name for name, node in view.hosts.items() if node.kind is NodeKind.SITE]
    # What runs may outlive a node that it named.
    running = view.query_records
    other = [query for query in queries if running.get(query.record.name) != query.record]
    check_sites(streams, queries, sites, "is not a live site")
    check_primaries(other, view.executors, "is not a live node")


def _check_network(view: ClusterView) -> None:
    executors = len(view.executors)
    if executors < MIN_EXECUTORS:
        problem = f"{executors} live executors, a primary and a secondary need two nodes"
        figures = {"executors": executors}
        raise Refused("queries", "nodes", executors, problem, "Start more nodes.", figures)
    if not settled(view.hosts):
        waiting = sorted(name for name, node in view.hosts.items() if node.coordinate is None)
        problem = "the network is not measured well enough yet"
        problem += f" (no coordinate: {', '.join(waiting)})" if waiting else ""
        remedy = "Try again in a few seconds."
        figures = {"hosts": len(view.hosts), "without_coordinate": len(waiting)}
        guessed = tuple(waiting or sorted(view.hosts))
        raise Refused("queries", "nodes", len(view.hosts), problem, remedy, figures, guessed)


def _check_clocks(planning: Planning, queries: Sequence[QueryManifest]) -> None:
    """Refuse deadlines that nobody could measure: shorter than clocks may be apart."""
    for manifest in queries:
        query = manifest.record
        for output, site in query.outputs.items():
            deadline_ms = query.deadline_of(output)
            uncertainty_ms = latency_uncertainty_ms(
                planning.view, planning.flow, planning.streams, output, site
            )
            figures = {"deadline_ms": deadline_ms}
            if uncertainty_ms is None:
                problem = f"nobody knows yet how far the clocks of the sites of {output} are apart"
                raise Refused(
                    _subject(manifest, "outputs"), "outputs", output, problem,
                    "Try again in a few seconds.", figures,
                )  # fmt: skip
            if deadline_ms < uncertainty_ms:
                problem = f"latencies of {output} are only known to within {uncertainty_ms:.1f} ms"
                problem += ", because clocks of several machines are compared"
                remedy = f"Allow at least {int(uncertainty_ms) + 1} ms, or have its streams enter "
                remedy += "and leave on one machine."
                figures["uncertainty_ms"] = uncertainty_ms
                value, subject = f"{deadline_ms:g} ms", _subject(manifest, "deadline")
                raise Refused(subject, "deadline", value, problem, remedy, figures)


def _check_overdue(planning: Planning, manifest: QueryManifest) -> None:
    """Refuse deadlines within which nobody can tell overload from the way of acknowledgements."""
    query = manifest.record
    if query.overdue is not Overdue.DROP:
        return
    able = {name for name, spec in planning.specs.items() if spec.overdue is Overdue.DROP}
    ways = ways_of(planning)
    for output in query.outputs:
        deadline_ms = query.deadline_of(output)
        found = (ways.least_ms(stream, output) for stream in sorted(able))
        least_ms = max((ms for ms in found if ms is not None), default=0.0)
        if deadline_ms >= least_ms:
            continue
        raise Refused(
            _subject(manifest, "deadline"), "deadline", f"{deadline_ms:g} ms",
            f"overdue tuples cannot be dropped for {output}: whether consumers follow is known "
            f"after {ACKNOWLEDGEMENTS} round trips and acknowledgement intervals on each link, "
            f"{least_ms:.0f} ms on the way to it",
            f"Allow at least {math.ceil(least_ms)} ms, lower `ackInterval`, or write "
            "`overdue: keep`.",
            {"deadline_ms": deadline_ms, "least_ms": least_ms},
        )  # fmt: skip


def _subject(manifest: QueryManifest, field: str) -> str:
    """The query, and where its manifest says a field."""
    return f"query {manifest.record.name} ({place_of(manifest, field)})"


def _refused(error: PlacementError, manifest: QueryManifest, planning: Planning) -> Refused:
    """Why there is no plan, with the figures that decide it."""
    query = manifest.record
    figures: dict[str, float | str] = {}
    match error:
        case BoundUnattainable():
            field, value = "recovery", f"{error.bound_ms:g} ms"
            problem = (
                f"no node can stand by for {error.operator} within it; the best is "
                f"{error.best_node} with {error.best_ms:.1f} ms (detection "
                f"{error.detection_ms:.1f} + transfer {error.transfer_ms:.1f} + reprocessing "
                f"{error.reprocess_ms:.1f}; input from {', '.join(error.inputs)})"
            )
            remedy = f"Allow at least {int(error.best_ms) + 1} ms, or add nearer nodes."
            others = ("query", "operator", "inputs")
            figures = {name: each for name, each in vars(error).items() if name not in others}
        case DeadlineUnattainable():
            field, value = "deadline", f"{error.deadline_ms:g} ms"
            problem = "no placement tried delivers within it; the best takes "
            problem += f"{error.best_ms:.1f} ms ({error.way})"
            remedy = f"Allow at least {int(error.best_ms) + 1} ms, or add nearer nodes."
            figures = {"deadline_ms": error.deadline_ms, "best_ms": error.best_ms}
        case DeadlinesUnattainable():
            field = "deadline"
            value = ", ".join(f"{query.deadline_of(o):g} ms of {o}" for o in query.outputs)
            problem = "no placement keeps all deadlines"
            remedy = f"{error.advice[0].upper()}{error.advice[1:]}."
            figures |= {f"allow_ms.{name}": ms for name, ms in error.relaxation_ms.items()}
            figures |= {f"relieve_ms.{name}": ms for name, ms in error.excess_ms.items()}
        case PeriodsUnattainable():
            field, value = "deadline", f"{query.deadline_ms:g} ms"
            problem, remedy, figures = _late_releases(error)
        case Overload(place=place):
            field, value = "load", place.subject
            problem, remedy, figures = _overload(error, planning)
        case NoNode():
            field, value, problem = "nodes", error.operator, error.reason
            remedy = "Start more nodes."
        case SolverStopped():
            field, value = "primaries", ", ".join(sorted(query.primaries)) or "none"
            problem = f"no plan was found in time ({error.reason})"
            remedy = "In `primaries`, name nodes for more fragments."
        case _:
            field, value, problem, remedy = "statements", query.name, str(error), ""
    late = isinstance(error, (BoundUnattainable, DeadlineUnattainable, DeadlinesUnattainable))
    guessed = unsettled(planning.view.hosts) if late else []
    if guessed:
        remedy += f" Latencies of {', '.join(guessed)} are not known well yet: try again soon."
    return Refused(
        _subject(manifest, field), field, value, problem, remedy, figures, tuple(guessed)
    )


def _late_releases(error: PeriodsUnattainable) -> tuple[str, str, dict[str, float | str]]:
    """Problem, remedy and figures of a query that would make releases late."""
    found = error.found
    problem = (
        f"on {error.node}, {found.demand_ms:.3g} ms of recurring work may be due within "
        f"{found.at_ms:.3g} ms, {error.blocking_ms:.3g} ms of that a batch that runs already"
    )
    task = found.relieve.removesuffix(BETWEEN)
    ways = [f"relieve {task} of {found.excess_ms:.3g} ms of work, as by a longer period"]
    ways += [
        f"release {name} at another time: PERIOD … OFFSET {ms:g} MILLISECONDS"
        for name, ms in error.offsets_ms.items()
    ]
    told = ", or ".join(ways)
    figures: dict[str, float | str] = {
        "node": error.node,
        "at_ms": found.at_ms,
        "demand_ms": found.demand_ms,
        "blocking_ms": error.blocking_ms,
        f"relieve_ms.{task}": found.excess_ms,
        **{f"offset_ms.{name}": ms for name, ms in error.offsets_ms.items()},
    }
    return problem, f"{told[0].upper()}{told[1:]}.", figures


def _overload(error: Overload, planning: Planning) -> tuple[str, str, dict[str, float | str]]:
    """Problem, remedy and figures of a query that would take more than there is."""
    place = error.place
    shared = f"which {', '.join(place.hosts)} share, " if place.is_machine else ""
    slow = ""
    if place.speed < SLOW and not planning.view.settings.emulate_costs:
        slow = f" at {place.speed:.2f} of the speed where assumed costs were found"
    parts = sorted(error.fragments.items(), key=lambda part: -part[1])
    problem = (
        f"of its {place.capacity_cores:g} processors, {shared}{place.used_cores:.2f} are in use "
        f"({_used(place)}){slow}, the "
        f"query adds {error.added_cores:.2f}, and the limit is {place.limit_cores:.2f}; it adds "
        + ", ".join(f"{cores:.2f} by {_cost(planning, name)}" for name, cores in parts)
    )
    remedy = (
        advice(planning.view, place, error.largest, planning.places())
        if error.largest
        else ("Bring in less, or add a machine.")
    )
    remedy += " `admission: off` in the cluster's manifest admits it all the same."
    figures: dict[str, float | str] = {
        "place": place.subject,
        "processors": place.capacity_cores,
        "used_cores": place.used_cores,
        "predicted_cores": place.predicted_cores,
        "healing_cores": place.healing_cores,
        "coming_cores": place.coming_cores,
        "services_cores": place.services_cores,
        "takeover_cores": place.takeover_cores,
        "speed": place.speed,
        **({} if place.measured_cores is None else {"measured_cores": place.measured_cores}),
        "added_cores": error.added_cores,
        "limit_cores": place.limit_cores,
        **{f"added_cores.{name}": cores for name, cores in parts},
    }
    return problem, remedy, figures


def _used(place: PredictedPlace) -> str:
    """What the used part of a place consists of."""
    measured = "nothing" if place.measured_cores is None else f"{place.measured_cores:.2f}"
    predicted = f"predicted {place.predicted_cores:.2f}"
    if place.healing_cores > ROUNDING_CORES:
        predicted += f", {place.healing_cores:.2f} of it by replicas that were lost and come again"
    parts = [predicted, f"measured {measured}"]
    if place.services:
        named = ", ".join(f"{name} {cores:.2f}" for name, cores in sorted(place.services.items()))
        parts.append(f"services {place.services_cores:.2f}: {named}")
    if place.takeover_cores:
        parts.append(f"kept free for a takeover {place.takeover_cores:.2f}")
    return "; ".join(parts)


def _cost(planning: Planning, fragment: str) -> str:
    """A fragment and what its cost rests on."""
    work = planning.work.fragments.get(fragment)
    if work is None:
        return fragment
    cost = work.cost
    told = f"{cost.per_tuple_us:.0f} us a tuple"
    told += f" and {cost.fixed_us:.0f} an evaluation" if cost.fixed_us else ""
    return f"{fragment} ({told}, {cost.basis.value})"
