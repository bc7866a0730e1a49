"""Which coordinator leads: the one whose ephemeral record lies at `/leader`.

A candidate that finds the record of another one just waits. Leadership goes with the session: in
SUSPENDED the record may still be there, but another candidate may have taken its place, so the
leader publishes nothing; after LOST it no longer leads and stands for election anew. Two leaders
that overlap for a moment cannot undo each other's work, since every write names a version.
"""

from __future__ import annotations

from contextlib import suppress

from orchestrator.store.protocol import (
    LEADER,
    LeaderRecord,
    RecordExists,
    RecordInvalid,
    RecordMissing,
    SessionState,
    Store,
    VersionConflict,
)


class Election:
    """One candidate's part.

    Parameters
    ----------
    store
        Its own session.
    candidate
        A name that no other process has or will have.
    """

    def __init__(self, store: Store, candidate: str) -> None:
        self._store = store
        self._candidate = candidate
        self._elected_in = 0

    @property
    def leads(self) -> bool:
        """Whether this candidate may publish now."""
        return (
            self._store.state is SessionState.CONNECTED
            and self._elected_in != 0
            and self._elected_in == self._store.session
        )

    def stand(self) -> bool:
        """Become leader if nobody is; returns `leads`.

        Raises
        ------
        StoreUnavailable
            The session is not `CONNECTED`.
        """
        if self.leads:
            return True
        session = self._store.session
        record = LeaderRecord(candidate=self._candidate)
        try:
            self._store.create(LEADER, record, ephemeral=True)
        except RecordExists:
            self._clear_former_self()
            return False
        self._elected_in = session
        return self.leads

    def resign(self) -> None:
        """Let another candidate lead."""
        if self.leads:
            with suppress(RecordMissing, VersionConflict):
                self._store.delete(LEADER, 0)
        self._elected_in = 0

    def _clear_former_self(self) -> None:
        """Delete a record that an earlier session of this candidate left, or that is broken."""
        version = None
        try:
            found = self._store.get(LEADER)
            if found is not None and found.record.candidate == self._candidate:
                version = found.version
        except RecordInvalid as broken:
            version = broken.version
        if version is not None:
            with suppress(RecordMissing, VersionConflict):
                self._store.delete(LEADER, version)
