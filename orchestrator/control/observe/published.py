"""Reading what the leader has published of its planning."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.control.observe.read_cache import RecordReader
from orchestrator.records import (
    DurationsRecord,
    FiguresRecord,
    FragmentPlan,
    FragmentRecord,
    LoadsRecord,
)
from orchestrator.store.protocol import DURATIONS, FIGURES, LOADS, RecordInvalid


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigures:
    """The leader's figures as far as there are any: a leader that has just begun has none yet.

    Attributes
    ----------
    loads
        None: there are none.
    queries
        By query.
    durations
        Of recoveries and moves.
    invalid
        Records that could not be decoded.
    """

    loads: LoadsRecord | None
    queries: Mapping[str, FiguresRecord]
    durations: DurationsRecord
    invalid: tuple[RecordInvalid, ...] = ()

    def age_s(self, now_us: int) -> float | None:
        """How long ago the loads were computed, cluster clock, s; None without any."""
        return None if self.loads is None else max(now_us - self.loads.at_us, 0) / 1e6

    def plan_of(self, record: FragmentRecord) -> FragmentPlan | None:
        """What the places of a fragment promise; None if that is not known of these places."""
        found = self.queries.get(record.query)
        here = record.primary.node, None if record.secondary is None else record.secondary.node
        return next(
            (
                each
                for each in (() if found is None else found.fragments)
                if each.fragment == record.fragment and (each.primary, each.secondary) == here
            ),
            None,
        )

    @property
    def lacking(self) -> tuple[str, ...]:
        """What is missing of them, a sentence each."""
        found = [str(each) for each in self.invalid]
        if self.loads is not None and self.loads.omitted:
            found.append(f"loads of {self.loads.omitted} nodes are left out: there are too many")
        return (
            *found,
            *(
                f"figures of {each.omitted} fragments of query {name} are left out: it has too many"
                for name, each in self.queries.items()
                if each.omitted
            ),
        )


def read_figures(store: RecordReader) -> PublishedFigures:
    """What there is now.

    Raises
    ------
    StoreUnavailable
        The session is not `CONNECTED`.
    """
    listing = store.list(FIGURES)
    invalid = list(listing.invalid)
    loads = durations = None
    try:
        loads = store.get(LOADS)
    except RecordInvalid as broken:
        invalid.append(broken)
    # One that is broken is written anew with the next recovery or move.
    with suppress(RecordInvalid):
        durations = store.get(DURATIONS)
    return PublishedFigures(
        loads=None if loads is None else loads.record,
        queries={name: found.record for name, found in listing.records.items()},
        durations=DurationsRecord() if durations is None else durations.record,
        invalid=tuple(invalid),
    )
