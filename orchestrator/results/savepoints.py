"""Savepoints, as clients see them."""

from __future__ import annotations

from orchestrator.results.result import Result


class SavedFragmentState(Result, frozen=True, kw_only=True):
    """The state of one fragment in a savepoint.

    Attributes
    ----------
    fragment
        `<query>.<fragment>`.
    at_us
        When its checkpoint was taken, cluster clock, µs.
    bytes
        Its size.
    copied
        Whether it is in the savepoint already.
    """

    fragment: str
    at_us: int
    bytes: int
    copied: bool


class SavepointStatus(Result, frozen=True, kw_only=True):
    """A savepoint, or one that is being made or removed.

    Attributes
    ----------
    state
        `wanted`, `copying`, `kept`, `failed` or `deleted`.
    asked_us, ended_us
        When it was asked for, and when it was kept or had failed, cluster clock, µs.
    by
        Who asked for it.
    bytes, copied_bytes
        Size of its states, and of those that are copied.
    queries
        Those that have a state in it.
    states
        The states.
    left_out
        Fragment without a state → why. It begins from nothing where the savepoint is used.
    folder
        The folder of all savepoints; its files lie below, under its name.
    why
        Why it failed, or cannot be removed; empty: neither.
    """

    name: str
    state: str
    asked_us: int
    ended_us: int | None
    by: str
    bytes: int
    copied_bytes: int
    queries: tuple[str, ...]
    states: tuple[SavedFragmentState, ...]
    left_out: dict[str, str]
    folder: str
    why: str = ""


class SavepointsDocument(Result, frozen=True, kw_only=True):
    """The savepoints, the newest last."""

    savepoints: tuple[SavepointStatus, ...]


class ExportedSavepoint(Result, frozen=True, kw_only=True):
    """A savepoint that was copied out of the cluster's folder.

    Attributes
    ----------
    path
        A folder, or a tar file.
    bytes
        Its size.
    """

    name: str
    path: str
    bytes: int
