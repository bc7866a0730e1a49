"""Suspects peers that have been silent for too long, and knows when silence proves little.

A crashed process breaks its connections at once, and the transport reports that within
milliseconds. Silence reveals the failures that break no connection: a hang, a partition, a machine
that vanished. It also occurs on CPU-starved hosts, where nothing has failed. A false suspicion
loses nothing, but the takeover that follows is more work for hosts that have too much already, and
their silence causes the next one: a metastable failure. The threshold therefore adapts, as in
Dadgar, Phillips and Currey (2017), *Lifeguard: local health awareness for more accurate failure
detection* (arXiv 1707.00788), from which the first two rules are:

- *The detector's own lag.* Silence is measured in ticks of its own: a tick counts for the time
  between two ticks that come in time, however late it was. A host that is held up suspects nobody
  for the time in which it did not listen.
- *The peer's lag.* A host says by how much its ticks have been late lately. Its silence may last
  longer by `LAGS_GRANTED` times that. Lag that it only expects does not count: a host that dies
  while it is busy must be missed as soon as any other.
- *Alarms that were false.* A suspected peer that is heard again was alive. Each such alarm doubles
  every peer's threshold.
- *Several at once.* If several peers fall silent together, the fault more likely lies with what
  they share than with each of them. Thresholds grow with the number of silent peers, and after one
  suspicion that of another peer waits for `RATION` thresholds.
- *Nobody else is heard.* A host that hears nobody is more likely cut off than left alone, and could
  reach no consumer anyway. A peer is suspected only if another host was heard when it had been
  silent for half a threshold, and `GRACE_TICKS` have passed since. Within that time, a host whose
  links are mended hears all others again. A host that never hears a third one learns of its peer's
  end from a broken connection or from the store.

Lag and false alarms are forgotten: half of them each `LAG_HALF_LIFE_US` and `ALARM_HALF_LIFE_US`.
A healthy host suspects a healthy peer after the threshold `suspect_after_us`. No threshold exceeds
`MOST_PATIENCE` times that.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

LAGS_GRANTED = 3
"""The next lag may be longer than the last one, and its message takes its time."""

LAG_HALF_LIFE_US = 2_000_000
"""A lag of half a second is forgotten after some ten seconds."""

USUAL_HALF_LIFE_US = 30_000_000
"""Of the lag that is usual: a host that is late is late again and again."""

ALARM_HALF_LIFE_US = 10_000_000
"""Longer than the work that a takeover causes."""

MOST_PATIENCE = 8
"""Even an overloaded cluster notices a silent host in about a second with the default threshold."""

MOST_ALARMS = 3
"""False alarms that count: they make the threshold `MOST_PATIENCE` times as long."""

GRACE_TICKS = 2
"""Peers send a heartbeat in each."""

RATION = 4
"""Thresholds between two suspicions: long enough for a takeover to be done."""


@dataclass(slots=True)
class _Peer:
    """What is known of a peer.

    Attributes
    ----------
    heard_us
        Time on the detector's own scale (`FailureDetector._listened_us`) of the last sign of life.
    others_us
        When another host was first heard after this one had been silent for half a threshold.
    lag_us
        What it said of its own lag, bounded.
    given_up
        Whether it counts as lost until it is heard again.
    suspected
        Whether that is so because it was silent.
    met
        Whether it has been heard at all since it is watched.
    missed
        Whether it counted as lost before it was given more to do, and has not been heard since.
    """

    heard_us: int
    others_us: int | None = None
    lag_us: int = 0
    given_up: bool = False
    suspected: bool = False
    met: bool = False
    missed: bool = False


class FailureDetector:
    """Notes signs of life of some peers.

    Parameters
    ----------
    suspect_after_us
        Silence after which a healthy peer is suspected, µs.
    tick_us
        Interval at which `suspects` is called when all is well, µs.
    """

    def __init__(self, suspect_after_us: int, tick_us: int) -> None:
        self._suspect_after_us = suspect_after_us
        self._tick_us = tick_us
        self._peers: dict[str, _Peer] = {}
        self._last_tick_us: int | None = None
        self._listened_us = 0
        self._rests_until_us = 0
        self._lag_us = self._usual_lag_us = 0.0
        self._alarms = 0.0
        self._heard_us: int | None = None
        self.long_silences = 0
        """How often a peer was heard again after more than half of that silence."""

    @property
    def lag_us(self) -> int:
        """By how much this host's ticks have been late lately, for its peers to know."""
        return round(self._lag_us)

    @property
    def usual_lag_us(self) -> int:
        """What `lag_us` has been on average in the last minute or so."""
        return round(self._usual_lag_us)

    def watch(self, peers: set[str], now_us: int, renewed: Set[str] = frozenset()) -> None:
        """Watch exactly these peers; a new one counts as heard now.

        Parameters
        ----------
        renewed
            Peers that have been given something more to do here. One that counts as lost is then
            watched as if it were new: whoever chose it takes it to be alive.
        """
        if self._last_tick_us is None:
            self._last_tick_us = now_us
        heard_us = self._at(now_us)
        missed = {name for name in self._peers if self.misses(name)}
        known = {
            name: peer
            for name, peer in self._peers.items()
            if not (peer.given_up and name in renewed)
        }
        self._peers = {
            peer: known.get(peer) or _Peer(heard_us, missed=peer in missed)
            for peer in sorted(peers)
        }

    def hears_others(self, since_us: int) -> bool:
        """Whether any host has been heard later than `GRACE_TICKS` after a time.

        A host that lost a peer and has heard nobody since is more likely cut off than left alone.
        """
        graced_us = since_us + GRACE_TICKS * self._tick_us
        return self._heard_us is not None and self._heard_us >= graced_us

    def has_met(self, peer: str) -> bool:
        """Whether a peer has been heard since it is watched: links take a while to come up."""
        known = self._peers.get(peer)
        return known is not None and known.met

    def silent_us(self, peer: str, now_us: int) -> int:
        """For how long a peer has not been heard; 0 if it is not watched."""
        known = self._peers.get(peer)
        return 0 if known is None else max(self._at(now_us) - known.heard_us, 0)

    def heard(self, peer: str, now_us: int) -> None:
        """Note a sign of life, also of a host that is not watched."""
        at_us = self._at(now_us)
        self._heard_us = now_us
        for name, other in self._peers.items():
            silent_us = at_us - other.heard_us
            if other.others_us is None and name != peer and 2 * silent_us > self.threshold_us(name):
                other.others_us = at_us
        if (known := self._peers.get(peer)) is None:
            return
        if 2 * (at_us - known.heard_us) > self._suspect_after_us:
            self.long_silences += 1
        known.heard_us, known.others_us, known.met = at_us, None, True
        known.missed = False
        if known.suspected:
            self._alarms = min(self._alarms + 1, MOST_ALARMS)
        known.given_up = known.suspected = False

    def lost(self, peer: str) -> None:
        """Note that a peer is known to be lost: its silence says nothing more."""
        if (known := self._peers.get(peer)) is not None:
            known.given_up = True

    def counts_as_lost(self, peer: str) -> bool:
        """Whether a peer was lost or suspected, and has not been heard since."""
        known = self._peers.get(peer)
        return known is not None and known.given_up

    def misses(self, peer: str) -> bool:
        """Whether a peer counted as lost, and has not been heard since.

        That it was given more to do meanwhile says nothing: whoever chose it may not have known.
        """
        known = self._peers.get(peer)
        return known is not None and (known.given_up or known.missed)

    def told_lag(self, peer: str, lag_us: int) -> None:
        """Note by how much a peer says that its ticks have been late lately."""
        if (known := self._peers.get(peer)) is not None:
            known.lag_us = min(max(lag_us, 0), MOST_PATIENCE * self._suspect_after_us)

    def suspects(self, now_us: int) -> list[str]:
        """The peer newly suspected, if any; it is named once for a silence."""
        self._tick(now_us)
        silences_us = {
            name: self._listened_us - peer.heard_us
            for name, peer in self._peers.items()
            if not peer.given_up
        }
        silent = sum(silence > self._suspect_after_us / 2 for silence in silences_us.values())
        overdue = [
            (silence_us, name)
            for name, silence_us in silences_us.items()
            if silence_us > self._patience_us(name, silent)
            and self._hears_others(self._peers[name])
            and (self._listened_us >= self._rests_until_us or self._peers[name].missed)
        ]
        if not overdue:
            return []
        # The one that has been silent for longest; of several, the first by name.
        _, name = min((-silence_us, name) for silence_us, name in overdue)
        self._peers[name].given_up = self._peers[name].suspected = True
        self._rests_until_us = self._listened_us + RATION * self._suspect_after_us
        return [name]

    def _hears_others(self, peer: _Peer) -> bool:
        """Whether others are heard while the peer is silent, and not only since a moment ago."""
        graced_us = self._listened_us - GRACE_TICKS * self._tick_us
        return peer.others_us is not None and peer.others_us <= graced_us

    def threshold_us(self, peer: str) -> float:
        """How long a peer may be silent if nothing else speaks for it."""
        return self._suspect_after_us

    def _patience_us(self, name: str, silent: int) -> float:
        """How long a peer may be silent now, if so many peers are."""
        granted_us = self.threshold_us(name) * 2**self._alarms * max(silent, 1)
        granted_us += LAGS_GRANTED * self._peers[name].lag_us
        return min(granted_us, MOST_PATIENCE * self._suspect_after_us)

    def _tick(self, now_us: int) -> None:
        if self._last_tick_us is not None:
            elapsed_us = max(now_us - self._last_tick_us, 0)
            self._listened_us += min(elapsed_us, self._tick_us)
            self._lag_us *= 0.5 ** (elapsed_us / LAG_HALF_LIFE_US)
            self._lag_us = max(self._lag_us, elapsed_us - self._tick_us)
            usual = 0.5 ** (elapsed_us / USUAL_HALF_LIFE_US)
            self._usual_lag_us = usual * self._usual_lag_us + (1 - usual) * self._lag_us
            self._alarms *= 0.5 ** (elapsed_us / ALARM_HALF_LIFE_US)
        self._last_tick_us = now_us

    def _at(self, now_us: int) -> int:
        """A time since the last tick on the detector's own scale."""
        since_us = 0 if self._last_tick_us is None else max(now_us - self._last_tick_us, 0)
        return self._listened_us + min(since_us, self._tick_us)
