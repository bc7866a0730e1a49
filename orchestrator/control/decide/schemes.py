"""Choosing again how secondaries are fed, while everything runs and nothing else is planned.

A query whose `standby` is `adaptive` is fed by measured costs and latencies. They drift, so each
decision looks whether the chosen batches still keep the recovery bound and still take little
traffic. The present choice is kept unless it breaks the bound, or another one saves a good share of
the traffic and leaves a margin before the bound (`placement.standby_schemes`, `Fed.cheapest`). A
change of B or T is safe at any moment: it moves nobody.
"""

from __future__ import annotations

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.planning.feeding import feedings, with_feeding
from orchestrator.documents.units import figure
from orchestrator.records import FragmentRecord, QueryRecord, Scheme, Timing
from placement.standby_schemes import NEVER, NO_CHECKPOINTS, Feeding

SCHEME_CHANGED = "standby scheme changed"
"""Kind of the event that a secondary is fed otherwise than before."""


def choose_again(pending: PendingDecision) -> None:
    """Feed the secondaries of adaptive queries otherwise where that has become worth its while."""
    for name, query in pending.planning.queries.items():
        if query.standby.scheme is Scheme.ADAPTIVE:
            pending.attempt(name, lambda query=query: _choose(pending, query))


def _choose(pending: PendingDecision, query: QueryRecord) -> None:
    planning = pending.planning
    records = {
        work.name: record
        for work in planning.work.of(query.name)
        if (record := pending.fragments.get(work.fragment.key)) is not None
    }
    # Only where all is quiet: otherwise the fragment that heals is fed anew anyway.
    if len(records) < len(planning.work.of(query.name)) or not all(
        _is_quiet(pending, record) for record in records.values()
    ):
        return
    try:
        task = planning.task(query.name)
    except InvalidQuery:
        return
    nodes = {each.node for record in records.values() for each in record.replicas}
    if not nodes <= task.network.index.keys():
        return
    standbys = planning.standbys(task)
    primaries = {name: nodes[0] for name, nodes in task.kept.items()}
    running = {name: record.timing for name, record in records.items()}
    chosen = feedings(task, standbys, primaries, running)

    def grows(name: str) -> bool:
        """Whether it is sent later than now; others can wait for that only once they have changed
        themselves. Each write may be the last one of its leader."""
        new, now = chosen[name], running[name]
        return (new.batch, new.checkpoint_ms) > (now.batch, now.checkpoint_ms)

    for name in sorted(chosen, key=grows):
        record, found = records[name], chosen[name]
        timing = with_feeding(record.timing, found, standbys[name])
        if (timing.batch, timing.checkpoint_ms) == (
            record.timing.batch,
            record.timing.checkpoint_ms,
        ):
            continue
        detail = f"{described(record.timing)} → {described(timing)}: {reason(found)}"
        pending.change_fragment(record, SCHEME_CHANGED, detail, timing=timing)


def _is_quiet(pending: PendingDecision, record: FragmentRecord) -> bool:
    """Whether a fragment runs as its record says, is protected, and has no change pending."""
    found = pending.view.fragments.get(record.key)
    return found is not None and found.record == record and pending.view.protected(record)


def described(timing: Timing) -> str:
    """How a secondary is fed, in a phrase.

    >>> described(Timing(cost_ms=1.0, sub_deadline_ms=10.0, standby_lag_ms=10.0))
    'every tuple'
    """
    if timing.batch == 1:
        return "every tuple"
    sent = "no tuple" if timing.batch == NEVER else f"batches of {timing.batch}"
    if timing.checkpoint_ms == NO_CHECKPOINTS:
        return sent
    return f"{sent}, checkpoints every {timing.checkpoint_ms:g} ms"


def reason(found: Feeding) -> str:
    """The figures of a choice."""
    return f"{figure(found.bytes_s)} bytes/s, recovery {figure(found.recovery_ms)} ms"
