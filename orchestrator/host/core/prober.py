"""Measures latencies and clocks: probes peers, and keeps the host's Vivaldi coordinate.

Each host updates its own coordinate at every exchange with a peer (reliable placement, §4.2). The
CPU axis is the host's load under the cluster's scaling function.

When a link's latency changes, the measured round trip follows within `LINK_EXCHANGES` over that
link, and the coordinates follow within `COORDINATE_EXCHANGES` of each host. A change may contradict
other links, as when one of many links between two regions slows down. No coordinate then fits all
links exactly. Planning uses the measured round trip where there is one, and coordinates otherwise.

The same probes tell how far the clocks of other machines are ahead of this one's
(`topology.clock_offset`). Hosts of one machine share its clock, so there is nothing to estimate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import median

import numpy as np

from ha.messages import Ping, Pong
from orchestrator.records import NodeCoordinate
from topology import coordinate as space
from topology.clock_offset import Offset, OffsetEstimator
from topology.cpu import Scaling
from topology.pairwise import PairwiseVivaldi
from topology.vivaldi import Vivaldi

DIMENSIONS = 3
"""Dabek et al. (2004, §5.4) find little gain beyond two or three Euclidean dimensions."""

UNSETTLED_ERROR = 0.3
UNSETTLED_ERROR_MS = 5.0
"""A coordinate is unsettled while both its relative and its absolute error exceed these limits.
Where links are short, waiting for a processor makes up much of every round trip, so that the
relative error alone would never fall."""

EAGER_FACTOR = 4
"""A host with an unsettled coordinate probes this many times as often."""

MOST_AWAITED = 16
"""Probes to a peer whose responses are awaited. A response that comes after so many further probes
counts for nothing."""

FIRST_PROBES = 3
"""Probes to a peer that has not responded yet which come before those to measured peers."""

SAMPLES_KEPT = 5
"""A peer's latency is the median of this many samples: a stalled process spoils one or two."""

LINK_EXCHANGES = SAMPLES_KEPT // 2 + 1
"""Exchanges with a peer until the median reflects a changed link."""

COORDINATE_EXCHANGES = 40
"""Exchanges of each host, with any peers, until distances are again off by less than a tenth after
the links between two regions have become twice as slow. With six hosts, 11 to 24 were enough
(simulated world, 24 seeds)."""


