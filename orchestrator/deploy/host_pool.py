"""The host pool: `python -m orchestrator.deploy.host_pool --config FILE`.

It starts a Spark application with an executor for each of its nodes, runs a host on each, and
replaces hosts whose executor dies. It ends when Spark does. If the Cluster manifest has several
applications, each is a host pool of its own, and `application` says which one.
"""

from __future__ import annotations

import itertools
import logging
import sys
import time
from collections.abc import Callable, Mapping, Set
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.control.observe.clocks import read_cluster_us
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.entry_point import LOOK_EVERY_S, Waiting, run
from orchestrator.embedded.java import Java
from orchestrator.embedded.struck_process import DRIVER, obeying_drills
from orchestrator.errors import EXIT_UNREACHABLE, VivaceError
from orchestrator.health import Health
from orchestrator.records import NodeKind
from orchestrator.store.protocol import FRAGMENTS, NODES, Store, StoreError

if TYPE_CHECKING:
    # Importing Spark is slow, and only the process that starts it needs it.
    from pyspark.sql import SparkSession

    from orchestrator.spark.hosts.pool import HostPool

LOOKS = 20
"""Once Spark leaves the processors to hosts, each such look is also at which nodes have hosts."""

_log = logging.getLogger("vivace.cluster")


class SparkLost(VivaceError):
    """Spark ended under a running cluster, and all executors with it."""

    exit_status = EXIT_UNREACHABLE


def start_spark(
    config: ProcessConfig, java: Java | None = None, *, yields: bool = False
) -> SparkSession:
    """Start Spark with an executor for each node.

    Parameters
    ----------
    yields
        Whether it leaves the processors to hosts from the beginning.

    Raises
    ------
    Unreachable
        Spark did not start.
    NoJava
        No runtime was given, and there is none for a cluster on this machine.
    """
    from orchestrator.spark.hosts.session import SessionSettings, start_session

    return start_session(
        SessionSettings(
            name="-".join(filter(None, ["vivace", config.cluster, _numbered(config)])),
            work_dir=config.work_folder(),
            executors=len(config.application_nodes()),
            executor_memory_mb=config.cluster_manifest().executor_memory_bytes // 2**20,
            master=config.spark_master,
            java=java,
            yields=yields,
            extra=config.spark_settings,
        )
    )


def start_hosts(
    config: ProcessConfig, session: SparkSession, on_lost: Callable[[SparkLost], None]
) -> HostPool:
    """Run a host on an executor for each node, until the pool is stopped.

    Parameters
    ----------
    on_lost
        Told, on a thread of the pool, that Spark has ended.
    """
    from orchestrator.host.shell.process import run_host
    from orchestrator.spark.hosts.pool import HostPool, PoolEvent, SessionLost

    def on_event(event: PoolEvent) -> None:
        _log.info("%s", event)
        if isinstance(event, SessionLost):
            on_lost(
                SparkLost(
                    f"Spark ended, and all executors of cluster {config.cluster} with it; "
                    f"its log is {config.work_folder() / 'spark.log'}"
                )
            )

    # One that is started again is the same failure domain.
    application = _numbered(config) or session.sparkContext.applicationId
    nodes = config.application_nodes()
    specs = [config.host_spec(node, NodeKind.EXECUTOR, application) for node in nodes]
    pool = HostPool(session, specs, run_host, on_event)
    pool.start()
    return pool


def _numbered(config: ProcessConfig) -> str:
    """The name of one of several applications; empty for the only one."""
    return f"application-{config.application}" if config.application else ""


def serve(config: ProcessConfig, ended: Callable[[], bool], health: Health) -> None:
    """Run the hosts until `ended` says so.

    While nothing runs yet, Spark starts as quickly as it can. Once it does, Spark leaves the
    processors to hosts: what starts in place of the dead must not slow those that take over.

    Raises
    ------
    SparkLost
        Spark ended by itself.
    Ended
        `ended` said so before ZooKeeper was there.
    """
    from orchestrator.spark.hosts.session import stop_session, stop_yielding

    # Refused here rather than by every executor.
    with closing(Waiting(ended, health).open_store(config)) as store:
        yields = _anything_runs(store)
        nodes = {node.name for node in config.application_nodes()}
        session = start_spark(config, yields=yields)
        lost: list[SparkLost] = []
        try:
            pool = start_hosts(config, session, lost.append)
            us = partial(read_cluster_us, store)
            try:
                with obeying_drills(store, _lives(store, nodes), us, DRIVER):
                    _watch(pool, nodes, store, lambda: ended() or bool(lost), health, yields=yields)
            finally:
                # Hosts that end need nothing, and Spark has to end them in time.
                stop_yielding()
                pool.stop()
        finally:
            stop_session(session)
    if lost:
        raise lost[0]


def _watch(
    pool: HostPool,
    nodes: Set[str],
    store: Store,
    ended: Callable[[], bool],
    health: Health,
    *,
    yields: bool,
) -> None:
    """Watch the hosts until `ended` says so; have Spark yield to them once all are there."""
    from orchestrator.spark.hosts.session import yield_to_hosts

    there = False
    for look in itertools.count():
        if ended():
            return
        if not yields or look % LOOKS == 0:
            there = _all_there(nodes, store)
        if there and not yields:
            yield_to_hosts()
            yields = True
        if pool.is_whole:
            health.turned(ready=there)
        time.sleep(LOOK_EVERY_S)


def _lives(store: Store, nodes: Set[str]) -> Mapping[str, Callable[[], str | None]]:
    """The nodes by whose hosts drills name this driver, and their present incarnations."""

    def life(node: str) -> str | None:
        found = store.get(NODES.key(node))
        return None if found is None else found.record.incarnation

    return {node: partial(life, node) for node in nodes}


def _anything_runs(store: Store) -> bool:
    """Whether some fragment has a replica on a host that is there.

    After a start, the store tells of fragments whose hosts have ended with the former cluster. They
    need no processor, and wait for Spark.
    """
    there = {name: found.record.incarnation for name, found in store.list(NODES).records.items()}
    return any(
        there.get(replica.node) == replica.incarnation
        for found in store.list(FRAGMENTS).records.values()
        for replica in found.record.replicas
    )


def _all_there(nodes: Set[str], store: Store) -> bool:
    """Whether all of some nodes have hosts."""
    try:
        return nodes <= store.list(NODES).records.keys()
    except StoreError:
        return False


def main() -> int:
    """Run the entry point; its exit status."""
    return run(
        "orchestrator.deploy.host_pool",
        "Run the hosts of a cluster's nodes on Spark executors.",
        serve,
    )


if __name__ == "__main__":
    sys.exit(main())
