"""What to write, given what is in the store: a pure function, and idempotent.

The writes come in an order in which every prefix is a legal state: records first, assignments
derived from them last. Whoever applies them stops at the first conflict, reads again and decides
again. Once all are applied, deciding again yields nothing; only what a new primary costs is noted
in the decision after the one that made it primary.

Who changes a fragment's record, and when (C: coordinator, S: the secondary itself):

    primary   secondary   what happens
    alive     gone        C chooses another secondary at once; a node that comes back is just free
    gone      alive       S takes over and records it; C waits. If S has not within the grace:
                          C promotes a warm S, and starts over if S is not warm
    gone      gone        C starts over, with a new generation: at once if both are known to be
                          dead (their nodes have new lives), else after the grace, since a process
                          may live on without its session

Starting over loses the fragment's state, and the history says so.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import msgspec

from ha.roles import ReplicaRole
from orchestrator.control.assignments import assignments
from orchestrator.control.dataflow import InvalidQuery
from orchestrator.control.planning import Planning, living_places, living_timings, order
from orchestrator.control.problem import settled
from orchestrator.control.starting import streams_to_start
from orchestrator.control.view import ClusterView
from orchestrator.records import FragmentRecord, HistoryEvent, Record
from orchestrator.store.protocol import ASSIGNMENTS, FRAGMENTS, STREAMS, Key
from placement.errors import PlacementError
from placement.records import Plan

MIN_EXECUTORS = 2
"""A primary and its secondary stand on different nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSettings:
    """How patient the coordinator is.

    Attributes
    ----------
    takeover_grace_us
        How long a primary may be gone before its secondary is no longer waited for. Taking over
        takes the data plane a fraction of a second; this leaves time for a host to get a session
        again after the server was away.
    start_delay_us
        From the decision to start streams until they start: time for every site to hear of it.
    drift, drift_share
        By which share of what it was planned with, and by which share of its sub-deadline, a
        fragment's cost must have changed for a new plan to be proposed.
    """

    takeover_grace_us: int = 3_000_000
    start_delay_us: int = 1_000_000
    drift: float = 0.5
    drift_share: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One change of the store.

    Attributes
    ----------
    record
        None: delete what is there.
    version
        Version it replaces; None: create.
    event
        What to add to the history once it is written.
    """

    key: Key[Record]
    record: Record | None
    version: int | None
    event: HistoryEvent | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Writes in order, and what stands in the way of more."""

    writes: tuple[Write, ...]
    problems: tuple[str, ...]


def decide(view: ClusterView, now_us: int, settings: DecisionSettings) -> Decision:
    """Everything there is to do.

    Parameters
    ----------
    view
        As read from the store.
    now_us
        The cluster's clock.
    """
    return _Decider(view, now_us, settings).decide()


