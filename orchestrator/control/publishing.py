"""What the leader tells besides its decisions, for others to read. No decision rests on it.

Figures and problems are ephemeral. They go with the session of the leader that wrote them, as its
leadership does: figures that are in the store are those of a leader that leads, or has led a moment
ago. How long recoveries and moves took is counted on from leader to leader.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import Any, TypeVar, cast

import msgspec

from orchestrator.control.decide.figures import SUBJECT, ClusterFigures, QueryFigured
from orchestrator.control.observe.durations import moves_ms, recoveries_ms
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import DurationsRecord, Histogram, Record
from orchestrator.records.durations import NO_MOVE, NO_RECOVERY
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import (
    DURATIONS,
    FIGURES,
    LOADS,
    Key,
    RecordExists,
    RecordInvalid,
    Store,
    VersionConflict,
)

R = TypeVar("R", bound=Record)

EVERY_US = 2_000_000
"""Figures are computed as rarely as this: people read them, and programs once in seconds."""

CONFIRMED_US = 10_000_000
"""Loads are written at least this often, whether or not they have changed: so their age tells
whether the leader still computes them."""

ROUNDING = 0.05
ROUNDING_LEAST = 0.005
"""A figure that is off by no more than this share, or by no more than this, is still the same.
Costs, loads and latencies are measured again every second, and differ by as much each time."""

WORDS = ("standby_why", "suggestion")
"""Fields that put figures of the record into words: their numbers are no reason to write it."""

_number = re.compile(r"\d+(\.\d+)?")


class Publications:
    """The ephemeral records of a leader.

    Parameters
    ----------
    store
        The leader's session.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, tuple[int, EphemeralRecord[Record], Record]] = {}

    def put(self, key: Key[Record], record: Record) -> None:
        """Make the store hold a record, whoever has written there.

        Raises
        ------
        VersionConflict, RecordExists
            Another process has written there again meanwhile.
        StoreUnavailable
            The session is not `CONNECTED`.
        """
        found = self._held.get(key.path)
        ephemeral = EphemeralRecord(self._store, key) if found is None else found[1]
        session = self._store.session
        try:
            ephemeral.publish(record)
        except (VersionConflict, RecordExists):
            # Somebody else's record stands there now, and would for good.
            ephemeral = EphemeralRecord(self._store, key)
            ephemeral.publish(record)
        self._held[key.path] = session, ephemeral, record

    def held(self, key: Key[R]) -> R | None:
        """What was put there last, if that was in the present session."""
        session, _, record = self._held.get(key.path, (0, None, None))
        return record if session == self._store.session and isinstance(record, key.type) else None

    def withdraw(self, key: Key[Record]) -> None:
        """Delete the record that was put there, if nobody else has written there since."""
        found = self._held.pop(key.path, None)
        if found is not None:
            with suppress(VersionConflict):
                found[1].withdraw()


class FiguresPublisher:
    """Publishes the leader's figures: every two seconds at most, and those that have changed.

    Parameters
    ----------
    publications
        Its records.

    Attributes
    ----------
    figured
        By query, the figures that were computed last.
    """

    def __init__(self, publications: Publications) -> None:
        self._publications = publications
        self.figured: Mapping[str, QueryFigured] = {}
        self._tried_us: int | None = None
        self._problems: tuple[str, ...] = ()

    def due(self, now_us: int) -> Mapping[str, QueryFigured] | None:
        """The queries' figures that were computed last, if figures are to be computed now."""
        if self._tried_us is not None and 0 <= now_us - self._tried_us < EVERY_US:
            return None
        self._tried_us = now_us
        return self.figured

    def problems(self, found: tuple[str, ...], *, was_due: bool) -> tuple[str, ...]:
        """A decision's problems, with those of the figures that were due last."""
        if not was_due:
            return (*found, *self._problems)
        self._problems = tuple(each for each in found if each.startswith(f"{SUBJECT}: "))
        return found

    def publish(self, found: ClusterFigures) -> None:
        """Publish what has changed; raises as `Publications.put` does."""
        store = self._publications
        loads = store.held(LOADS)
        is_fresh = loads is not None and 0 <= found.loads.at_us - loads.at_us < CONFIRMED_US
        if not is_fresh or differ(loads, found.loads):
            store.put(LOADS, found.loads)
        for name, query in found.queries.items():
            held = store.held(key := FIGURES.key(name))
            is_new = held is None or query is not self.figured.get(name)
            if is_new and differ(held, query.figures):
                store.put(key, query.figures)
        for name in self.figured.keys() - found.queries.keys():
            store.withdraw(FIGURES.key(name))
        self.figured = found.queries


