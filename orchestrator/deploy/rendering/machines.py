"""Which machine of a cluster runs which of its processes.

Every machine has a worker of Spark. The first ones have the servers of ZooKeeper, and the first two
a master each, of which one works and the other one is ready to. Coordinators, applications, sites
and the HTTP API are dealt out in turn, unless somebody says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foundation.suggestions import nearest
from orchestrator.deploy.config import is_address
from orchestrator.documents.document import slug
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, cluster_record
from orchestrator.manifest.applications import applications_of
from orchestrator.manifest.kinds import place_of

MOST_MASTERS = 2

WEB = "web"


@dataclass(frozen=True, slots=True)
class Address:
    """A machine's name, and the address by which the others reach it."""

    name: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLayout:
    """What runs where.

    Attributes
    ----------
    servers
        Machines with a server of ZooKeeper; none: the cluster uses one that there is.
    masters
        Machines with a master of Spark.
    coordinators, applications, sites, web
        Name of a process → its machine.
    cores
        That each worker offers: executors of a machine that is lost have room on the others.
    """

    machines: tuple[Address, ...]
    servers: tuple[Address, ...]
    masters: tuple[Address, ...]
    coordinators: Mapping[str, Address]
    applications: Mapping[str, Address]
    sites: Mapping[str, Address]
    web: Mapping[str, Address]
    cores: int


def read_machines(written: Sequence[str]) -> tuple[Address, ...]:
    """Machines as the command line names them: `one=10.0.0.1`.

    Raises
    ------
    InvalidInput
        One has no such form, or shares its name or its address with another.
    """
    found: list[Address] = []
    for each in written:
        name, _, host = each.partition("=")
        if not name or slug(name) != name or not is_address(host):
            problem, remedy = "names no machine", "Write NAME=ADDRESS, such as one=10.0.0.1."
            raise InvalidInput("command line", "--machine", each, problem, remedy)
        if any(name == other.name or host == other.host for other in found):
            problem, remedy = "is there already", "Give each machine its own name and address."
            raise InvalidInput("command line", "--machine", each, problem, remedy)
        found.append(Address(name, host))
    if not found:
        raise InvalidInput(
            "command line", "--machine", None, "is missing", "Name each machine: one=10.0.0.1."
        )
    return tuple(found)


def laid_out(
    manifest: ClusterManifest, machines: Sequence[Address], placed: Sequence[str]
) -> MachineLayout:
    """What runs where.

    Parameters
    ----------
    placed
        Wishes, such as `site-desk=two`.

    Raises
    ------
    InvalidInput
        There are fewer machines than servers of ZooKeeper, or a wish names nothing that there is.
    """
    servers = 0 if manifest.zookeeper.address else manifest.zookeeper.servers
    if servers > len(machines):
        raise InvalidInput(
            place_of(manifest, "zookeeper.servers"),
            f"Cluster {manifest.name}: zookeeper.servers",
            servers,
            f"is more than there are machines ({len(machines)})",
            "Name more machines: two servers on one would be lost together.",
        )
    delays_ms = cluster_record(manifest).delays_ms
    names = [
        [f"coordinator-{number + 1}" for number in range(manifest.coordinators)],
        [f"driver-{each.name}" for each in applications_of(manifest, delays_ms)],
        [f"site-{each.name}" for each in manifest.sites],
        [WEB],
    ]
    wishes = _wishes(placed, {name for kind in names for name in kind}, machines)
    coordinators, applications, sites, web = (
        {
            name: wishes.get(name, machines[number % len(machines)])
            for number, name in enumerate(kind)
        }
        for kind in names
    )
    others = max(len(machines) - 1, 1)
    return MachineLayout(
        machines=tuple(machines),
        servers=tuple(machines[:servers]),
        masters=tuple(machines[:MOST_MASTERS]),
        coordinators=coordinators,
        applications=applications,
        sites=sites,
        web=web,
        cores=-(-len(manifest.nodes) // others),
    )


def _wishes(
    placed: Sequence[str], processes: set[str], machines: Sequence[Address]
) -> dict[str, Address]:
    by_name = {machine.name: machine for machine in machines}
    wishes: dict[str, Address] = {}
    for each in placed:
        process, _, name = each.partition("=")
        if process not in processes:
            problem, remedy = "is no process that can be placed", nearest(process, processes)
            raise InvalidInput("command line", "--place", each, problem, remedy)
        if name not in by_name:
            problem, remedy = "is on no machine that was named", nearest(name, by_name)
            raise InvalidInput("command line", "--place", each, problem, remedy)
        if process in wishes:
            problem, remedy = "is placed twice", "Name one machine for it."
            raise InvalidInput("command line", "--place", each, problem, remedy)
        wishes[process] = by_name[name]
    return wishes
