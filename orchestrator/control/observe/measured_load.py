"""The places whose capacity hosts use, and how much of it they have used lately.

A host works on one thread, so a node has one processor for itself. Several hosts may share a
machine, though, and together they have no more than its processors; Spark, ZooKeeper and the
coordinator, the *services*, may take some of these too. So there are two kinds of places: nodes
(and sites), and machines with several hosts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from orchestrator.records import NodeRecord, ServicesRecord
from orchestrator.records.figures import MACHINE_SHARE

NODE_SHARE = 0.95
"""Share of a processor up to which a host may be busy: bursts wait for each other beyond it."""

RELIEVED_SHARE = 0.9
"""Share of its limit below which a place no longer counts as overloaded, so that one at its limit
is not told of again and again."""


def speed_of(node: NodeRecord) -> float:
    """How fast a host's processor works; 1 before it has said so."""
    return 1.0 if node.load is None else node.load.speed


def mean_speed(nodes: Iterable[NodeRecord]) -> float:
    """Of hosts that share their work: what takes one of them a second takes them so on average."""
    slowness = [1 / speed_of(node) for node in nodes]
    return len(slowness) / sum(slowness) if slowness else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPlace:
    """A node, or a machine with several hosts.

    Attributes
    ----------
    hosts
        Those that share its capacity.
    capacity_cores, limit_cores
        What it has, and how much of that its hosts and the services may take.
    measured_cores
        What those of its hosts that are measured have taken lately; None: none is.
    services
        Kind of service on the machine → what it has taken lately.
    speed
        How fast its processors work just now, as hosts report it (`HostLoad`).
    """

    name: str
    hosts: tuple[str, ...]
    capacity_cores: float
    limit_cores: float
    measured_cores: float | None
    services: Mapping[str, float]
    speed: float

    @property
    def busy_cores(self) -> float:
        """What hosts and services have taken lately."""
        return (self.measured_cores or 0.0) + sum(self.services.values())

    @property
    def takers(self) -> str:
        """Who has taken it."""
        return ", ".join(["its hosts", *sorted(self.services)])

    @property
    def is_machine(self) -> bool:
        """Whether several hosts share it."""
        return len(self.hosts) > 1

    @property
    def subject(self) -> str:
        """What it is, and its name."""
        return f"machine {self.name}" if self.is_machine else f"node {self.name}"


def measured_places(
    hosts: Mapping[str, NodeRecord], services: Collection[ServicesRecord], *, emulated: bool
) -> tuple[MeasuredPlace, ...]:
    """All nodes and sites, then all machines with several hosts; by name.

    Hosts that do not tell what their machine has are left out.

    Parameters
    ----------
    services
        Loads of processes that are no hosts.
    emulated
        Whether costs are emulated: then evaluations sleep. They take a node's time and no
        processor, and what was measured tells nothing of them.
    """
    known = {name: own for name, node in sorted(hosts.items()) if (own := node.processors)}
    machines: dict[str, list[str]] = {}
    for name, own in known.items():
        machines.setdefault(own.shared, []).append(name)

    beside: dict[str, Counter[str]] = {}
    for each in services:
        beside.setdefault(each.processors.shared, Counter()).update(each.cores)

    def place(
        name: str, members: list[str], capacity: float, share: float, services: Mapping[str, float]
    ) -> MeasuredPlace:
        loads = [load.cores for host in members if (load := hosts[host].load) is not None]
        is_measured = bool(loads) and not emulated
        return MeasuredPlace(
            name=name,
            hosts=tuple(members),
            capacity_cores=capacity,
            limit_cores=share * capacity,
            measured_cores=sum(loads) if is_measured else None,
            services=services,
            speed=mean_speed(hosts[host] for host in members),
        )

    nodes = [
        place(name, [name], min(own.count, 1.0), NODE_SHARE, {}) for name, own in known.items()
    ]
    together = [
        place(
            known[members[0]].machine,
            members,
            max(known[host].count for host in members),
            MACHINE_SHARE,
            beside.get(shared, {}),
        )
        for shared, members in machines.items()
        if len(members) > 1 and not emulated
    ]
    return (*nodes, *together)


def overloaded(
    hosts: Mapping[str, NodeRecord],
    services: Collection[ServicesRecord],
    before: frozenset[str],
    *,
    emulated: bool,
) -> frozenset[str]:
    """Subjects of the places whose hosts and services have taken more than they may.

    Parameters
    ----------
    before
        Those that were overloaded: they are until they take less than `RELIEVED_SHARE`.
    """
    return frozenset(
        place.subject
        for place in measured_places(hosts, services, emulated=emulated)
        if place.busy_cores
        > place.limit_cores * (RELIEVED_SHARE if place.subject in before else 1.0)
    )