class DurationsPublisher:
    """Counts recoveries and moves in the store: every two seconds at most, and if there were any.

    Parameters
    ----------
    store
        The leader's session.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recoveries_ms: list[tuple[str, float]] = []
        self._moves_ms: list[float] = []
        self._seen_us = self._tried_us = 0

    def observe(self, before: ClusterView | None, after: ClusterView, now_us: int) -> None:
        """Note what has ended between two steps; the first step of a leader has none before."""
        if before is not None:
            self._recoveries_ms += recoveries_ms(before, after)
            # What this view is the first to show was noted by the step before.
            self._moves_ms += moves_ms(before, after, self._seen_us)
        self._seen_us = now_us

    def publish(self, queries: Container[str], now_us: int) -> None:
        """Add what has ended since to the record, and leave out queries that are gone.

        Raises
        ------
        VersionConflict, RecordExists
            Another leader has written it meanwhile: call again.
        StoreUnavailable
            The session is not `CONNECTED`.
        """
        nothing_new = not self._recoveries_ms and not self._moves_ms
        if nothing_new or 0 <= now_us - self._tried_us < EVERY_US:
            return
        self._tried_us = now_us
        record, version = DurationsRecord(), None
        try:
            if (found := self._store.get(DURATIONS)) is not None:
                record, version = found.record, found.version
        except RecordInvalid as broken:
            version = broken.version
        recoveries = {name: each for name, each in record.recoveries.items() if name in queries}
        for query, ms in self._recoveries_ms:
            recoveries[query] = _fitting(recoveries.get(query), NO_RECOVERY).plus(ms)
        moves = _fitting(record.moves, NO_MOVE)
        for ms in self._moves_ms:
            moves = moves.plus(ms)
        counted = DurationsRecord(recoveries=recoveries, moves=moves)
        if version is None:
            self._store.create(DURATIONS, counted)
        else:
            self._store.update(DURATIONS, counted, version)
        self._recoveries_ms.clear()
        self._moves_ms.clear()


def _fitting(known: Histogram | None, none: Histogram) -> Histogram:
    """The histogram if it has these buckets, else one that has counted nothing."""
    fits = known is not None and (known.least_ms, len(known.counts)) == (
        none.least_ms,
        len(none.counts),
    )
    return known if known is not None and fits else none


def differ(before: Record | None, now: Record) -> bool:
    """Whether figures have changed beyond rounding, whenever they were computed."""
    return before is None or _differ("", msgspec.to_builtins(before), msgspec.to_builtins(now))


def _differ(field: str, before: Any, now: Any) -> bool:
    match before, now:
        case _ if field == "at_us":
            return False
        case dict(), dict():
            old, new = cast("dict[str, Any]", before), cast("dict[str, Any]", now)
            return old.keys() != new.keys() or any(_differ(key, old[key], new[key]) for key in new)
        case ((list() | tuple()), (list() | tuple())):
            pairs = zip_longest(cast("list[Any]", before), cast("list[Any]", now))
            return any(_differ(field, *pair) for pair in pairs)
        case ((int() | float()), (int() | float())):
            return abs(now - before) > max(ROUNDING * abs(before), ROUNDING_LEAST)
        case str(), str() if field in WORDS:
            return _number.sub("", before) != _number.sub("", now)
        case _:
            return before != now