class Prober:
    """Probes random peers, one at a time; before, once each of those that it has not measured.

    Parameters
    ----------
    rng
        Chooses peers, and a direction if two coordinates coincide.
    cpu
        Turns the host's load into the CPU axis.
    interval_us
        Time between two probes once the coordinate has settled.
    anchor_us
        By how much the host's clock is ahead of its machine's monotonic one.
    as_printed
        Whether coordinates follow Algorithm 2 of reliable placement as printed.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        cpu: Scaling,
        interval_us: int,
        anchor_us: int = 0,
        *,
        as_printed: bool = False,
    ) -> None:
        self._rng = rng
        self._interval_us = interval_us
        made = PairwiseVivaldi if as_printed else Vivaldi
        self._vivaldi: Vivaldi = made(DIMENSIONS, rng)
        self._cpu = cpu
        self._samples_ms: dict[str, deque[float]] = {}
        self._awaited: dict[str, deque[int]] = {}
        self._anchor_us = anchor_us
        self._machines: Mapping[str, str] = {}
        self._clocks: dict[str, OffsetEstimator] = {}
        self.load = 0.0
        self.rejected = 0

    def use(self, peers: tuple[str, ...], machines: Mapping[str, str] | None = None) -> None:
        """Probe exactly these peers from now on.

        Parameters
        ----------
        machines
            Peer → its machine, if that is not the host's own.
        """
        self._machines = machines or {}
        self._clocks = {
            machine: self._clocks.get(machine) or OffsetEstimator()
            for machine in sorted(set(self._machines.values()))
        }
        for gone in self._samples_ms.keys() - set(peers):
            self._vivaldi.discard_samples(gone)
        self._samples_ms = {
            peer: self._samples_ms.get(peer, deque(maxlen=SAMPLES_KEPT)) for peer in sorted(peers)
        }
        self._awaited = {
            peer: self._awaited.get(peer, deque(maxlen=MOST_AWAITED)) for peer in self._samples_ms
        }

    def next_probe(self, now_us: int) -> tuple[str, Ping] | None:
        """A peer and the probe to send to it; None without peers."""
        if not self._samples_ms:
            return None
        peers = self._unmeasured or [*self._samples_ms]
        peer = peers[int(self._rng.integers(len(peers)))]
        self._awaited[peer].append(now_us)
        return peer, Ping(sent_us=now_us)

    @property
    def _unmeasured(self) -> list[str]:
        """Peers that are probed first: a start waits until each has been measured.

        By chance alone one of them may not be probed for minutes. One that does not respond counts
        as any other after a few probes.
        """
        return [
            peer
            for peer, samples in self._samples_ms.items()
            if not samples and len(self._awaited[peer]) < FIRST_PROBES
        ]

    @property
    def interval_us(self) -> int:
        """Time until the next probe: shorter while the coordinate is unsettled."""
        mine = self._vivaldi
        unsettled = mine.error > UNSETTLED_ERROR and mine.error_ms > UNSETTLED_ERROR_MS
        return self._interval_us // EAGER_FACTOR if unsettled else self._interval_us

    def answer(self, ping: Ping, now_us: int) -> Pong:
        """The reply to a peer's probe."""
        mine = self._vivaldi.coordinate
        return Pong(
            sent_us=ping.sent_us,
            # The monotonic clock counts from the machine's boot, or from what it likes.
            answered_us=max(now_us - self._anchor_us, 0),
            position_ms=mine.position_ms,
            error=mine.error,
        )

    def measured(self, peer: str, pong: Pong, now_us: int) -> None:
        """Update the latency and the coordinate with a probe's answer.

        An answer counts once, and only if it names the time of a probe to this peer: else the peer
        could choose the round trip, and with it how certain its clock's offset looks.
        """
        samples = self._samples_ms.get(peer)
        if samples is None:
            return
        if pong.sent_us not in self._awaited[peer]:
            self.rejected += 1
            return
        self._awaited[peer].remove(pong.sent_us)
        if (machine := self._machines.get(peer)) is not None:
            anchor_us = self._anchor_us
            self._clocks[machine].observe(
                pong.sent_us - anchor_us, pong.answered_us, now_us - anchor_us
            )
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
        """How often the coordinate was no longer a number and was reset."""
        return self._vivaldi.resets

    @property
    def contradictions(self) -> int:
        """How often an answer contradicted what was known of a machine's clock."""
        return sum(clock.resets for clock in self._clocks.values())

    @property
    def coordinate(self) -> NodeCoordinate:
        """The coordinate, as the host reports it."""
        mine = self._vivaldi.coordinate
        return NodeCoordinate(
            position_ms=mine.position_ms,
            cpu_ms=self._cpu.ms(self.load),
            error=mine.error,
            error_ms=mine.error_ms,
        )

    @property
    def measures_clocks(self) -> frozenset[str]:
        """Other machines whose clocks have been measured."""
        return frozenset(name for name, clock in self._clocks.items() if clock.measured)

    def clocks(self, now_us: int) -> dict[str, Offset]:
        """Other machine → by how much its monotonic clock is ahead of this one's."""
        found = {name: clock.at(now_us - self._anchor_us) for name, clock in self._clocks.items()}
        return {name: offset for name, offset in found.items() if offset is not None}

    @property
    def latencies_ms(self) -> dict[str, float]:
        """Round trip to each peer measured so far, ms."""
        return {peer: median(kept) for peer, kept in self._samples_ms.items() if kept}

    @property
    def spreads_ms(self) -> dict[str, float]:
        """By how much the last round trips to each peer differ, ms."""
        return {
            peer: round(max(kept) - min(kept), 3) for peer, kept in self._samples_ms.items() if kept
        }
