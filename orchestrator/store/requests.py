"""A request to the leader, and its proposal, as records in the store; nothing here waits."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from orchestrator.errors import Outdated, Refused, Unreachable
from orchestrator.records import ProposalRecord, RequestRecord, Wish
from orchestrator.store.protocol import (
    MOST_BYTES,
    PROPOSALS,
    REQUESTS,
    RecordInvalid,
    RecordMissing,
    Store,
    StoreError,
    VersionConflict,
    Versioned,
    encode,
)


class LeaderRequest:
    """One request at a time, under one name; it goes with the session.

    Parameters
    ----------
    name
        That nobody else asks under.
    by
        Who asks, for the history.
    """

    def __init__(self, store: Store, name: str, by: str = "") -> None:
        self._store = store
        self._by = by
        self._request = REQUESTS.key(name)
        self._proposal = PROPOSALS.key(name)
        self._made = 0
        self._found: Versioned[ProposalRecord] | None = None

    def make(self, wish: Wish) -> None:
        """Ask for something, and no longer for what was asked before.

        Raises
        ------
        Refused
            It is too large for the store.
        Unreachable
            The session has ended.
        """
        self.withdraw()
        record = RequestRecord(wish=wish, by=self._by)
        if (size := len(encode(record))) > MOST_BYTES:
            problem = f"is {size:,} bytes, of which the store takes {MOST_BYTES:,} at once"
            raise Refused("what is asked for", "size", size, problem, "Ask for less at a time.", {})
        self._store.create(self._request, record, ephemeral=True)
        asked = self._store.get(self._request)
        if asked is None:
            raise lost("Try again.")
        self._made, self._found = asked.created, None

    @property
    def is_there(self) -> bool:
        """Whether the leader can still know of it."""
        return self._store.get(self._request) is not None

    def look(self) -> ProposalRecord | None:
        """How the leader has responded; None: it has not yet."""
        with suppress(RecordInvalid):
            found = self._store.get(self._proposal)
            if found is not None and found.record.request == self._made:
                self._found = found
                return found.record
        return None

    def consent(self) -> None:
        """Want exactly what was last looked at.

        Raises
        ------
        Outdated
            The leader proposes something else now, or nothing.
        """
        assert self._found is not None, "nothing was looked at"
        consented = msgspec.structs.replace(self._found.record, consented=True)
        try:
            self._store.update(self._proposal, consented, self._found.version)
        except (VersionConflict, RecordMissing):
            raise no_longer(("the leader's proposal",)) from None

    def withdraw(self) -> None:
        """Ask for nothing any more. What was consented to is carried out all the same."""
        # It goes with the session anyway.
        with suppress(StoreError):
            if (found := self._store.get(self._request)) is not None:
                self._store.delete(self._request, found.version)


def no_longer(changed: tuple[str, ...]) -> Outdated:
    """What to raise if something of what a proposal rests on has changed."""
    problem = f"{', '.join(changed)} changed after the plan was made"
    return Outdated("the plan", "basis", None, problem, "Nothing was changed. Try again.", {})


def lost(remedy: str) -> Unreachable:
    """What to raise if a request has gone with its session."""
    problem = "was lost with the session of this command"
    return Unreachable("The request", "the cluster", problem, remedy)
