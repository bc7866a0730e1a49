"""Proposals: how the leader responds to requests, and what it does once a client has consented.

Planning takes long, so it does not hold up decisions: requests are responded to beside them
(`answer`). A decision takes the consent (`take_consents`): it compares what the proposal rests on
with what there is, and accepts it in one write. What follows only writes what is named there, so
that any leader can go on where another one has stopped:

- what is new: streams first, then for each query how it runs, and the query. The placement of a new
  query is the proposal's as long as all that it rests on is still so (`placing`);
- a change of a query that runs (`changing`);
- moves: the cordon of a node that is drained, then the plan of moves (`moving` carries it out);
- a deletion: queries, readers before what they read, then streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from orchestrator.checkpoints.savepoint import OpenSavepoint, kept_savepoint
from orchestrator.control.decide.admission import Admission, admit, check_readable
from orchestrator.control.decide.asked_moves import plan_moves
from orchestrator.control.decide.basis import changes_since, digests, under_deletion, under_moves
from orchestrator.control.decide.changing import alter
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.deletions import plan_deletion
from orchestrator.control.decide.explaining import explain_fragment, explain_refusal
from orchestrator.control.decide.figures import fragment_plans, place_loads, query_plans
from orchestrator.control.decide.from_savepoint import Begun, begin_from, saved_queries
from orchestrator.control.decide.move_steps import Places, then
from orchestrator.control.decide.plan_files import (
    automatic_file,
    being_moved,
    moves_of_file,
    rebalancing_file,
    undo_file,
)
from orchestrator.control.decide.savepoints import note_departures
from orchestrator.control.observe.failure_domains import HostDomains
from orchestrator.control.observe.named import cordon_to_write
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.trying import Tries
from orchestrator.errors import InvalidInput, Refused
from orchestrator.records import (
    ApplyPlanRequest,
    ApplyRequest,
    AutomaticRequest,
    ChangedQuery,
    DeleteRequest,
    Deletion,
    ExplainRefusalRequest,
    ExplainRequest,
    MovePlan,
    MoveStep,
    PlanDocument,
    PlannedMove,
    PlannedMoves,
    ProposalRecord,
    QueryManifest,
    QueryRecord,
    RebalanceRequest,
    Refusal,
    RequestRecord,
    RunningQueryRecord,
    UndoRequest,
)
from orchestrator.store.protocol import (
    CORDONS,
    MOST_BYTES,
    MOVES,
    PROPOSALS,
    QUERIES,
    RUNNING_QUERIES,
    SAVEPOINTS,
    STREAMS,
    Versioned,
    encode,
)


def unanswered(view: ClusterView) -> Iterator[str]:
    """Names of requests that have no proposal yet."""
    for name, found in view.requests.items():
        known = view.proposals.get(name)
        if known is None or known.record.request != found.created:
            yield name


def answer(
    view: ClusterView,
    asked: Versioned[RequestRecord],
    tries: Tries | None,
    open_savepoint: OpenSavepoint = kept_savepoint,
) -> ProposalRecord:
    """What the leader proposes."""
    try:
        proposal = _proposed(view, asked, tries, open_savepoint)
    except (InvalidInput, Refused) as error:
        proposal = ProposalRecord(request=asked.created, refusal=Refusal.of(error))
    return _that_fits(asked, msgspec.structs.replace(proposal, by=asked.record.by))


def _that_fits(asked: Versioned[RequestRecord], proposal: ProposalRecord) -> ProposalRecord:
    """A proposal, or a refusal of it if the store would not take it."""
    if (size := len(encode(proposal))) > MOST_BYTES:
        problem = f"makes a proposal of {size:,} bytes, of which the store takes {MOST_BYTES:,}"
        remedy = "Ask for less at a time."
        if isinstance(asked.record.wish, RebalanceRequest):
            remedy = "Ask for fewer moves at a time: --max-moves, or --query."
        return _refused(asked, problem, remedy)
    return proposal


def _proposed(
    view: ClusterView,
    asked: Versioned[RequestRecord],
    tries: Tries | None,
    open_savepoint: OpenSavepoint,
) -> ProposalRecord:
    match asked.record.wish:
        case ApplyRequest(streams=streams, queries=queries, begin=begin, savepoint=named):
            check_readable(view, [each.record for each in (*streams, *queries)])
            saved = saved_queries(view, named, queries, open_savepoint) if named else None
            admission = admit(view, streams, queries, tries, begin, saved)
            # The store has issued this number after those of all former changes.
            number = view.number_of(asked)
            moves = changed_moves(view, admission, asked.created)
            begun = Begun(placements=admission.placements)
            if saved is not None:
                begun = begin_from(view, admission, saved, streams, queries, number)
            return ProposalRecord(
                request=asked.created,
                plan=plan_document(view, admission, begun.told),
                streams=tuple(s.record for s in streams if s.record.name not in view.streams),
                queries=tuple(q.record for q in queries if q.record.name not in view.queries),
                running=tuple(
                    msgspec.structs.replace(admission.running[name], change=number)
                    if name in admission.begun
                    else admission.running[name]
                    for name in (each.record.name for each in queries)
                    if name not in view.queries and name in admission.running
                ),
                placements=begun.placements,
                checkpoints=begun.checkpoints,
                alterations=tuple(
                    changes.alteration(
                        view_query(queries, name),
                        admission.running.get(name, RunningQueryRecord(name=name)),
                        number,
                    )
                    for name, changes in admission.changes.items()
                ),
                moves=moves,
                basis=admission.basis | _under_savepoint(view, named),
            )
        case DeleteRequest() as wish:
            deletion = plan_deletion(view, wish)
            basis = digests(Planning.of(view), under_deletion(view, deletion))
            return ProposalRecord(request=asked.created, deletion=deletion, basis=basis)
        case ExplainRequest(fragment=fragment):
            explanation = explain_fragment(view, fragment)
            return ProposalRecord(request=asked.created, explanation=explanation)
        case ExplainRefusalRequest(streams=streams, queries=queries):
            why = explain_refusal(view, streams, queries, tries)
            return ProposalRecord(request=asked.created, explanation=why)
        case RebalanceRequest() as wish:
            return ProposalRecord(request=asked.created, file=rebalancing_file(view, wish))
        case AutomaticRequest() as wish:
            return ProposalRecord(request=asked.created, file=automatic_file(view, wish))
        case UndoRequest(plan=plan):
            return ProposalRecord(request=asked.created, file=undo_file(view, plan))
        case ApplyPlanRequest() as wish:
            moves = moves_of_file(view, wish, asked.created)
            return ProposalRecord(request=asked.created, moves=moves, basis=wish.plan.basis)
        case wish:
            moves = plan_moves(view, wish, asked.created)
            basis = digests(Planning.of(view), under_moves(moves.moves), timed=False)
            return ProposalRecord(request=asked.created, moves=moves, basis=basis)


def _under_savepoint(view: ClusterView, named: str) -> dict[str, str]:
    return digests(Planning.of(view), [SAVEPOINTS.key(named).path]) if named else {}


def refused_by_a_bug(asked: Versioned[RequestRecord], error: Exception) -> ProposalRecord:
    """The answer to a request that a bug keeps from being answered."""
    problem = f"cannot be planned, internal error: {error!r}"
    return _that_fits(asked, _refused(asked, problem, "Report it, with what was asked for."))


def _refused(asked: Versioned[RequestRecord], problem: str, remedy: str) -> ProposalRecord:
    wish = type(asked.record.wish).__struct_config__.tag
    refused = Refused("what is asked for", "wish", wish, problem, remedy, {})
    return ProposalRecord(request=asked.created, refusal=Refusal.of(refused))


def plan_document(
    view: ClusterView, admission: Admission, begun: Iterable[ChangedQuery] = ()
) -> PlanDocument:
    """A plan as a document, compared with the placements that run.

    Parameters
    ----------
    begun
        What becomes of queries that begin from a savepoint.
    """
    running = [found.record for found in view.fragments.values()]
    return PlanDocument(
        fragments=fragment_plans(HostDomains(view), admission.plan, running),
        queries=query_plans(admission.plan),
        waiting=dict(admission.waiting),
        loads=place_loads(admission.places),
        method=view.settings.placement.method,
        rewrites={
            name: query.rewrites for name, query in admission.running.items() if query.rewrites
        },
        changed=(
            *begun,
            *(
                msgspec.structs.replace(
                    each.told,
                    moves=sum(step.fragment.startswith(f"{name}.") for step in admission.moves),
                )
                for name, each in admission.changes.items()
            ),
        ),
    )


def changed_moves(view: ClusterView, admission: Admission, number: int) -> PlannedMoves | None:
    """The moves to where changed queries keep what they ask for; None: there are none."""
    if not admission.moves:
        return None
    figures = {each.query: each for each in admission.plan.queries}
    moves: list[PlannedMove] = []
    for step in admission.moves:
        record = view.fragments[step.fragment].record
        query = figures[record.query]
        assert record.secondary is not None, "it could not be moved without one"
        was = (record.primary.node, record.secondary.node)
        nodes = then(Places(primary=was[0], secondary=was[1]), step)
        moves.append(
            PlannedMove(
                fragment=step.fragment,
                role=step.role,
                node=step.node,
                primary=(was[0], nodes.primary),
                secondary=(was[1], nodes.secondary),
                recovery_ms=(query.recovery_ms, query.recovery_ms),
                bound_ms=query.bound_ms,
                latency_ms=(query.latency_ms, query.latency_ms),
                deadline_ms=query.deadline_ms,
            )
        )
    name = f"change-{number}"
    return PlannedMoves(name=name, moves=tuple(moves), keep_going=True)


def view_query(queries: Iterable[QueryManifest], name: str) -> QueryRecord:
    """The record of a query that is applied."""
    return next(each.record for each in queries if each.record.name == name)


def take_consents(pending: PendingDecision) -> None:
    """Accept or refuse what clients have consented to, and write what was accepted.

    What others have accepted comes first. A deletion, or moves, are compared with all that was
    accepted before them, and what comes after with what they leave: each in a decision of its own.

    Proposals that nobody asks for any more are deleted: those that nobody has consented to, and
    those that are settled.
    """
    made = len(pending.writes)
    for name, found in sorted(pending.view.proposals.items(), key=_turn):
        alone = found.record.deletion is not None or found.record.moves is not None
        if alone and not found.record.is_open and len(pending.writes) > made:
            break
        pending.attempt(
            f"proposal {name}", lambda name=name, found=found: _take(pending, name, found)
        )
        if alone and len(pending.writes) > made:
            break
    for name, broken in pending.view.broken(PROPOSALS).items():
        pending.write(PROPOSALS.key(name), None, broken.version)
    _discard_gone(pending)


def _turn(each: tuple[str, Versioned[ProposalRecord]]) -> tuple[bool, bool, str]:
    name, found = each
    return not found.record.is_open, found.record.deletion is not None, name


def _discard_gone(pending: PendingDecision) -> None:
    """Delete how queries run that are gone."""
    view = pending.view
    kept = view.queries.keys() | view.broken(QUERIES).keys()
    kept |= {
        query.name
        for found in view.proposals.values()
        if found.record.consented and not found.record.created
        for query in found.record.queries
    }
    for name, found in view.running_queries.items():
        if name not in kept:
            pending.write(RUNNING_QUERIES.key(name), None, found.version)
    for name, broken in view.broken(RUNNING_QUERIES).items():
        if name not in kept:
            pending.write(RUNNING_QUERIES.key(name), None, broken.version)


def _take(pending: PendingDecision, name: str, found: Versioned[ProposalRecord]) -> None:
    proposal = found.record
    key, version = PROPOSALS.key(name), found.version
    if proposal.consented and not proposal.accepted and not proposal.changed:
        changed = _changes(pending, proposal)
        settled = msgspec.structs.replace(proposal, accepted=not changed, changed=tuple(changed))
        pending.write(key, settled, version)
        proposal, version = settled, version + 1
    if proposal.is_open:
        note_departures(pending, _departures(proposal))
        _create(pending, proposal)
        alter(pending, proposal)
        if proposal.moves is not None:
            _begin_moves(pending, proposal.moves, proposal.by)
        if proposal.deletion is not None:
            _delete(pending, proposal.deletion)
        pending.write(key, msgspec.structs.replace(proposal, created=True), version)
    elif name not in pending.view.requests and _is_settled(pending, proposal):
        pending.write(key, None, version)


def _departures(proposal: ProposalRecord) -> dict[str, str]:
    """Query whose statements become others → how."""
    found = {
        each.query.name: f"query {each.query.name} was changed in place"
        for each in proposal.alterations
        if each.former or each.restarted
    }
    begun = {each.name: each.savepoint for each in proposal.running if each.savepoint}
    for placed in proposal.placements:
        if placed.query in begun and any(each.changing for each in placed.created):
            how = f"query {placed.query} began from savepoint {begun[placed.query]}"
            found[placed.query] = f"{how} with other statements"
    return found


def _changes(pending: PendingDecision, proposal: ProposalRecord) -> list[str]:
    """What is not as the proposal rests on it: records that have changed, names that were taken."""
    view = pending.view
    taken = [STREAMS.key(s.name).path for s in proposal.streams if s.name in view.streams]
    taken += [QUERIES.key(q.name).path for q in proposal.queries if q.name in view.queries]
    if proposal.moves is not None and proposal.moves.digest:
        taken += [path for path, _, _ in being_moved(view, proposal.moves.moves)]
    return sorted({*taken, *changes_since(pending.planning, proposal)})


def _is_settled(pending: PendingDecision, proposal: ProposalRecord) -> bool:
    """Whether nothing follows from it any more."""
    if not proposal.accepted:
        return True
    return all(
        record.key in pending.fragments or placed.query not in pending.view.queries
        for placed in proposal.placements
        for record in placed.created
    )


def _create(pending: PendingDecision, proposal: ProposalRecord) -> None:
    """Write the streams and queries that are not there yet."""
    view = pending.view
    running = {each.name: each for each in proposal.running}
    for stream in proposal.streams:
        if stream.name not in view.streams:
            event = pending.event("applied", f"stream {stream.name}", f"enters at {stream.site}")
            pending.write(STREAMS.key(stream.name), stream, None, event)
    for query in proposal.queries:
        if query.name in view.queries:
            continue
        before, wanted = view.running_queries.get(query.name), running.get(query.name)
        if wanted is not None and wanted.savepoint:
            wanted = msgspec.structs.replace(wanted, began_us=pending.now_us)
        if wanted != (None if before is None else before.record):
            version = None if before is None else before.version
            pending.write(RUNNING_QUERIES.key(query.name), wanted, version)
        detail = f"deadline {query.deadline_ms:g} ms, "
        detail += f"recovery bound {query.recovery_bound_ms:g} ms"
        event = pending.event("applied", f"query {query.name}", detail)
        pending.write(QUERIES.key(query.name), query, None, event)


def _begin_moves(pending: PendingDecision, planned: PlannedMoves, by: str) -> None:
    """Write the cordon and the plan of moves, if they are not there yet."""
    view, node = pending.view, planned.drains
    if node is not None:
        wanted = cordon_to_write(view, node, planned.cordon_s, pending.now_us)
        if wanted is not None:
            record, detail = wanted
            found = view.cordons.get(node)
            version = None if found is None else found.version
            event = pending.event("cordoned", node, detail)
            pending.write(CORDONS.key(node), record, version, event)
    if planned.moves and planned.name not in view.moves:
        plan = MovePlan(
            name=planned.name,
            steps=tuple(
                MoveStep(
                    fragment=each.fragment,
                    role=each.role,
                    node=each.node,
                    state_bytes=each.state_bytes,
                    was=(each.primary[0], each.secondary[0]),
                )
                for each in planned.moves
            ),
            at_a_time=planned.at_a_time,
            keep_going=planned.keep_going,
            throttle_bytes_s=planned.throttle_bytes_s,
            drains=node,
            undo_of=planned.undo_of,
            digest=planned.digest,
            stated=planned.stated,
            by=by,
            submitted_us=pending.now_us,
        )
        pending.write(MOVES.key(planned.name), plan, None)


def _delete(pending: PendingDecision, deletion: Deletion) -> None:
    """Delete what is still there; what was decided of it goes in the next decisions."""
    view = pending.view
    for name in deletion.queries:
        if (query := view.queries.get(name)) is not None:
            event = pending.event("deleted", f"query {name}", "")
            pending.write(QUERIES.key(name), None, query.version, event)
    for name in deletion.streams:
        if (stream := view.streams.get(name)) is not None:
            event = pending.event("deleted", f"stream {name}", "nothing reads it any more")
            pending.write(STREAMS.key(name), None, stream.version, event)
