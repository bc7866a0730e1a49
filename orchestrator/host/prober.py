"""A host's own measurement of where it is: probes to peers, and its Vivaldi coordinate.

Each host does this for itself at every exchange with a peer (paper 1, §4.2). The CPU axis is the
host's load under the cluster's scaling function.

When a link's latency changes, the round trip to that peer follows within `LINK_EXCHANGES` over
that link, and the coordinates follow within `COORDINATE_EXCHANGES` of each host. Where a change
contradicts other links, as when one of many links between two regions slows down, a coordinate
can follow only as far as there is such a place. Planning takes the measured round trip where there
is one, and coordinates for the rest.
"""

from __future__ import annotations

from collections import deque
from statistics import median

import numpy as np

from ha.messages import Ping, Pong
from orchestrator.records import Coordinate
from topology import coordinate as space
from topology.cpu import Scaling
from topology.vivaldi import Vivaldi

DIMENSIONS = 3
"""Dabek et al. (2004, §5.4) find little gain beyond two or three Euclidean dimensions."""

UNSETTLED_ERROR = 0.3
UNSETTLED_ERROR_MS = 5.0
"""Relative and absolute error above which a coordinate is still finding its place. Where links are
short, hosts that are kept waiting for a processor are a large part of every round trip, and the
relative error never falls."""

EAGER_FACTOR = 4
"""How many times as often a host probes until then."""

SAMPLES_KEPT = 5
"""Of whose median a peer's latency is taken: a stalled process spoils one or two in a row."""

LINK_EXCHANGES = SAMPLES_KEPT // 2 + 1
"""Exchanges with a peer until its median is that of a changed link."""

COORDINATE_EXCHANGES = 40
"""Exchanges of each host, with any peers, until distances are off by less than a tenth again after
the links between two regions have become twice as slow. With six hosts 11 to 24 were enough
(simulated world, 24 seeds); a median of three samples and a step of an eighth explain most."""


class Prober:
    """Probes one random peer at each turn.

    Parameters
    ----------
    rng
        Chooses peers, and directions when two coordinates coincide.
    cpu
        Turns the host's load into the CPU axis.
    interval_us
        Between two probes, once the coordinate has settled.
    """

    def __init__(self, rng: np.random.Generator, cpu: Scaling, interval_us: int) -> None:
        self._rng = rng
        self._interval_us = interval_us
        self._vivaldi = Vivaldi(DIMENSIONS, rng)
        self._cpu = cpu
        self._samples_ms: dict[str, deque[float]] = {}
        self.load = 0.0
        self.rejected = 0

    def use(self, peers: tuple[str, ...]) -> None:
        """Probe these from now on."""
        for gone in self._samples_ms.keys() - set(peers):
            self._vivaldi.discard_samples(gone)
        self._samples_ms = {
            peer: self._samples_ms.get(peer, deque(maxlen=SAMPLES_KEPT)) for peer in sorted(peers)
        }

    def next_probe(self, now_us: int) -> tuple[str, Ping] | None:
        """A peer, and what to send it."""
        if not self._samples_ms:
            return None
        peer = list(self._samples_ms)[int(self._rng.integers(len(self._samples_ms)))]
        return peer, Ping(sent_us=now_us)

    @property
    def interval_us(self) -> int:
        """Until the next probe: short while the coordinate is uncertain."""
        mine = self._vivaldi
        unsettled = mine.error > UNSETTLED_ERROR and mine.error_ms > UNSETTLED_ERROR_MS
        return self._interval_us // EAGER_FACTOR if unsettled else self._interval_us

    def answer(self, ping: Ping) -> Pong:
        """The reply to a peer's probe."""
        mine = self._vivaldi.coordinate
        return Pong(sent_us=ping.sent_us, position_ms=mine.position_ms, error=mine.error)

    def measured(self, peer: str, pong: Pong, now_us: int) -> None:
        """Take in a probe's answer."""
        samples = self._samples_ms.get(peer)
        if samples is None:
            return
        rtt_ms = (now_us - pong.sent_us) / 1000
        before = self._vivaldi.rejected
        try:
            told = space.Coordinate(position_ms=pong.position_ms, error=pong.error)
            self._vivaldi.observe(peer, rtt_ms, told)
        except space.CoordinateError:
            self.rejected += 1
            return
        if self._vivaldi.rejected == before:
            samples.append(rtt_ms)
        else:
            self.rejected += 1

    @property
    def resets(self) -> int:
        """Times the coordinate had stopped being a number and started over."""
        return self._vivaldi.resets

    @property
    def coordinate(self) -> Coordinate:
        """For the host's record in the store."""
        mine = self._vivaldi.coordinate
        return Coordinate(
            position_ms=mine.position_ms,
            cpu_ms=self._cpu.ms(self.load),
            error=mine.error,
            error_ms=mine.error_ms,
        )

    @property
    def latencies_ms(self) -> dict[str, float]:
        """Round trip to each peer measured so far, ms."""
        return {peer: median(kept) for peer, kept in self._samples_ms.items() if kept}
