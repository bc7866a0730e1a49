"""Suspects peers that have been silent for too long.

A crashed process breaks its connections at once, and the transport reports that within
milliseconds. Silence reveals the failures that break no connection: a hang, a partition, a machine
that vanished. A false suspicion is harmless, because consumers drop tuples that they have received
before, so the threshold may be tight.

A host that was held up itself has not listened meanwhile. The time by which its tick comes late
therefore does not count as its peers' silence.
"""

from __future__ import annotations


class FailureDetector:
    """Notes signs of life of some peers.

    Parameters
    ----------
    suspect_after_us
        Silence after which a peer is suspected, µs.
    tick_us
        Interval at which `suspects` is called when all is well, µs.
    """

    def __init__(self, suspect_after_us: int, tick_us: int) -> None:
        self._suspect_after_us = suspect_after_us
        self._tick_us = tick_us
        self._heard_us: dict[str, int] = {}
        self._suspected: set[str] = set()
        self._last_tick_us: int | None = None

    def watch(self, peers: set[str], now_us: int) -> None:
        """Watch exactly these peers; a new one counts as heard now."""
        self._heard_us = {peer: self._heard_us.get(peer, now_us) for peer in sorted(peers)}
        self._suspected &= peers

    def heard(self, peer: str, now_us: int) -> None:
        """Note a sign of life."""
        if peer in self._heard_us:
            self._heard_us[peer] = now_us
            self._suspected.discard(peer)

    def suspects(self, now_us: int) -> list[str]:
        """Peers newly suspected; each is named once for a silence."""
        if self._last_tick_us is not None:
            held_up_us = now_us - self._last_tick_us - 2 * self._tick_us
            if held_up_us > 0:
                self._heard_us = {
                    peer: min(heard + held_up_us, now_us) for peer, heard in self._heard_us.items()
                }
        self._last_tick_us = now_us
        silent = [
            peer
            for peer, heard_us in self._heard_us.items()
            if peer not in self._suspected and now_us - heard_us > self._suspect_after_us
        ]
        self._suspected.update(silent)
        return silent
