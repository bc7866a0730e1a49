"""The host pool: `python -m orchestrator.deploy.host_pool --config FILE`.

It starts a Spark application with an executor for each of its nodes, runs a host on each, and
replaces hosts whose executor dies. It ends when Spark does. If the Cluster manifest has several
applications, each is a host pool of its own, and `application` names it.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Set
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from orchestrator.control.observe.clocks import read_cluster_us
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.entry_point import LOOK_EVERY_S, Waiting, run
from orchestrator.deploy.turns import EndSignals, leaving_in_turn
from orchestrator.embedded.java import Java
from orchestrator.embedded.struck_process import DRIVER, obeying_drills
from orchestrator.errors import EXIT_UNREACHABLE, InvalidInput, VivaceError
from orchestrator.health import Health
from orchestrator.host.shell.addresses import ANY_ADDRESSES, advertised_address
from orchestrator.host.shell.leave_order import RUN_VARIABLE
from orchestrator.records import NodeKind
from orchestrator.spark.hosts.kubernetes import (
    NAMESPACE_SETTING,
    POD_VARIABLE,
    DriverPod,
    former_drivers,
    kubernetes_settings,
    own_namespace,
    remove_pods,
)
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
    InvalidInput
        Its master is Kubernetes, and this process runs in no pod.
    NoJava
        No runtime was given, and there is none for a cluster on this machine.
    """
    from orchestrator.spark.hosts.session import SessionSettings, start_session

    application = config.own_application()
    of_master: Mapping[str, str] = {}
    if config.spark_master is not None and config.on_kubernetes:
        pod = driver_pod(config, application.name)
        for name in remove_pods(config.spark_master, pod):
            _log.info("removed pod %s of a former life", name)
        of_master = kubernetes_settings(pod)
    return start_session(
        SessionSettings(
            name=f"vivace-{config.cluster}-{application.name}",
            work_dir=config.work_folder(),
            executors=len(application.nodes),
            executor_memory_mb=config.cluster_manifest().executor_memory_bytes // 2**20,
            master=config.spark_master,
            java=java,
            yields=yields,
            of_master=of_master,
            extra=config.spark_settings,
        )
    )


def driver_pod(
    config: ProcessConfig, application: str, environment: Mapping[str, str] = os.environ
) -> DriverPod:
    """The pod that this process runs an application in, if Spark's master is Kubernetes.

    Raises
    ------
    InvalidInput
        It runs in none, its secret is in no file, or other pods would not reach its hosts.
    """
    if config.secret_file is None:
        problem, remedy = "is missing", "Executors on Kubernetes read the secret from this file."
        raise InvalidInput(config.file, "secretFile", None, problem, remedy)
    if config.bind.strip("[]") not in ANY_ADDRESSES:
        problem, remedy = "is not the address of each executor's pod", "Write 0.0.0.0 or [::]."
        raise InvalidInput(config.file, "bind", config.bind, problem, remedy)
    return DriverPod(
        name=environment.get(POD_VARIABLE, ""),
        namespace=config.spark_settings.get(NAMESPACE_SETTING) or own_namespace(),
        address=advertised_address(config.bind, "", config.zookeeper),
        secret_file=config.secret_file,
        cluster=config.cluster,
        application=application,
        zookeeper=config.zookeeper,
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

    application = config.own_application()
    specs = [config.host_spec(node, NodeKind.EXECUTOR, application) for node in application.nodes]
    pool = HostPool(session, specs, run_host, on_event)
    pool.start()
    return pool


def serve(config: ProcessConfig, ending: EndSignals, health: Health) -> None:
    """Run the hosts until the process is told to end, and all of them have left.

    While nothing runs yet, Spark starts as quickly as it can. Once it does, Spark leaves the
    processors to hosts: what starts in place of the dead must not slow those that take over.

    Raises
    ------
    SparkLost
        Spark ended by itself.
    Ended
        It was told to end before ZooKeeper was there.
    """
    from orchestrator.spark.hosts.session import stop_session, stop_yielding

    # Executors on this machine inherit the environment, and the folder is for one host.
    os.environ.pop(RUN_VARIABLE, None)
    waiting = Waiting(ending, health)
    # Refused here rather than by every executor.
    with closing(waiting.open_store(config)) as store:
        application = config.own_application()
        # A platform replaces a pod at once that is told to end. Its executors are not to be removed
        # before they have left.
        waiting.end_of_former(store, application.name)
        if (master := config.spark_master) is not None and config.on_kubernetes:
            # It could not take its turn if ZooKeeper was away.
            pod = driver_pod(config, application.name)
            waiting.end_of_drivers(lambda: former_drivers(master, pod, datetime.now(UTC)))
        yields = waiting.read(lambda: _anything_runs(store))
        nodes = {node.name for node in application.nodes}
        session = start_spark(config, yields=yields)
        lost: list[SparkLost] = []
        try:
            pool = start_hosts(config, session, lost.append)
            us = partial(read_cluster_us, store)
            try:
                lives = partial(_present_lives, store, nodes)
                leaving = leaving_in_turn(
                    store, ending, application.name, sorted(nodes), config.grace, lives
                )
                with obeying_drills(store, _lives(store, nodes), us, DRIVER), leaving as ended:
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


def _present_lives(store: Store, nodes: Set[str]) -> dict[str, str]:
    """The incarnations of the hosts that there are."""
    found = store.list(NODES).records
    return {name: found[name].record.incarnation for name in sorted(nodes & found.keys())}


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
