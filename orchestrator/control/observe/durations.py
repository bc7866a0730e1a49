"""How long recoveries and moves took that have ended between two views of the leader."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.control.observe.report_checks import MOST_MS
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import FragmentRecord, RecoveryStatus


def recovered(
    before: ClusterView, after: ClusterView
) -> Iterator[tuple[FragmentRecord, RecoveryStatus]]:
    """Replicas that have taken over, and have caught up since, with what that took.

    A host may say so before the record has it as primary.
    """
    for key, found in sorted(after.fragments.items()):
        primary, fragment = found.record.primary, found.record.fragment
        old, new = (view.status(primary, fragment) for view in (before, after))
        if new is None or new.recovered is None:
            continue
        known = before.fragments.get(key)
        if known is None or known.record.primary != primary:
            old = None
        if old is None or (old.epoch, old.recovered) != (new.epoch, new.recovered):
            yield found.record, new.recovered


def recoveries_ms(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, float]]:
    """Query, and how long one of its fragments took; nothing that no recovery can take."""
    for record, status in recovered(before, after):
        if 0 <= status.measured.total_ms <= MOST_MS:
            yield record.query, status.measured.total_ms


def moves_ms(before: ClusterView, after: ClusterView, done_us: int) -> Iterator[float]:
    """How long steps of moves took.

    Parameters
    ----------
    done_us
        When the leader noted that they were done.
    """
    for name, found in after.moves.items():
        known = before.moves.get(name)
        steps = () if known is None else known.record.steps
        for was, step in zip(steps, found.record.steps, strict=False):
            if step.done and not was.done and step.begun_us is not None:
                yield max(done_us - step.begun_us, 0) / 1000
