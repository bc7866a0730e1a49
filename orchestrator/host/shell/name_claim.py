"""Which process may call itself by a host's name: the newest one that has claimed it.

A host that is paused for longer than its session lasts is replaced by another process of the same
name. When it wakes up it must notice that, and must not remove its successor's record. Every
process therefore claims its name before anything else: it raises a number in the store, under the
version of the former claim. The number leads its incarnation, so that incarnations of one name are
ordered. Every later write of the host's record rests on the version of its claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.records import HostSpec, NameClaim, NodeKind, ReplicaId
from orchestrator.store.protocol import (
    CLAIMS,
    Precondition,
    RecordExists,
    RecordInvalid,
    RecordMissing,
    Store,
    VersionConflict,
)

TOKEN_BITS = 64
"""Random bits of an incarnation. They keep incarnations of two clusters or names apart."""

_NUMBER_DIGITS = 8
_TOKEN_DIGITS = TOKEN_BITS // 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A name that this process may use until another one claims it.

    Attributes
    ----------
    replica_of
        The name and the incarnation, a hexadecimal number that rises from claim to claim.
    precondition
        Holds as long as nobody else has claimed the name; None for a name that nobody else uses.
    """

    replica_of: ReplicaId
    precondition: Precondition | None

    @property
    def incarnation(self) -> str:
        """The process's incarnation."""
        return self.replica_of.incarnation


def claim_name(store: Store, spec: HostSpec, token: int) -> Claimed:
    """Claim a host's name for this process.

    An observer's name is random and used once. It needs no claim, which would outlive it.

    Parameters
    ----------
    token
        A random number of `TOKEN_BITS` bits.

    Raises
    ------
    StoreUnavailable
        The session is not `CONNECTED`; claim again.
    """
    if spec.kind is NodeKind.OBSERVER:
        return _claimed(spec.node, 0, token, None)
    key = CLAIMS.key(spec.node)
    while True:
        try:
            found = store.get(key)
            number = 1 if found is None else found.record.number + 1
            known = None if found is None else found.version
        except RecordInvalid as broken:
            # The version is not an incarnation's number, but it rises as well.
            number, known = broken.version + 2, broken.version
        claimed = _claimed(spec.node, number, token, None)
        record = NameClaim(number=number, incarnation=claimed.incarnation)
        try:
            version = (
                store.create(key, record) if known is None else store.update(key, record, known)
            )
        except (RecordExists, RecordMissing, VersionConflict):
            continue
        return _claimed(spec.node, number, token, Precondition(key=key, version=version))


def _claimed(node: str, number: int, token: int, precondition: Precondition | None) -> Claimed:
    incarnation = f"{number:0{_NUMBER_DIGITS}x}{token:0{_TOKEN_DIGITS}x}"
    return Claimed(
        replica_of=ReplicaId(node=node, incarnation=incarnation), precondition=precondition
    )
