"""A coordinator: `python -m orchestrator.deploy.coordinator --config FILE`.

It publishes the settings that all processes of the cluster must agree on, stands for election, and
plans while it leads. One without a Cluster manifest takes the settings that the store has. Several
coordinators may run: when the leader ends, another one takes over.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from contextlib import closing
from functools import partial

import msgspec

from orchestrator.clock import anchor_us, machine, now_us
from orchestrator.control.observe.clocks import CoordinatorClock, read_cluster_us
from orchestrator.control.process import Coordinator
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.entry_point import LOOK_EVERY_S, Waiting, run
from orchestrator.deploy.turns import EndSignals
from orchestrator.embedded.struck_process import COORDINATOR, obeying_drills
from orchestrator.health import Health
from orchestrator.manifest import cluster_record
from orchestrator.records import ClusterRecord
from orchestrator.store.overtaken import until_not_overtaken
from orchestrator.store.protocol import CLUSTER, Store


def start_coordinator(config: ProcessConfig, waiting: Waiting, health: Health) -> Coordinator:
    """Publish the cluster's settings if a manifest gives them, and start a candidate for election.

    Without a manifest another coordinator's settings are awaited.

    Raises
    ------
    InvalidInput
        The table of latencies cannot be used.
    StoreError
        The secret does not open the cluster's records.
    Ended
        The process is to end before ZooKeeper and the settings are there.
    """
    settings = None if config.manifest is None else settings_of(config)
    open_store = partial(waiting.open_store, config)
    with closing(open_store()) as store:
        if settings is not None:
            publish(store, settings)
        else:
            waiting.settings(store)
    candidate = f"{config.cluster}-{os.getpid()}-{secrets.token_hex(4)}"
    clock = CoordinatorClock(machine(), anchor_us())
    coordinator = Coordinator(
        open_store,
        candidate,
        now_us,
        clock=clock,
        on_turn=lambda connected: health.turned(ready=connected),
    )
    coordinator.start()
    return coordinator


def settings_of(config: ProcessConfig) -> ClusterRecord:
    """The settings that the Cluster manifest gives a cluster of the configured name."""
    settings = cluster_record(config.cluster_manifest())
    return msgspec.structs.replace(settings, name=config.cluster)


def publish(store: Store, settings: ClusterRecord) -> None:
    """Make the store hold these settings; the cluster's id is drawn once, and stays."""
    drawn = secrets.token_hex(8)

    # Another coordinator, started at the same time, may be faster: then they are compared again.
    def change() -> None:
        found = store.get(CLUSTER)
        known = "" if found is None else found.record.id
        wanted = msgspec.structs.replace(settings, id=known or drawn)
        if found is None:
            store.create(CLUSTER, wanted)
        elif found.record != wanted:
            store.update(CLUSTER, wanted, found.version)

    until_not_overtaken(CLUSTER.path, change)


def serve(config: ProcessConfig, ended: EndSignals, health: Health) -> None:
    """Be a coordinator until it is told to end. It resigns then, and waits for no turn."""
    waiting = Waiting(ended, health)
    coordinator = start_coordinator(config, waiting, health)
    names = {coordinator.candidate: lambda: coordinator.candidate}
    try:
        with (
            closing(waiting.open_store(config)) as store,
            obeying_drills(store, names, lambda: read_cluster_us(store), COORDINATOR),
        ):
            while not ended():
                # Whoever supervises the process starts it again.
                assert not coordinator.broken, "the coordinator's thread has ended"
                time.sleep(LOOK_EVERY_S)
    finally:
        coordinator.stop()


def main() -> int:
    """Run the entry point; its exit status."""
    about = "Coordinate a cluster: elect a leader, which plans and heals."
    return run("orchestrator.deploy.coordinator", about, serve)


if __name__ == "__main__":
    sys.exit(main())
