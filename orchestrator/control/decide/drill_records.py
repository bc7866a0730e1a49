"""What drills ask for by records: it ends by itself.

A drill creates the record of a link's fault, of a process's, or of a cordon, and deletes it. If it
cannot, the leader does so at the end that the record states. Hosts and other processes end a fault
then without being told. A process fails for a minute at most (`LONGEST_STRIKE_US`), a link for ten:
so long, plans that rest on measured round trips can be made and carried out.
"""

from __future__ import annotations

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.records import LONGEST_STRIKE_US
from orchestrator.store.protocol import CORDONS, LINKS, STRIKES

LONGEST_LINK_FAULT_US = 600_000_000
"""The record of a link's fault that states a later end is taken for a mistake."""


def end_link_faults(pending: PendingDecision) -> None:
    """Delete the records of faults that are over, or would last too long."""
    found = pending.view.links
    ended = {name for name, each in found.items() if not _lasts(each.record.until_us, pending)}
    pending.links = tuple(each.record for name, each in found.items() if name not in ended)
    for name in sorted(ended):
        record, version = found[name].record, found[name].version
        detail = "its time is over"
        if record.until_us > pending.now_us:
            detail = f"it was to last longer than {LONGEST_LINK_FAULT_US / 1e6:g} s"
        event = pending.event("link restored", name, detail)
        pending.write(LINKS.key(name), None, version, event)


def end_strikes(pending: PendingDecision) -> None:
    """Delete the records of processes' faults that are over, or are asked for much too early."""
    for name, found in sorted(pending.view.strikes.items()):
        record = found.record
        early_us = record.take_by_us - pending.now_us - LONGEST_STRIKE_US
        if record.until_us <= pending.now_us or early_us > 0:
            detail = f"{record.kind.value}: its time is over"
            if early_us > 0:
                detail = f"{record.kind.value}: it was asked for more than a minute ahead"
            event = pending.event("strike over", name, detail)
            pending.write(STRIKES.key(name), None, found.version, event)


def end_cordons(pending: PendingDecision) -> None:
    """Let nodes be used again whose cordons are over."""
    for name, found in sorted(pending.view.cordons.items()):
        until_us = found.record.until_us
        if until_us is not None and until_us <= pending.now_us:
            event = pending.event("uncordoned", name, "its time is over: it may be used again")
            pending.write(CORDONS.key(name), None, found.version, event)


def _lasts(until_us: int, pending: PendingDecision) -> bool:
    return pending.now_us < until_us <= pending.now_us + LONGEST_LINK_FAULT_US
