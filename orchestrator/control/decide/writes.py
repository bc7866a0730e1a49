"""The leader's writes, given the content of the store: a pure function, and idempotent.

The writes come in an order in which every prefix is a legal state: records first, assignments
derived from them last. Whoever applies them stops at the first conflict, reads again and decides
again. Once all are applied, deciding again yields nothing; only what a new primary costs is noted
in the decision after the one that made it primary, and a fragment's next move begins in the
decision after the one that ended the move before, or that wrote the move's plan.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from orchestrator.control.decide.apart import go_apart
from orchestrator.control.decide.assignments import assignments, follows
from orchestrator.control.decide.completing import complete
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision, Write
from orchestrator.control.decide.drill_records import end_cordons, end_link_faults
from orchestrator.control.decide.healing import heal, kept
from orchestrator.control.decide.late_hosts import name_late_hosts
from orchestrator.control.decide.moving import pursue
from orchestrator.control.decide.placing import place_new
from orchestrator.control.decide.schemes import choose_again
from orchestrator.control.decide.stream_sites import keep_feeding
from orchestrator.control.observe.clocks import revised_clocks
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.costs import cost_line, misstated_cost_us
from orchestrator.control.planning.utilisation import advice, largest
from orchestrator.documents.units import figure
from orchestrator.records import NodeRecord
from orchestrator.store.protocol import ASSIGNMENTS, CLOCKS, NODES, STREAMS

SLIP_STEP_MS = 1000.0
"""What a source that waits must have slipped further before that is written again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Writes in order, and the problems that prevent more of them.

    Attributes
    ----------
    failures
        Bugs that kept something from being decided; each is one of the problems too.
    """

    writes: tuple[Write, ...]
    problems: tuple[str, ...]
    failures: tuple[Exception, ...] = ()


def decide(view: ClusterView, now_us: int, settings: DecisionSettings) -> Decision:
    """Everything there is to do.

    Parameters
    ----------
    view
        As read from the store.
    now_us
        The cluster's clock.
    """
    pending = PendingDecision(view, now_us, settings)
    if not view.settings_readable:
        # Everything rests on them.
        return Decision(writes=(), problems=tuple(pending.problems))
    _keep_clocks(pending)
    end_link_faults(pending)
    end_cordons(pending)
    _retire(pending)
    # Producers first: where they are decides where their consumers stand.
    for fragment in view.dataflow.fragments.values():
        if fragment.key in pending.fragments and fragment.key in view.fragments:
            pending.attempt(fragment.key, lambda key=fragment.key: heal(pending, key))
    pursue(pending)
    pending.attempt("failure domains", lambda: go_apart(pending))
    complete(pending)
    # Before new plans, which rest on what the fragments that run cost now.
    pending.attempt("costs", lambda: _note_drift(pending))
    pending.attempt("costs", lambda: _suggest_costs(pending))
    place_new(pending)
    choose_again(pending)
    pending.attempt("load", lambda: _name_overload(pending))
    pending.attempt("load", lambda: name_late_hosts(pending))
    pending.attempt("streams", lambda: _start_streams(pending))
    pending.attempt("streams", lambda: _renew_streams(pending))
    pending.attempt("streams", lambda: _note_slips(pending))
    pending.attempt("streams", lambda: keep_feeding(pending))
    _assign(pending)
    return Decision(
        writes=tuple(pending.writes),
        problems=tuple(pending.problems),
        failures=tuple(pending.failures),
    )


def _keep_clocks(pending: PendingDecision) -> None:
    """Write by how much the cluster's clock is ahead of those of its machines, if it is not so."""
    view = pending.view
    if not view.clocks_readable:
        return
    nodes = [found.record for found in view.nodes.values()]
    pending.clocks = revised_clocks(view.cluster_clocks, nodes)
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
            pending.delete_fragment(name, pending.event("retired", name, "its query is gone"))


def _note_drift(pending: PendingDecision) -> None:
    """Say so when evaluating a fragment costs something else than its plan rests on."""
    view, settings = pending.view, pending.settings
    for fragment in view.dataflow.fragments.values():
        record, found = pending.fragments.get(fragment.key), view.fragments.get(fragment.key)
        if record is None or found is None or record.primary != found.record.primary:
            # Costs were measured on the primary before; the next decision looks again.
            continue
        if view.measured_cost(fragment) is None:
            continue
        timing, cost_ms = record.timing, pending.planning.work.fragments[fragment.name].instance_ms
        change_ms = abs(cost_ms - timing.cost_ms)
        if (
            change_ms <= settings.drift * timing.cost_ms
            or change_ms <= settings.drift_share * timing.sub_deadline_ms
        ):
            continue
        detail = f"evaluating a burst takes {figure(cost_ms)} ms, the plan rests on "
        detail += f"{figure(timing.cost_ms)} ms; sub-deadline {figure(timing.sub_deadline_ms)} ms"
        renewed = msgspec.structs.replace(timing, cost_ms=cost_ms)
        pending.change_fragment(record, "re-plan proposed", detail, timing=renewed)


TOLD_AGAIN = 2.0
"""Factor by which a measured cost has to change until the history tells of it again."""


def _suggest_costs(pending: PendingDecision) -> None:
    """Say what a manifest should state as a fragment's cost if what it states is far off."""
    view = pending.view
    for name, work in pending.planning.work.fragments.items():
        record, found = (
            pending.fragments.get(work.fragment.key),
            view.fragments.get(work.fragment.key),
        )
        measured_us = misstated_cost_us(view, work)
        if record is None or found is None or measured_us is None:
            continue
        told_us = record.told_cost_us
        if told_us is not None and 1 / TOLD_AGAIN < measured_us / told_us < TOLD_AGAIN:
            continue
        if record.primary != found.record.primary:
            continue
        detail = f"a tuple takes {float(f'{measured_us:.3g}'):,.10g} us, the manifest states "
        detail += f"{work.stated_cost_us:,g} us; write under estimates: "
        detail += cost_line(name, measured_us)
        pending.change_fragment(record, "cost differs", detail, told_cost_us=measured_us)


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


