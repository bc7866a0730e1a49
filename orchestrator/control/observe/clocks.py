"""The cluster's clock: by how much it is ahead of each machine's.

Machines' wall clocks may be set at any time, and may be hours off. So only one of them is ever
read: the one that the first host of a cluster started by. The cluster's clock is the monotonic
clock of that machine, ahead by a constant. The machine is the *reference*. For every other one, the
leader adds up the offsets that hosts have measured with their probes (`topology.clock_offset`),
along the way from the reference on which they are least uncertain. Two hosts that do not probe each
other are thereby compared through hosts that do.

Processes of one machine share its monotonic clock: among them there is nothing to estimate and no
uncertainty, whatever their wall clock was when they started. A machine that is booted again is
another machine. If all hosts of the reference are gone, the machine whose offset was known best
becomes the reference, and the cluster's clock goes on. If all machines were booted again, or the
cluster goes on from another one's savepoint, it begins anew by a wall clock, but goes back behind
nothing that is known to have happened: a machine that had no power may have a clock that is hours
behind, and streams would stand still for as long.

An offset stays in use as long as it agrees with what is measured now, so that the store is hardly
written to.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

from orchestrator.clock import machine as this_machine
from orchestrator.clock import monotonic_us, now_us
from orchestrator.records import ClockOffset, ClocksRecord, NodeKind, NodeRecord
from orchestrator.store.protocol import CLOCKS, Store, Versioned
from topology.clock_offset import DRIFT_PPM

REPORT_AGE_US = 2_000_000
"""An offset was measured at most so long before it is used: hosts report every second."""

SLACK_US = REPORT_AGE_US * DRIFT_PPM // 1_000_000

ROOM = 2
"""An offset is stated as so many times as uncertain as it was measured to be, so that it need not
be corrected soon."""


def revised_clocks(
    known: ClocksRecord, nodes: Collection[NodeRecord], least_us: int = 0
) -> ClocksRecord:
    """The offsets of all machines with live hosts, as measured now.

    Parameters
    ----------
    known
        The present ones.
    nodes
        All live hosts.
    least_us
        A time that the cluster's clock has shown.
    """
    live = {node.machine for node in nodes}
    hosts = [node for node in nodes if node.kind is not NodeKind.OBSERVER]
    if not hosts:
        return known
    machines = dict(known.machines)
    candidates = [machine for machine in {node.machine for node in hosts} if machine in machines]
    if candidates:
        reference = min(candidates, key=lambda name: (machines[name].uncertainty_us, name))
        ahead_us = machines[reference].ahead_us
    else:
        first = min(hosts, key=lambda node: node.node)
        reference = first.machine
        ahead_us = first.clock_ahead_us + max(least_us - first.reported_us, 0)
    lost_us = machines[reference].uncertainty_us if candidates else 0
    if lost_us:
        # Offsets were measured from the former reference.
        machines = {
            name: ClockOffset(ahead_us=each.ahead_us, uncertainty_us=each.uncertainty_us + lost_us)
            for name, each in machines.items()
        }
    machines[reference] = ClockOffset(ahead_us=ahead_us, uncertainty_us=0)
    for machine, (offset_us, uncertainty_us) in _offsets_from(reference, nodes).items():
        found = ClockOffset(ahead_us=ahead_us - offset_us, uncertainty_us=uncertainty_us)
        if machine != reference and not _covers(machines.get(machine), found):
            machines[machine] = ClockOffset(ahead_us=found.ahead_us, uncertainty_us=_stated(found))
    if not machines.keys() <= known.machines.keys():
        # Those without hosts are kept until others come: they may only have lost their sessions.
        machines = {name: machines[name] for name in machines if name in live}
    return ClocksRecord(machines=machines)


def uncertainty_us(clocks: ClocksRecord, one: str, other: str) -> int | None:
    """By how much a time between events on two machines may be wrong; None if nobody knows."""
    if one == other:
        return 0
    known = clocks.machines
    if one not in known or other not in known:
        return None
    return known[one].uncertainty_us + known[other].uncertainty_us


def cluster_now_us(clocks: ClocksRecord) -> int:
    """The cluster's clock now; this process's own where no host of its machine tells."""
    known = clocks.machines.get(this_machine())
    return now_us() if known is None else monotonic_us() + known.ahead_us


def read_cluster_us(store: Store) -> int:
    """The cluster's clock now, for a process that reads nothing else."""
    found = store.get(CLOCKS)
    return cluster_now_us(ClocksRecord() if found is None else found.record)


class CoordinatorClock:
    """The cluster's clock, as a coordinator reads it.

    If a host runs on its machine, the machine's offset is known. If not, the clock has passed every
    time at which a host says it has written a report; the greatest of these tells the time to
    within the delay of a report.

    Parameters
    ----------
    machine
        The coordinator's.
    anchor_us
        By how much its own clock is ahead of the machine's monotonic one.
    """

    def __init__(self, machine: str, anchor_us: int) -> None:
        self._machine = machine
        self._anchor_us = anchor_us
        self._heard: dict[str, tuple[tuple[int, int], int]] = {}

    def at(
        self, own_us: int, clocks: ClocksRecord, nodes: Mapping[str, Versioned[NodeRecord]]
    ) -> int:
        """A time of the coordinator's own clock, on the cluster's."""
        known = clocks.machines.get(self._machine)
        if known is not None:
            return own_us - self._anchor_us + known.ahead_us
        before, self._heard = self._heard, {}
        for name, found in nodes.items():
            if found.record.machine not in clocks.machines:
                continue
            self._heard[name] = found.report, found.record.reported_us - own_us
            if name in before and before[name][0] == found.report:
                self._heard[name] = before[name]
        return own_us + max((ahead_us for _, ahead_us in self._heard.values()), default=0)


def _covers(known: ClockOffset | None, found: ClockOffset) -> bool:
    """Whether an offset says what is found now, and is not much more uncertain."""
    if known is None:
        return False
    apart_us = abs(known.ahead_us - found.ahead_us)
    return (
        apart_us + found.uncertainty_us <= known.uncertainty_us
        and known.uncertainty_us <= ROOM * _stated(found)
    )


def _stated(found: ClockOffset) -> int:
    return ROOM * found.uncertainty_us + SLACK_US


def _offsets_from(reference: str, nodes: Collection[NodeRecord]) -> Mapping[str, tuple[int, int]]:
    """Machine → offset of its monotonic clock from the reference's, and its uncertainty, µs."""
    measured: dict[str, dict[str, tuple[int, int]]] = {}
    for node in nodes:
        for machine, offset in node.clocks.items():
            for here, there, us in (
                (node.machine, machine, offset.ahead_us),
                (machine, node.machine, -offset.ahead_us),
            ):
                known = measured.setdefault(here, {})
                if there not in known or offset.uncertainty_us < known[there][1]:
                    known[there] = us, offset.uncertainty_us
    found: dict[str, tuple[int, int]] = {}
    ways = [(0, reference, 0)]
    while ways:
        uncertainty, machine, offset_us = heapq.heappop(ways)
        if machine in found:
            continue
        found[machine] = offset_us, uncertainty
        for there, (us, more) in measured.get(machine, {}).items():
            heapq.heappush(ways, (uncertainty + more, there, offset_us + us))
    return found
