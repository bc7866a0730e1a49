"""When the leader looks for moves by itself: a coordinator's memory of what its last search saw.

Reasons are differences between then and now that have lasted long enough. They wait while a search
is under way, for a minute after it began, and for twenty times as long as it took: so searching
takes at most a twentieth of a processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from orchestrator.control.decide.steadiness import AUTOMATION
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.measured_rates import KNOWN_SHARE
from orchestrator.control.planning.task import measured_pairs, spreads, unsettled
from orchestrator.documents.units import figure
from orchestrator.records import AutomaticRequest
from orchestrator.records.moves import BARRED

LOOK_US = 5_000_000
"""How often differences are looked for: every pair of hosts is compared."""

KNOWN_US = 60_000_000
"""How long a node has to be known, and a round trip to be another one."""

RATE_US = 300_000_000
"""How long a rate has to be another one ..."""

RATE_SHARE = 0.25
"""... by this share."""

APART_US = 60_000_000
"""Least time between the beginnings of two searches."""

RESTS = 20
"""So many times as long as a search took, the next one waits."""

MOST_TOLD = 5
"""Reasons that are told one by one."""


class Difference(NamedTuple):
    """A difference: what tells it from others, how long it has to last, and what it is."""

    subject: tuple[str, ...]
    lasts_us: int
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBasis:
    """What a search saw.

    Attributes
    ----------
    nodes
        Executors that are known → incarnation.
    round_trips_ms
        Pair → round trip, and spread.
    rates
        Fragment → tuples that it takes in and gives a second, where that is measured.
    costs
        Fragment → cost of a burst, ms, and the cost of a tuple that was suggested.
    barred
        Plans of moves that automation did not bring to their end.
    """

    nodes: Mapping[str, str]
    cordoned: frozenset[str]
    round_trips_ms: Mapping[tuple[str, str], tuple[float, float]]
    rates: Mapping[str, tuple[float, float]]
    costs: Mapping[str, tuple[float, float | None]]
    barred: frozenset[str]

    @staticmethod
    def of(view: ClusterView) -> SearchBasis:
        """What a search sees now."""
        unknown = {*unsettled(view.hosts)}
        return SearchBasis(
            nodes={
                name: node.incarnation
                for name, node in view.executors.items()
                if name in view.trusted and name not in view.cordoned and name not in unknown
            },
            cordoned=frozenset(view.cordoned),
            round_trips_ms=_round_trips_ms(view),
            rates=dict(_rates(view)),
            costs={
                key: (found.record.timing.cost_ms, found.record.told_cost_us)
                for key, found in view.fragments.items()
            },
            barred=frozenset(
                name
                for name, found in view.moves.items()
                for step in found.record.steps
                if step.failed is not None and step.failed.startswith(BARRED)
            ),
        )


class Occasions:
    """What one coordinator remembers of its searches.

    Parameters
    ----------
    drift
        By which share a cost must have changed (`DecisionSettings`).
    """

    def __init__(self, drift: float) -> None:
        self._drift = drift
        self.begin_anew()

    def begin_anew(self) -> None:
        """Remember nothing: another coordinator has led meanwhile."""
        self._basis: SearchBasis | None = None
        self._since_us: dict[tuple[str, ...], int] = {}
        self._due: tuple[str, ...] = ()
        self._looked_us: int | None = None
        self._asked_us: int | None = None
        self._searches = False
        self._not_before_us = 0

    def noted(self, view: ClusterView, now_us: int) -> ClusterView:
        """The view, with the reasons for a search that there are now."""
        asked, answer = view.requests.get(AUTOMATION), view.proposals.get(AUTOMATION)
        wish = None if asked is None else asked.record.wish
        if isinstance(wish, AutomaticRequest) and wish.asked_us != self._asked_us:
            self._basis, self._since_us, self._due = SearchBasis.of(view), {}, ()
            self._asked_us, self._searches = wish.asked_us, True
        is_answered = asked is None or (
            answer is not None and answer.record.request == asked.created
        )
        if self._searches and self._asked_us is not None and is_answered:
            took_us = max(now_us - self._asked_us, 0)
            self._not_before_us = max(self._asked_us + APART_US, now_us + RESTS * took_us)
            self._searches = False
        if self._looked_us is None or not 0 <= now_us - self._looked_us < LOOK_US:
            self._look(view, now_us)
        waits = self._searches or now_us < self._not_before_us
        return replace(view, occasions=() if waits else self._due)

    def _look(self, view: ClusterView, now_us: int) -> None:
        found = {each.subject: each for each in self._differences(view)}
        self._looked_us = now_us
        self._since_us = {each: self._since_us.get(each, now_us) for each in found}
        due = [
            each.told
            for subject, each in found.items()
            if now_us - self._since_us[subject] >= each.lasts_us
        ]
        if len(due) > MOST_TOLD:
            due[MOST_TOLD:] = [f"{len(due) - MOST_TOLD} more"]
        self._due = tuple(due)

    def _differences(self, view: ClusterView) -> Iterator[Difference]:
        now, was = SearchBasis.of(view), self._basis
        if was is None:
            yield Difference(("leads",), KNOWN_US, "another coordinator leads")
            return
        for name, incarnation in now.nodes.items():
            if name in was.cordoned:
                yield Difference(("cordon", name), 0, f"{name} is cordoned no longer")
            elif was.nodes.get(name) != incarnation:
                yield Difference(("joined", name, incarnation), KNOWN_US, f"{name} has joined")
        if not view.unprotected:
            for name in sorted(was.nodes.keys() - view.executors.keys()):
                yield Difference(("lost", name), 0, f"{name} was lost, and all is healed")
        for pair, (rtt_ms, spread_ms) in now.round_trips_ms.items():
            before_ms, spread_before_ms = was.round_trips_ms.get(pair, (rtt_ms, 0.0))
            if abs(rtt_ms - before_ms) > max(spread_ms, spread_before_ms):
                told = f"round trip {pair[0]}–{pair[1]} {figure(before_ms)} → {figure(rtt_ms)} ms"
                yield Difference(("round trip", *pair), KNOWN_US, told)
        for name in sorted(now.barred - was.barred):
            yield Difference(("barred", name), 0, f"{name} was stopped")
        for key, rates in now.rates.items():
            before = was.rates.get(key)
            if before is None or any(map(_other_rate, before, rates)):
                told = f"{key} takes {figure(rates[0])} and gives {figure(rates[1])} tuples/s"
                yield Difference(("rate", key), RATE_US, told)
        for key, (cost_ms, told_us) in now.costs.items():
            before_ms, told_before_us = was.costs.get(key, (cost_ms, told_us))
            if told_us != told_before_us or abs(cost_ms - before_ms) > self._drift * before_ms:
                yield Difference(("cost", key), 0, f"{key} costs {figure(cost_ms)} ms a burst")


def _round_trips_ms(view: ClusterView) -> dict[tuple[str, str], tuple[float, float]]:
    """Each pair once: where both have measured, the mean, and the greater spread."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    spread_ms = spreads(view.trusted)
    for pair, rtt_ms in measured_pairs(view.trusted).items():
        once, spread = (min(pair), max(pair)), spread_ms.get(pair, 0.0)
        if (other := found.get(once)) is not None:
            rtt_ms, spread = (rtt_ms + other[0]) / 2, max(spread, other[1])
        found[once] = rtt_ms, spread
    return found


def _other_rate(before: float, now: float) -> bool:
    return abs(now - before) > RATE_SHARE * before


def _rates(view: ClusterView) -> Iterator[tuple[str, tuple[float, float]]]:
    for key, found in view.fragments.items():
        status = view.status(found.record.primary, found.record.fragment)
        load = None if status is None else status.load
        if load is not None and load.window_share >= KNOWN_SHARE:
            yield key, (load.tuples_s, load.emitted_s)
