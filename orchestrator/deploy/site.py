"""A site: `python -m orchestrator.deploy.site --config FILE`.

Streams enter and leave a cluster at its sites. A site runs the same host as a Spark executor does,
as a process of its own, with the drivers of its sources and sinks.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.entry_point import Waiting, leave, run
from orchestrator.deploy.turns import EndSignals, leaving_in_turn
from orchestrator.edges import sinks, sources
from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.edges.sinks.sink_drivers import HandingSink, SinkDrivers
from orchestrator.edges.site_checks import EdgeChecks
from orchestrator.embedded.struck_process import SITE
from orchestrator.health import Health
from orchestrator.host.shell.leave_order import LeaveOrder
from orchestrator.host.shell.own_environment import in_its_environment
from orchestrator.host.shell.process import HostProcess
from orchestrator.host.shell.warm_up import warm_up
from orchestrator.records import SinkAssignment
from orchestrator.store.protocol import CHECKS
from orchestrator.store.responding import RespondingThread


def serve(config: ProcessConfig, ending: EndSignals, health: Health) -> None:
    """Be a site until it is told to end, and has left.

    Raises
    ------
    InvalidInput
        The configuration names no site of the cluster.
    Ended
        It was told to end before ZooKeeper and the cluster's settings were there.
    """
    spec = in_its_environment(config.site_spec())
    warm_up()
    sources.preload()
    sinks.preload()
    waiting = Waiting(ending, health)
    store = waiting.open_store(config)
    folder = None if spec.archive is None else Path(spec.archive)
    open_sink = sinks.opener(folder) if folder is not None else _drop
    sink_drivers = SinkDrivers(open_sink, aside=True)
    with closing(store), closing(sink_drivers):
        waiting.settings(store)
        checks = EdgeChecks(store, spec.node, folder)
        with closing(RespondingThread(store, CHECKS, checks.respond)):
            host = HostProcess(spec, store, sink_drivers, source_folder=folder)
            life = {spec.node: host.replica_of.incarnation}
            leaving = leaving_in_turn(
                store, ending, f"site {spec.node}", (spec.node,), config.grace, lambda: life
            )
            with host.obeying_drills(SITE), leaving as ended:
                host.run(ended, health, LeaveOrder.of_environment())


def _drop(_: SinkAssignment) -> OpenSink:
    """A site without a folder only measures."""
    return HandingSink(lambda _: None)


def main() -> int:
    """Run the entry point; its exit status."""
    return run(
        "orchestrator.deploy.site", "Be a site, where streams enter and leave a cluster.", serve
    )


if __name__ == "__main__":
    leave(main())
