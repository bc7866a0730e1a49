"""The leader's writes, given the content of the store: a pure function, and idempotent.

The writes come in an order in which every prefix is a legal state: records first, assignments
derived from them last. Whoever applies them stops at the first conflict, reads again and decides
again. Once all are applied, deciding again yields nothing; only what a new primary costs is noted
in the decision after the one that made it primary, and a fragment's next move begins in the
decision after the one that ended the move before, or that wrote the move's plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.control.decide.assignments import assignments, follows
from orchestrator.control.decide.automation import automate
from orchestrator.control.decide.changing import carry_on
from orchestrator.control.decide.checkpoints import keep_checkpoints, name_gaps, needed_ms
from orchestrator.control.decide.completing import complete
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision, Write
from orchestrator.control.decide.drill_records import (
    end_cordons,
    end_link_faults,
    end_strikes,
)
from orchestrator.control.decide.figures import (
    SUBJECT,
    ClusterFigures,
    QueryFigured,
    cluster_figures,
)
from orchestrator.control.decide.healing import heal, kept
from orchestrator.control.decide.late_hosts import name_late_hosts
from orchestrator.control.decide.leaving import empty_leaving_hosts, may_end, remaining
from orchestrator.control.decide.maintenance import keep_slot
from orchestrator.control.decide.misjudged_costs import note_drift, suggest_costs
from orchestrator.control.decide.moving import pursue
from orchestrator.control.decide.pausing import checkpoints_us, name_lost_input, pause_queries
from orchestrator.control.decide.placing import place_new
from orchestrator.control.decide.proposing import take_consents
from orchestrator.control.decide.record_steps import reduce_records
from orchestrator.control.decide.releases import note_releases
from orchestrator.control.decide.savepoints import saves, take_savepoints, wanted_us
from orchestrator.control.decide.schemes import choose_again
from orchestrator.control.decide.separation import separate_replicas
from orchestrator.control.decide.steadiness import AUTOMATION
from orchestrator.control.decide.stream_sites import keep_feeding
from orchestrator.control.decide.streams import (
    note_slips,
    renew_streams,
    retire_streams,
    start_streams,
)
from orchestrator.control.decide.wire_gaps import name_wire_gaps
from orchestrator.control.observe.clocks import revised_clocks
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.utilisation import advice, largest
from orchestrator.store.protocol import ASSIGNMENTS, CLOCKS, NODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Writes in order, and the problems that prevent more of them.

    Attributes
    ----------
    failures
        Bugs that kept something from being decided; each is one of the problems too.
    figures
        What to publish; None: nothing.
    """

    writes: tuple[Write, ...]
    problems: tuple[str, ...]
    failures: tuple[Exception, ...] = ()
    figures: ClusterFigures | None = None


def decide(
    view: ClusterView,
    now_us: int,
    settings: DecisionSettings,
    figured: Mapping[str, QueryFigured] | None = None,
) -> Decision:
    """Everything there is to do.

    Parameters
    ----------
    view
        As read from the store.
    now_us
        The cluster's clock.
    figured
        The queries' figures that were computed last, if figures are to be published now.
    """
    pending = PendingDecision(view, now_us, settings)
    if not view.settings_readable:
        # Everything rests on them.
        return Decision(writes=(), problems=tuple(pending.problems))
    _keep_clocks(pending)
    end_link_faults(pending)
    end_strikes(pending)
    end_cordons(pending)
    _retire(pending)
    pending.attempt("versions", lambda: reduce_records(pending))
    pending.attempt("streams", lambda: retire_streams(pending))
    pending.attempt("checkpoints", lambda: keep_checkpoints(pending))
    pending.attempt("pauses", lambda: pause_queries(pending))
    # Producers first: where they are decides where their consumers stand.
    for fragment in view.dataflow.fragments.values():
        if fragment.key in pending.fragments and fragment.key in view.fragments:
            pending.attempt(fragment.key, lambda key=fragment.key: heal(pending, key))
    empty_leaving_hosts(pending)
    pursue(pending)
    pending.attempt("failure domains", lambda: separate_replicas(pending))
    complete(pending)
    carry_on(pending)
    pending.attempt("periodic statements", lambda: note_releases(pending))
    # Before new plans, which rest on what the fragments that run cost now.
    pending.attempt("costs", lambda: note_drift(pending))
    pending.attempt("costs", lambda: suggest_costs(pending))
    place_new(pending)
    take_consents(pending)
    pending.attempt(AUTOMATION, lambda: automate(pending))
    choose_again(pending)
    pending.attempt("checkpoints", lambda: name_gaps(pending))
    pending.attempt("pauses", lambda: name_lost_input(pending))
    pending.attempt("savepoints", lambda: take_savepoints(pending))
    pending.attempt("load", lambda: _name_overload(pending))
    pending.attempt("load", lambda: name_late_hosts(pending))
    pending.attempt("versions", lambda: name_wire_gaps(pending))
    pending.attempt("streams", lambda: start_streams(pending))
    pending.attempt("streams", lambda: renew_streams(pending))
    pending.attempt("streams", lambda: note_slips(pending))
    pending.attempt("streams", lambda: keep_feeding(pending))
    pending.attempt("maintenance", lambda: keep_slot(pending))
    _assign(pending)
    figures: list[ClusterFigures] = []
    if figured is not None:
        # Last, of everything as it will be.
        pending.attempt(
            SUBJECT, lambda: figures.append(cluster_figures(pending.planning, now_us, figured))
        )
    return Decision(
        writes=tuple(pending.writes),
        problems=tuple(pending.problems),
        failures=tuple(pending.failures),
        figures=next(iter(figures), None),
    )


