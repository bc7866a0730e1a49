"""What a link does to messages: the delay that the topology gives it, and what a drill adds.

The receiving host applies it, in the real and in the simulated world. A fault ends when its time is
over, whether or not the store says so.
"""

from __future__ import annotations

import msgspec

from orchestrator.records import Peer


def on_machine_clock(peer: Peer, ahead_us: int | None) -> Peer:
    """A peer whose link's fault ends by the machine's monotonic clock.

    Without the cluster's clock nobody knows when it ends: then there is none.

    Parameters
    ----------
    ahead_us
        By how much the cluster's clock is ahead of the machine's monotonic one, if that is known.
    """
    if peer.fault is None:
        return peer
    fault = None
    if ahead_us is not None:
        until_us = peer.fault.until_us - ahead_us
        fault = msgspec.structs.replace(peer.fault, until_us=until_us)
    return msgspec.structs.replace(peer, fault=fault)


def link_delay_us(peer: Peer, now_us: int) -> int | None:
    """Time that the link from a peer takes beyond that of the real network; None while it is cut.

    Parameters
    ----------
    now_us
        The machine's monotonic clock.
    """
    delay_ms = peer.delay_ms
    if peer.fault is not None and now_us < peer.fault.until_us:
        if peer.fault.delay_ms is None:
            return None
        delay_ms += peer.fault.delay_ms
    return round(delay_ms * 1000)
