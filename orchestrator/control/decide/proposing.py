"""Proposals: how the leader responds to requests, and what it does once a client has consented.

Planning takes long, so it does not hold up decisions: requests are responded to beside them
(`answer`). A decision takes the consent (`take_consents`): it compares what the proposal rests on
with what there is, and accepts it in one write. What follows only creates what is named there, so
that any leader can go on where another one has stopped: streams first, then for each query how it
runs, and the query. The placement of a new query is the proposal's as long as all that it rests on
is still so (`placing`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.decide.figures import fragment_plans, place_loads, query_plans
from orchestrator.control.decide.placing import changes_since
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.trying import Tries
from orchestrator.errors import InvalidInput, Refused
from orchestrator.records import (
    ApplyRequest,
    PlanDocument,
    ProposalRecord,
    Refusal,
)
from orchestrator.store.protocol import (
    MOST_BYTES,
    PROPOSALS,
    QUERIES,
    RUNNING_QUERIES,
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
    view: ClusterView, asked: Versioned[ApplyRequest], tries: Tries | None
) -> ProposalRecord:
    """What the leader proposes."""
    request = asked.record
    try:
        admission = admit(view, request.streams, request.queries, tries)
    except (InvalidInput, Refused) as error:
        return ProposalRecord(request=asked.created, refusal=Refusal.of(error))
    proposal = ProposalRecord(
        request=asked.created,
        plan=plan_document(view, admission),
        streams=tuple(s.record for s in request.streams if s.record.name not in view.streams),
        queries=tuple(q.record for q in request.queries if q.record.name not in view.queries),
        running=tuple(
            admission.running[name]
            for name in (each.record.name for each in request.queries)
            if name not in view.queries and name in admission.running
        ),
        placements=admission.placements,
        basis=admission.basis,
    )
    if (size := len(encode(proposal))) > MOST_BYTES:
        problem = f"makes a proposal of {size:,} bytes, of which the store takes {MOST_BYTES:,}"
        too_large = Refused(
            "what is applied",
            "queries",
            len(request.queries),
            problem,
            "Apply fewer at a time.",
            {},
        )
        return ProposalRecord(request=asked.created, refusal=Refusal.of(too_large))
    return proposal


def refused_by_a_bug(asked: Versioned[ApplyRequest], error: Exception) -> ProposalRecord:
    """The answer to a request that a bug keeps from being answered."""
    problem = f"cannot be planned, internal error: {error!r}"
    remedy = "Report it, with the manifests."
    refused = Refused("what is applied", "queries", len(asked.record.queries), problem, remedy, {})
    return ProposalRecord(request=asked.created, refusal=Refusal.of(refused))


def plan_document(view: ClusterView, admission: Admission) -> PlanDocument:
    """A plan as a document, compared with the placements that run."""
    running = [found.record for found in view.fragments.values()]
    return PlanDocument(
        fragments=fragment_plans(view, admission.plan, running),
        queries=query_plans(admission.plan),
        waiting=dict(admission.waiting),
        loads=place_loads(admission.places),
        rewrites={
            name: query.rewrites for name, query in admission.running.items() if query.rewrites
        },
    )


def take_consents(pending: PendingDecision) -> None:
    """Accept or refuse what clients have consented to, and write what was accepted.

    Proposals that nobody asks for any more are deleted: those that nobody has consented to, and
    those that are settled.
    """
    for name, found in pending.view.proposals.items():
        pending.attempt(
            f"proposal {name}", lambda name=name, found=found: _take(pending, name, found)
        )
    for name, broken in pending.view.broken(PROPOSALS).items():
        pending.write(PROPOSALS.key(name), None, broken.version)
    _discard_gone(pending)


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
        _create(pending, proposal)
        pending.write(key, msgspec.structs.replace(proposal, created=True), version)
    elif name not in pending.view.requests and _is_settled(pending, proposal):
        pending.write(key, None, version)


def _changes(pending: PendingDecision, proposal: ProposalRecord) -> list[str]:
    """What is not as the proposal rests on it: records that have changed, names that were taken."""
    view = pending.view
    taken = [STREAMS.key(s.name).path for s in proposal.streams if s.name in view.streams]
    taken += [QUERIES.key(q.name).path for q in proposal.queries if q.name in view.queries]
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
        if query.name in running:
            before = view.running_queries.get(query.name)
            version = None if before is None else before.version
            if before is None or before.record != running[query.name]:
                pending.write(RUNNING_QUERIES.key(query.name), running[query.name], version)
        detail = f"deadline {query.deadline_ms:g} ms, "
        detail += f"recovery bound {query.recovery_bound_ms:g} ms"
        event = pending.event("applied", f"query {query.name}", detail)
        pending.write(QUERIES.key(query.name), query, None, event)
