"""Fragments of a query that die together, and the time that the recovery bound leaves them.

Fragments whose primaries share a node die together, and each waits until those before it have
recovered. What the feeding of one adds to its recovery is therefore added to that of all that wait
for it, and they share what the bound leaves.

`Together.share` divides that time so that little is sent. With a price of μ bytes/s for each
millisecond, every fragment takes the feeding that costs least; μ is lowered as long as all
recoveries keep the bound (a Lagrange multiplier, found by bisection).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.control.planning.task import QueryTask
from placement.records import Secondary

PRICES = (-4.0, 6.0)
"""Logarithms of μ between which it is looked for: with the first time is free, with the second
every tuple is sent."""

STEPS = 20
"""Halvings: μ is then known to a hundred-thousandth part."""

ROUNDING_MS = 1e-9


class FeedingOption(NamedTuple):
    """A feeding of one secondary: what it sends, and what it adds to the recovery."""

    bytes_s: float
    added_ms: float


@dataclass(slots=True)
class Together:
    """What the fragments of a query cost each other at recovery.

    Attributes
    ----------
    standbys
        The secondaries, with their recovery under Active Standby.
    primaries
        Fragment → node of its primary.
    margin
        Share of the time that the bound leaves each fragment which is to stay free.
    added_ms
        Fragment → what its feeding adds to its recovery.
    """

    task: QueryTask
    standbys: Mapping[str, Secondary]
    primaries: Mapping[str, str]
    margin: float = 0.0
    added_ms: dict[str, float] = field(default_factory=dict[str, float])

    def bound_ms(self, fragment: str) -> float:
        """How long the fragment itself may recover, so that all that wait for it keep the bound."""
        self.added_ms[fragment] = 0.0
        later_ms, spare_ms = self._later_ms(), math.inf
        waiting = [fragment]
        while waiting:
            name = waiting.pop()
            if name in self.standbys:
                spare_ms = min(spare_ms, self._spare_ms(name) - later_ms[name])
            links = self.task.graph.outputs[name]
            waiting += [link.target for link in links if self._fall(link.target, name)]
        return self.standbys[fragment].recovery.total_ms + spare_ms

    def share(self, offers: Mapping[str, Sequence[FeedingOption]]) -> None:
        """Divide the time among the fragments: sets `added_ms`.

        Parameters
        ----------
        offers
            Fragment → its feedings, Active Standby among them.
        """
        found = dict.fromkeys(offers, 0.0)
        least = math.inf
        low, high = PRICES
        for step in range(STEPS):
            price = 0.0 if step == 0 else 10 ** ((low + high) / 2)
            taken = {
                name: min(each, key=lambda offer: (offer.bytes_s + price * offer.added_ms, offer))
                for name, each in offers.items()
            }
            self.added_ms = {name: offer.added_ms for name, offer in taken.items()}
            keeps, sent = self._keeps(), sum(offer.bytes_s for offer in taken.values())
            if keeps and sent < least:
                found, least = dict(self.added_ms), sent
            if step == 0 and keeps:
                break
            if step > 0:
                low, high = (low, (low + high) / 2) if keeps else ((low + high) / 2, high)
        self.added_ms = found

    def _keeps(self) -> bool:
        """Whether all fragments keep the bound, or are no later than under Active Standby."""
        later_ms = self._later_ms()
        return all(
            later_ms[name] <= max(self._spare_ms(name), 0.0) + ROUNDING_MS for name in self.standbys
        )

    def _spare_ms(self, fragment: str) -> float:
        """How much later than under Active Standby a fragment may recover."""
        bound_ms = self.task.query.recovery_bound_ms
        spare_ms = bound_ms - self.standbys[fragment].recovery.total_ms
        return spare_ms - self.margin * max(spare_ms, 0.0)

    def _later_ms(self) -> dict[str, float]:
        """By how much each fragment recovers later than under Active Standby."""
        graph, later_ms = self.task.graph, dict[str, float]()
        for name in graph.to_place:
            sources = [link.source for link in graph.inputs[name]]
            awaited = [later_ms[each] for each in sources if self._fall(each, name)]
            later_ms[name] = self.added_ms.get(name, 0.0) + max(awaited, default=0.0)
        return later_ms

    def _fall(self, one: str, other: str) -> bool:
        """Whether the primaries of two fragments share a node."""
        return one in self.primaries and self.primaries[one] == self.primaries.get(other)