def _keep_clocks(pending: PendingDecision) -> None:
    """Write by how much the cluster's clock is ahead of those of its machines, if it is not so."""
    view = pending.view
    if not view.clocks_readable:
        return
    nodes = [found.record for found in view.nodes.values()]
    shown_us = [one.at_us for each in view.checkpoints.values() for one in each.record.stored]
    pending.clocks = revised_clocks(view.cluster_clocks, nodes, max(shown_us, default=0))
    if pending.clocks != view.cluster_clocks:
        version = None if view.clocks is None else view.clocks.version
        pending.write(CLOCKS, pending.clocks, version)


def _retire(pending: PendingDecision) -> None:
    """Delete the fragments of queries that are gone, not of those that cannot be read."""
    view = pending.view
    unreadable = {error.path.rsplit("/", 1)[1] for error in view.invalid if "/" in error.path}
    unreadable |= {problem.query for problem in view.problems}
    wanted = {fragment.key for fragment in view.dataflow.fragments.values()}
    for name, record in [*pending.fragments.items()]:
        if name not in wanted and record.query not in unreadable:
            gone = record.query not in view.queries
            why = "its query is gone" if gone else "its query has no such statement any more"
            pending.delete_fragment(name, pending.event("retired", name, why))


def _name_overload(pending: PendingDecision) -> None:
    """Say which nodes and machines are too busy, and what relieves them."""
    found = pending.planning.places() if pending.view.overloaded else ()
    for place in found:
        if place.subject in pending.view.overloaded:
            remedy = advice(pending.view, place, largest(place, pending.planning.work), found)
            pending.problems.append(
                f"{place.subject} is overloaded: {place.takers} take more than "
                f"{place.limit_cores:.2f} of {place.capacity_cores:g} cores. {remedy}"
            )


def _assign(pending: PendingDecision) -> None:
    view = pending.view
    leave = {name for name in view.leaving if may_end(remaining(pending, name))}
    wanted = assignments(
        pending.planning,
        pending.clocks,
        pending.links,
        kept(pending),
        leave,
        needed_ms(pending),
        max(wanted_us(pending), checkpoints_us(pending)),
        saves(view),
    )
    broken = view.broken(ASSIGNMENTS)
    for name, derived in wanted.items():
        assignment = derived.as_read_by(pending.records)
        found, error = view.assignments.get(name), broken.get(name)
        if error is not None:
            if follows(pending.planning, name):
                pending.write(ASSIGNMENTS.key(name), assignment, error.version)
        elif found is None or found.record != assignment:
            version = None if found is None else found.version
            pending.write(ASSIGNMENTS.key(name), assignment, version)
    unwanted = {name: found.version for name, found in view.assignments.items()}
    unwanted |= {name: error.version for name, error in broken.items()}
    for name, version in unwanted.items():
        if name not in wanted and name not in view.broken(NODES):
            pending.write(ASSIGNMENTS.key(name), None, version)
