"""The link shaper: delivery is delayed as over a real link, so that a laptop behaves like a WAN.

On one machine, the receiver holds back what has arrived until sending time + the topology's one-way
latency between the two regions. A drill may make a link slower for a while
(`orchestrator.host.core.link_faults`).
"""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from orchestrator.host.core.link_faults import link_delay_us
from orchestrator.records import Peer

Item = TypeVar("Item")


class LinkShaper(Generic[Item]):
    """What has arrived over the links of a host and is not delivered yet."""

    def __init__(self) -> None:
        self._held: list[tuple[int, int, Item]] = []
        self._order = 0

    def hold(self, item: Item, peer: Peer, sent_us: int, now_us: int, *, after_us: int) -> int:
        """Hold something back until it is due; returns when that is.

        A link is first in, first out. It delivers no earlier than now and, whatever the sender's
        clock says, no later than one delay from now.

        Parameters
        ----------
        peer
            It came from there.
        sent_us
            By the sender's clock.
        after_us
            When what the peer sent before is due.
        """
        # A connection that breaks is noticed, even if the link is cut.
        delay_us = link_delay_us(peer, now_us) or 0
        due_us = max(now_us, min(sent_us, now_us) + delay_us, after_us)
        self._order += 1
        heapq.heappush(self._held, (due_us, self._order, item))
        return due_us

    @property
    def next_due_us(self) -> int | None:
        """When something is due next; None if nothing is held back."""
        return self._held[0][0] if self._held else None

    def due(self, now_us: int) -> list[Item]:
        """Everything that is due, in the order in which it is."""
        items: list[Item] = []
        while self._held and self._held[0][0] <= now_us:
            items.append(heapq.heappop(self._held)[2])
        return items
