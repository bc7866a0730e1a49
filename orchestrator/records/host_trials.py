"""Trials of statements: what a host is to run before a query is applied, and what it has found."""

from __future__ import annotations

from orchestrator.records.base import Record, ReplicaId
from orchestrator.records.running_queries import Tried
from orchestrator.records.spec import StreamRecord

LONGEST_S = 60.0
"""How long a trial may last. It takes three seconds of processor time at most, but the first one on
a host begins with the start of a process, and yields to all else that runs there."""


class TriedFragment(Record, frozen=True, kw_only=True):
    """A statement in a trial."""

    name: str
    statement: str
    inputs: dict[str, dict[str, str]]
    columns: dict[str, str]
    rejected: bool
    """Whether the tuples that it rejects are its rows."""
    asked: bool
    """Whether its figures are wanted; else it only feeds those of which they are."""


class Trial(Record, frozen=True, kw_only=True):
    """Statements to be tried out, on what the streams that they read will bring."""

    fragments: tuple[TriedFragment, ...]
    """Producers before consumers."""
    streams: tuple[StreamRecord, ...]
    batch_ms: float
    patience_us: float
    """Processor time that it may take while a statement has had too little."""


class TrialResult(Record, frozen=True, kw_only=True):
    """What a trial has found."""

    tried: dict[str, Tried]
    """By fragment, at the speed at which processors were; missing: nothing was found of it."""
    recorded: tuple[str, ...]
    """Streams of which it has read a recording, and has not made up rows."""
    took_us: int
    """Processor time; of a trial without a result, time that was waited for it."""


class HostTrial(Record, frozen=True, kw_only=True):
    """`/trials/<name>` (ephemeral, of the leader): a trial that a host is to run."""

    host: ReplicaId
    trial: Trial
    result: TrialResult | None = None
    """None: the host has not run it yet."""
