"""Has a process of the cluster fail, wherever it runs: by a record that it obeys itself.

`orchestrator.store.strikes` is the process's side. Whoever may write into the store can ask for
that, and needs no right on the machine.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

from orchestrator.drills.acting import LOOK_S, Acting, DrillFailed
from orchestrator.records import HistoryEvent, StrikeKind, StrikeRecord
from orchestrator.store.protocol import STRIKES, RecordExists, StoreError, StoreUnavailable

TAKE_S = 20.0
"""How long a process may take until it fails. It has to be told, and to start a watchdog; both take
seconds on a busy machine."""


def end_host(acting: Acting, kind: StrikeKind) -> int:
    """Have the host of the node or site end; when it did, cluster clock, µs."""
    with struck_host(acting, acting.node, kind) as at_us:
        return at_us


def end_coordinator(acting: Acting, candidate: str, kind: StrikeKind) -> int:
    """Have a coordinator end; when it did, cluster clock, µs."""
    with struck(acting, candidate, candidate, kind) as at_us:
        return at_us


@contextmanager
def struck_host(
    acting: Acting, node: str, kind: StrikeKind, lasts_s: float = 0.0
) -> Generator[int]:
    """As `struck`, of the host of a node or site."""
    if (found := acting.view.nodes.get(node)) is None:
        raise DrillFailed(f"{node} has no host")
    with struck(acting, node, found.record.incarnation, kind, lasts_s) as at_us:
        yield at_us


@contextmanager
def struck(
    acting: Acting, process: str, life: str, kind: StrikeKind, lasts_s: float = 0.0
) -> Generator[int]:
    """Have a process fail before a block; yields when it failed, cluster clock, µs.

    A fault that lasts ends by itself, and if it can, at the end of the block.

    Raises
    ------
    DrillFailed
        It did not, or another drill has it fail at present.
    """
    key = STRIKES.key(process)
    asked = StrikeRecord(
        kind=kind,
        life=life,
        take_by_us=acting.now_us + round(TAKE_S * 1e6),
        lasts_us=round(lasts_s * 1e6),
        by=acting.by,
    )
    try:
        acting.store.create(key, asked)
    except RecordExists as error:
        raise DrillFailed(f"another drill strikes {process}") from error
    try:
        lasting = f" for {lasts_s:g} s" if lasts_s else ""
        event = HistoryEvent(
            at_us=acting.now_us,
            kind="strike",
            subject=process,
            detail=f"{kind.value}{lasting}, by {acting.by}",
        )
        acting.store.append_history(event)
        yield _await_struck(acting, process, asked)
        _check(acting, process)
    finally:
        # Where the store is away, the leader deletes it.
        with suppress(StoreError):
            if (found := acting.store.get(key)) is not None:
                acting.store.delete(key, found.version)


def _await_struck(acting: Acting, process: str, asked: StrikeRecord) -> int:
    """When a process failed."""
    while acting.now_us < asked.take_by_us + round(LOOK_S * 1e6):
        with suppress(StoreUnavailable):
            if (at_us := _check(acting, process)) is not None:
                return at_us
        acting.hands.rest(LOOK_S)
    raise DrillFailed(f"{process} has not failed as it was asked to within {TAKE_S:.0f} s")


def _check(acting: Acting, process: str) -> int | None:
    """When a process fails, as it says; raises `DrillFailed` if it could not."""
    found = acting.store.get(STRIKES.key(process))
    if found is not None and found.record.problem is not None:
        raise DrillFailed(f"{process} could not fail as it was asked to: {found.record.problem}")
    return None if found is None else found.record.struck_us
