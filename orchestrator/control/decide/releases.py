"""From where STIME and ETIME of periodic statements count, and that they have ended.

Replicas know it by their state. The fragment's record keeps it for a state that begins from
nothing, once both replicas are lost. The history tells of the end once.
"""

from __future__ import annotations

import msgspec

from foundation.timestamps import timestamp_text
from orchestrator.control.decide.decision import PendingDecision

ENDED = "statement ended"
"""Kind of the event that a periodic statement has passed ETIME."""


def note_releases(pending: PendingDecision) -> None:
    """Keep what primaries say of the beginning and end of their periodic statements."""
    for key, found in pending.view.fragments.items():
        record, status = (
            pending.fragments.get(key),
            pending.view.status(found.record.primary, found.record.fragment),
        )
        if (
            record is None
            or status is None
            or status.counts_from_ms is None
            or status.generation != record.generation
        ):
            continue
        said = status.counts_from_ms, status.ended_ms
        if said == (record.counts_from_ms, record.ended_ms):
            continue
        if record.ended_ms is not None and said[0] == record.counts_from_ms:
            # Who has taken over has yet to come that far.
            continue
        fields = {"counts_from_ms": said[0], "ended_ms": said[1]}
        if said[1] is None:
            pending.put_fragment(msgspec.structs.replace(record, **fields), None)
        else:
            at = timestamp_text(said[1])
            detail = f"at {at}, its ETIME; it evaluates nothing more, and keeps no state"
            pending.change_fragment(record, ENDED, detail, **fields)
