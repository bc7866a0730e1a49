"""A passing reader of streams: the instrument of `vivace tail` and of drills.

An observer is a host like any other, only with nothing to run: it registers in the store, asks for
streams, and is sent them like every sink, over the same links. It sees exactly what a consumer in
its region would see, and the streams' own sites are not disturbed.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Sequence
from typing import Protocol

from orchestrator.host.events import Deliver
from orchestrator.host.process import HostProcess
from orchestrator.records import HostSpec, NodeKind
from orchestrator.store.protocol import Store
from orchestrator.store.zookeeper import ZooKeeperStore


class Reach(Protocol):
    """How to reach a cluster."""

    @property
    def cluster(self) -> str:
        """Its name."""
        ...

    @property
    def zookeeper(self) -> str:
        """Where its store is."""
        ...

    @property
    def secret(self) -> str:
        """What opens the store."""
        ...


class Observer:
    """Receives streams until it is closed.

    Parameters
    ----------
    reach
        The cluster.
    streams
        What to receive, from the oldest tuple that is still kept.
    region
        Where to observe from; links are as long as they are from there. Empty: no delay is added.

    Raises
    ------
    Unreachable
        If the store does not answer.
    """

    def __init__(self, reach: Reach, streams: Sequence[str], region: str = "") -> None:
        name = f"observer-{secrets.token_hex(4)}"
        spec = HostSpec(
            cluster=reach.cluster,
            node=name,
            kind=NodeKind.OBSERVER,
            region=region,
            domain=name,
            zookeeper=reach.zookeeper,
            secret=reach.secret,
        )
        self._deliveries: queue.SimpleQueue[Deliver] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._store: Store = ZooKeeperStore(reach.zookeeper, reach.cluster, reach.secret)
        self._host = HostProcess(spec, self._store, self._deliveries.put, tuple(streams))
        self._thread = threading.Thread(
            target=self._host.run, args=(self._closing.is_set,), name=name, daemon=True
        )
        self._thread.start()

    def poll(self, timeout_s: float) -> list[Deliver]:
        """What has come; waits for the first delivery at most `timeout_s`."""
        deliveries: list[Deliver] = []
        try:
            deliveries.append(self._deliveries.get(timeout=timeout_s))
            while True:
                deliveries.append(self._deliveries.get_nowait())
        except queue.Empty:
            return deliveries

    def close(self) -> None:
        """Leave the cluster."""
        self._closing.set()
        self._host.wake()
        self._thread.join(timeout=10)
        self._store.close()

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
