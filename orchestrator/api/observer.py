"""A temporary reader of streams, used by `vivace tail` and by drills.

An observer is a host that runs no fragments. It registers in the store with the streams it wants,
and receives them over the same links as every sink. It thus sees exactly what a consumer in its
region would see, without disturbing the streams' own sites.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Sequence

from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.context import ClusterContext
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.sink_drivers import HandingSink, SinkDrivers
from orchestrator.embedded.ports import LOOPBACK
from orchestrator.host.shell.process import HostProcess
from orchestrator.records import HostSpec, NodeKind
from orchestrator.store.protocol import Store
from orchestrator.store.zookeeper import ZooKeeperStore


class Observer:
    """Receives streams until it is closed.

    Parameters
    ----------
    reach
        The cluster. Hosts connect to this process: it listens and is known where a configuration
        says so, and at the loopback address for a cluster of this machine.
    streams
        Names of the streams; each is received from its oldest tuple that is still kept.
    region
        Region to observe from: links are delayed as they are from there. Empty: no delay.

    Raises
    ------
    Unreachable
        If the store does not answer.
    """

    def __init__(
        self, reach: ClusterContext | ProcessConfig, streams: Sequence[str], region: str = ""
    ) -> None:
        name = f"observer-{secrets.token_hex(4)}"
        spec = HostSpec(
            cluster=reach.cluster,
            node=name,
            kind=NodeKind.OBSERVER,
            region=region,
            zookeeper=reach.zookeeper,
            secret=reach.secret,
            bind=reach.bind if isinstance(reach, ProcessConfig) else LOOPBACK,
            advertise=reach.advertise if isinstance(reach, ProcessConfig) else "",
        )
        self._deliveries: queue.SimpleQueue[Deliver] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._store: Store = ZooKeeperStore(reach.zookeeper, reach.cluster, reach.secret)
        sinks = SinkDrivers(lambda _: HandingSink(self._deliveries.put))
        self._host = HostProcess(spec, self._store, sinks, tuple(streams))
        self._thread = threading.Thread(
            target=self._host.run, args=(self._closing.is_set,), name=name, daemon=True
        )
        self._thread.start()

    def poll(self, timeout_s: float) -> list[Deliver]:
        """The deliveries that have arrived; waits at most `timeout_s` for the first."""
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