def _start_streams(pending: PendingDecision) -> None:
    """Start the streams that can start now.

    A source must not start before every query that reads it runs with a warm secondary for each
    fragment and with its sinks listening: tuples that entered earlier would be unprotected. Streams
    that feed one query start at the same time, else one would keep the other waiting for good. The
    same holds for all streams that are connected through queries. A stream that joins a started one
    gets the same start time, and so catches up with it.
    """
    view, known = pending.view, pending.planning.streams
    begin_us = pending.now_us + pending.settings.start_delay_us
    for streams, queries in _connected_streams(view):
        waiting = [name for name in streams if known[name].start_at_us is None]
        if not waiting or not _ready(pending, streams, queries):
            continue
        started = [known[name].start_at_us for name in streams]
        at_us = min((start for start in started if start is not None), default=begin_us)
        for name in waiting:
            site = view.nodes[known[name].feeding_site].record
            known[name] = msgspec.structs.replace(
                known[name],
                start_at_us=at_us,
                incarnation=None if known[name].resumes else site.incarnation,
            )
            event = pending.event("stream starts", name, "everything that reads it is protected")
            pending.write(STREAMS.key(name), known[name], view.streams[name].version, event)


def _renew_streams(pending: PendingDecision) -> None:
    """Have streams begin anew whose site cannot continue their numbering.

    The site was started again, or is assigned a stream that it was relieved of: then its host has
    discarded the log with the numbers.
    """
    view, known = pending.view, pending.planning.streams
    for name, stream in known.items():
        site = view.nodes.get(stream.feeding_site)
        if stream.incarnation is None or site is None:
            continue
        if site.record.incarnation != stream.incarnation:
            why = "was started again"
        elif _relieved(view, site.record, name):
            why = "was relieved of it for a while"
        else:
            continue
        renewed = msgspec.structs.replace(
            stream, generation=stream.generation + 1, incarnation=site.record.incarnation
        )
        known[name] = renewed
        detail = f"{stream.feeding_site} {why} and its source cannot resume; "
        detail += f"generation {renewed.generation}"
        event = pending.event("stream begins anew", name, detail)
        pending.write(STREAMS.key(name), renewed, view.streams[name].version, event)


def _note_slips(pending: PendingDecision) -> None:
    """Keep by how much sources have had to wait, for the time after their sites' restarts.

    While a source waits, hosts report more every second, so it is written in steps.
    """
    view, known = pending.view, pending.planning.streams
    for name, stream in known.items():
        site = view.nodes.get(stream.feeding_site)
        status = None if site is None else site.record.sources.get(name)
        if status is None or stream.start_at_us is None or not stream.resumes:
            continue
        more_ms = status.slipped_ms - stream.slipped_ms
        # Of two sites, the one that has taken over may have slipped less.
        is_less = stream.standby is not None and more_ms <= -SLIP_STEP_MS
        if is_less or more_ms >= SLIP_STEP_MS or (more_ms > 0 and not status.throttled):
            known[name] = msgspec.structs.replace(stream, slipped_ms=status.slipped_ms)
            pending.write(STREAMS.key(name), known[name], view.streams[name].version)


def _relieved(view: ClusterView, site: NodeRecord, stream: str) -> bool:
    """Whether a site's present assignment leaves out a stream that enters there."""
    found = view.assignments.get(site.node)
    if found is None or found.record.incarnation != site.incarnation:
        return False
    return all(source.stream != stream for source in found.record.sources)


def _connected_streams(view: ClusterView) -> list[tuple[list[str], set[str]]]:
    """Streams that enter from outside, connected by the queries that read them."""
    groups: list[tuple[set[str], set[str]]] = []
    unreadable = {problem.query for problem in view.problems}
    known = view.stream_records
    for query in sorted(view.queries.keys() - unreadable):
        streams, queries = view.dataflow.entering_streams(query), {query}
        streams |= {name for name, each in known.items() if each.beside in streams}
        for group in [group for group in groups if group[0] & streams]:
            groups.remove(group)
            streams, queries = streams | group[0], queries | group[1]
        groups.append((streams, queries))
    return [(sorted(streams), queries) for streams, queries in groups]


def _ready(pending: PendingDecision, streams: list[str], queries: set[str]) -> bool:
    """Whether everything that reads these streams, and delivers what is made of them, is there."""
    view = pending.view
    hosts = {name: found.record for name, found in view.nodes.items()}
    entering = [(site, name) for name in streams for site in view.stream_records[name].opened_at]
    leaving = [
        (site, stream)
        for query in queries
        for stream, site in view.queries[query].record.outputs.items()
    ]
    # Records as they will be: a replica that was just assigned is not warm.
    records = [pending.fragments.get(f.key) for query in queries for f in view.dataflow.of(query)]
    return (
        all(site in hosts and stream in hosts[site].sources for site, stream in entering)
        and all(r is not None and (r.stopped or view.protected(r)) for r in records)
        and all(site in hosts and stream in hosts[site].sinks for site, stream in leaving)
    )


def _assign(pending: PendingDecision) -> None:
    view = pending.view
    wanted = assignments(pending.planning, pending.clocks, pending.links, kept(pending))
    broken = view.broken(ASSIGNMENTS)
    for name, assignment in wanted.items():
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