class _Decider:
    """The state of one decision: records as they will be, and the writes so far."""

    def __init__(self, view: ClusterView, now_us: int, settings: DecisionSettings) -> None:
        self._view = view
        self._now_us = now_us
        self._settings = settings
        self._fragments = {name: found.record for name, found in view.fragments.items()}
        # As they will be once what is written so far is applied: a plan made later in the same
        # decision may retime a fragment that was created or changed earlier in it.
        self._versions = {name: found.version for name, found in view.fragments.items()}
        self._streams = view.stream_records
        self._writes: list[Write] = []
        self._problems = [str(each) for each in (*view.invalid, *view.problems)]
        self._planning = Planning(
            view,
            self._streams,
            view.query_records,
            view.dataflow,
            living_places(view),
            living_timings(view),
        )

    def decide(self) -> Decision:
        self._retire()
        # Producers first: where they are decides where their consumers stand.
        for fragment in self._view.dataflow.fragments.values():
            if fragment.key in self._fragments:
                self._heal(fragment.key)
        # Before new plans, which rest on what the work that is there costs now.
        self._note_drift()
        self._place_new()
        self._start_streams()
        self._assign()
        return Decision(writes=tuple(self._writes), problems=tuple(self._problems))

    def _retire(self) -> None:
        """Delete the fragments of queries that are gone, not of those that cannot be read."""
        unreadable = {error.path.rsplit("/", 1)[1] for error in self._view.invalid}
        unreadable |= {problem.query for problem in self._view.problems}
        wanted = {fragment.key for fragment in self._view.dataflow.fragments.values()}
        for name, record in list(self._fragments.items()):
            if name in wanted or record.query in unreadable:
                continue
            event = self._event("retired", name, "its query is gone")
            self._writes.append(
                Write(
                    key=FRAGMENTS.key(name),
                    record=None,
                    version=self._view.fragments[name].version,
                    event=event,
                )
            )
            del self._fragments[name]
            self._planning.places.pop(record.fragment, None)

    def _heal(self, name: str) -> None:
        view, record = self._view, self._fragments[name]
        orphaned_us = self._now_us - view.orphaned_since_us.get(name, self._now_us)
        patient = orphaned_us < self._settings.takeover_grace_us
        if view.alive(record.primary):
            if view.stepped_down(record) and not patient:
                self._reinstate(name)
            elif not view.alive(record.secondary):
                self._replace_secondary(name)
            return
        secondary = record.secondary
        if secondary is not None and view.alive(secondary):
            if patient:
                return
            status = view.status(secondary, record.fragment)
            if status is not None and status.role is not ReplicaRole.WARMING:
                epoch = max(record.epoch + 1, status.epoch)
                self._promote(name, epoch)
            else:
                self._start_over(name)
            return
        lost = [replica for replica in (record.primary, secondary) if replica is not None]
        if not patient or all(view.dead(replica) for replica in lost):
            self._start_over(name)

    def _replace_secondary(self, name: str) -> None:
        record = self._fragments[name]
        fragment = record.fragment
        before = "none" if record.secondary is None else record.secondary.node
        try:
            prefer = self._with_replica(record)
            found = self._planning.replace_secondary(record.query, fragment, prefer)
        except (PlacementError, InvalidQuery) as error:
            self._problems.append(str(error))
            return
        if found.problem is not None:
            self._problems.append(found.problem)
        event = self._event(
            "secondary replaced",
            name,
            f"{before} → {found.node}, recovery {found.recovery.total_ms:.1f} ms"
            + ("" if found.problem is None else f", bound not kept: {found.problem}"),
        )
        renewed = msgspec.structs.replace(
            record,
            secondary=self._view.replica(found.node),
            timing=self._planning.timings[fragment],
        )
        self._update(name, renewed, event)

    def _with_replica(self, record: FragmentRecord) -> str | None:
        """A node that runs a copy already, warm ones first, other than the primary's."""
        standing = {
            node: host.replicas[record.fragment].role
            for node, host in self._view.executors.items()
            if record.fragment in host.replicas
            and node != record.primary.node
            and not self._view.suspected(node)
        }
        warm = sorted(node for node, role in standing.items() if role is ReplicaRole.STANDBY)
        return next(iter(warm or sorted(standing)), None)

    def _promote(self, name: str, epoch: int) -> None:
        record = self._fragments[name]
        assert record.secondary is not None
        event = self._event(
            "promoted",
            name,
            f"{record.primary.node} is gone and {record.secondary.node} has not recorded "
            f"that it took over; epoch {epoch}",
        )
        promoted = msgspec.structs.replace(
            record, epoch=epoch, primary=record.secondary, secondary=None, took_over=None
        )
        self._planning.places[record.fragment] = (promoted.primary.node, None)
        self._update(name, promoted, event)

    def _reinstate(self, name: str) -> None:
        """Make a primary act again that stepped down for somebody who has not come forward."""
        record = self._fragments[name]
        status = self._view.status(record.primary, record.fragment)
        assert status is not None
        epoch = max(record.epoch, status.epoch) + 1
        event = self._event(
            "reinstated",
            name,
            f"{record.primary.node} stepped down and nobody has taken its place; epoch {epoch}",
        )
        self._update(name, msgspec.structs.replace(record, epoch=epoch), event)

    def _start_over(self, name: str) -> None:
        record = self._fragments[name]
        self._planning.places.pop(record.fragment, None)
        found = self._plan(record.query, relax=True)
        if found is None:
            return
        self._retime({record.fragment})
        fragments = self._records(found, {record.fragment: record.epoch + 1})
        event = self._event(
            "state lost",
            name,
            f"{record.primary.node} is gone and nobody can take over; epoch {record.epoch + 1} "
            f"begins from nothing on {fragments[name].primary.node}",
        )
        self._update(name, fragments[name], event)

    def _place_new(self) -> None:
        view = self._view
        missing = [
            query
            for query in order(view.dataflow, {f.query for f in view.dataflow.fragments.values()})
            if any(f.key not in self._fragments for f in view.dataflow.of(query))
        ]
        if not missing:
            return
        if len(view.executors) < MIN_EXECUTORS or not settled(view.hosts):
            self._problems.append(f"queries {', '.join(missing)} wait until the network is known")
            return
        for query in missing:
            found = self._plan(query, relax=False)
            if found is not None:
                self._create(found)

    def _create(self, plan: Plan) -> None:
        """Write records for what of a plan has none yet."""
        epochs = {
            placed.operator: 1
            for placed in plan.placements
            if f"{placed.query}.{placed.operator}" not in self._fragments
        }
        self._retime(epochs)
        records = self._records(plan, epochs)
        figures = plan.queries[0]
        event = self._event(
            "planned",
            figures.query,
            f"latency {figures.latency_ms:.1f} of {figures.deadline_ms:g} ms, "
            f"recovery {figures.recovery_ms:.1f} of {figures.bound_ms:g} ms",
        )
        last = list(records)[-1]
        for name, record in records.items():
            self._fragments[name], self._versions[name] = record, 0
            self._writes.append(
                Write(
                    key=FRAGMENTS.key(name),
                    record=record,
                    version=None,
                    event=event if name == last else None,
                )
            )

    def _retime(self, but: Container[str]) -> None:
        """Write the sub-deadlines of what runs already, if those of a new plan are others.

        Before the plan itself: should another change come first, all of it is decided again.
        """
        for name, record in list(self._fragments.items()):
            timing = self._planning.timings.get(record.fragment)
            if timing is None or timing == record.timing or record.fragment in but:
                continue
            event = self._event(
                "sub-deadline changed",
                name,
                f"{record.timing.sub_deadline_ms:.3g} → {timing.sub_deadline_ms:.3g} ms, "
                "for a query that shares its stream",
            )
            self._update(name, msgspec.structs.replace(record, timing=timing), event)

    def _note_drift(self) -> None:
        """Say so when evaluating a fragment costs something else than its plan rests on."""
        view = self._view
        for fragment in view.dataflow.fragments.values():
            record, found = self._fragments.get(fragment.key), view.fragments.get(fragment.key)
            if record is None or found is None or record.primary != found.record.primary:
                # What is measured is of the primary before: once it is written, look again.
                continue
            if view.measured_cost(fragment) is None:
                continue
            timing, cost_ms = record.timing, self._planning.cost_ms(fragment)
            change_ms = abs(cost_ms - timing.cost_ms)
            if (
                change_ms <= self._settings.drift * timing.cost_ms
                or change_ms <= self._settings.drift_share * timing.sub_deadline_ms
            ):
                continue
            event = self._event(
                "re-plan proposed",
                fragment.key,
                f"what comes at once takes {cost_ms:.3g} ms, the plan rests on "
                f"{timing.cost_ms:.3g} ms; sub-deadline {timing.sub_deadline_ms:.3g} ms",
            )
            renewed = msgspec.structs.replace(timing, cost_ms=cost_ms)
            self._planning.timings[fragment.name] = renewed
            self._update(fragment.key, msgspec.structs.replace(record, timing=renewed), event)

    def _plan(self, query: str, *, relax: bool) -> Plan | None:
        try:
            return self._planning.place(query)
        except (PlacementError, InvalidQuery) as error:
            self._problems.append(str(error))
        if not relax:
            return None
        try:
            return self._planning.place(query, relaxed=True)
        except (PlacementError, InvalidQuery) as error:
            self._problems.append(str(error))
            return None

    def _records(self, plan: Plan, epochs: dict[str, int]) -> dict[str, FragmentRecord]:
        """Records of the placements of the named fragments, which begin with these epochs."""
        return {
            f"{placed.query}.{placed.operator}": FragmentRecord(
                query=placed.query,
                fragment=placed.operator,
                epoch=epochs[placed.operator],
                generation=epochs[placed.operator],
                primary=self._view.replica(placed.primary),
                secondary=self._view.replica(placed.secondary),
                timing=self._planning.timings[placed.operator],
            )
            for placed in plan.placements
            if placed.operator in epochs
        }

    def _start_streams(self) -> None:
        begin_us = self._now_us + self._settings.start_delay_us
        starting = streams_to_start(self._view, self._fragments, begin_us)
        for name, start_at_us in starting.items():
            started = msgspec.structs.replace(self._streams[name], start_at_us=start_at_us)
            self._streams[name] = started
            self._writes.append(
                Write(
                    key=STREAMS.key(name),
                    record=started,
                    version=self._view.streams[name].version,
                    event=self._event(
                        "stream starts", name, "everything that reads it is protected"
                    ),
                )
            )

    def _assign(self) -> None:
        view = self._view
        wanted = assignments(view, self._fragments, self._streams)
        broken = {e.path.rsplit("/", 1)[1]: e for e in view.invalid if "assignments/" in e.path}
        for name, error in broken.items():
            # Derived, hence replaceable: deleted now, created at the next reading.
            self._write_assignment(name, None, error.version)
        for name, assignment in wanted.items():
            found = view.assignments.get(name)
            if name not in broken and (found is None or found.record != assignment):
                self._write_assignment(name, assignment, None if found is None else found.version)
        for name, found in view.assignments.items():
            if name not in wanted:
                self._write_assignment(name, None, found.version)

    def _write_assignment(self, name: str, record: Record | None, version: int | None) -> None:
        self._writes.append(Write(key=ASSIGNMENTS.key(name), record=record, version=version))

    def _update(self, name: str, record: FragmentRecord, event: HistoryEvent) -> None:
        self._fragments[name] = record
        self._writes.append(
            Write(
                key=FRAGMENTS.key(name),
                record=record,
                version=self._versions[name],
                event=event,
            )
        )
        self._versions[name] += 1

    def _event(self, kind: str, subject: str, detail: str) -> HistoryEvent:
        return HistoryEvent(at_us=self._now_us, kind=kind, subject=subject, detail=detail)
