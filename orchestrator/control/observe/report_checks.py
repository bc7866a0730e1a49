"""What a host reports, without figures that cannot be.

A record can be read and say absurd things: that a round trip took less than nothing, or that a
tuple costs more than the age of the world. What is decided for all fragments rests on the records
of all hosts. So such a figure is left out, as if it had not been measured, and the host's problems
name it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from orchestrator.records import (
    CostStatus,
    HostLoad,
    NodeCoordinate,
    NodeRecord,
    ReplicaLoad,
    ReplicaStatus,
)
from orchestrator.records.speed import SPEEDS
from orchestrator.store.protocol import Versioned

MOST_MS = 1e9
"""More than eleven days: no latency, load or distance."""

MOST_BYTES = 1e15
"""More than any host has memory."""

MOST_US = 1e12
"""As much for the cost of a timestamp or a tuple."""


def checked_report(found: Versioned[NodeRecord]) -> Versioned[NodeRecord]:
    """The record without what cannot be, and with problems that say so; itself if all can be."""
    record = found.record
    problems = tuple(_problems(record))
    if not problems:
        return found
    sound = msgspec.structs.replace(
        record,
        coordinate=record.coordinate if _is_place(record.coordinate) else None,
        latencies_ms={to: ms for to, ms in record.latencies_ms.items() if _all_within([ms])},
        spreads_ms={to: ms for to, ms in record.spreads_ms.items() if _all_within([ms])},
        clocks={name: each for name, each in record.clocks.items() if each.uncertainty_us >= 0},
        load=record.load if _is_host_load(record.load) else None,
        replicas={name: _sound(each) for name, each in record.replicas.items()},
        problems=(*record.problems, *problems),
    )
    return replace(found, record=sound)


def _problems(record: NodeRecord) -> Iterator[str]:
    if not _is_place(record.coordinate):
        yield f"reports a coordinate that cannot be: {record.coordinate}"
    for to, ms in record.latencies_ms.items():
        if not _all_within([ms]):
            yield f"reports a round trip to {to} that cannot be: {ms} ms"
    for to, ms in record.spreads_ms.items():
        if not _all_within([ms]):
            yield f"reports round trips to {to} that differ by what cannot be: {ms} ms"
    for name, each in record.clocks.items():
        if each.uncertainty_us < 0:
            yield f"reports a clock of {name} that is wrong by {each.uncertainty_us} us"
    if not _is_host_load(record.load):
        yield f"reports a load that cannot be: {record.load}"
    for name, each in record.replicas.items():
        if not _is_cost(each.cost):
            yield f"reports a cost of {name} that cannot be: {each.cost}"
        if not _is_load(each.load):
            yield f"reports a load of {name} that cannot be: {each.load}"
        if not _is_size(each.state_bytes):
            yield f"reports a state of {name} that cannot be: {each.state_bytes} bytes"


def _sound(status: ReplicaStatus) -> ReplicaStatus:
    """Without figures that cannot be."""
    return msgspec.structs.replace(
        status,
        cost=status.cost if _is_cost(status.cost) else None,
        load=status.load if _is_load(status.load) else None,
        state_bytes=status.state_bytes if _is_size(status.state_bytes) else None,
    )


def _is_place(coordinate: NodeCoordinate | None) -> bool:
    if coordinate is None:
        return True
    sizes = [coordinate.cpu_ms, coordinate.error, coordinate.error_ms]
    return _all_within(sizes) and _all_within(map(abs, coordinate.position_ms))


def _is_cost(cost: CostStatus | None) -> bool:
    return cost is None or _all_within([cost.fixed_us, cost.per_tuple_us], MOST_US)


def _is_size(state_bytes: int | None) -> bool:
    return state_bytes is None or _all_within([state_bytes], MOST_BYTES)


def _is_load(load: ReplicaLoad | None) -> bool:
    if load is None:
        return True
    rates = msgspec.structs.replace(load, emitted_bytes_s=0.0)
    sizes = _all_within([load.emitted_bytes_s], MOST_BYTES)
    return sizes and _all_within(msgspec.structs.astuple(rates)) and load.window_share <= 1


def _is_host_load(load: HostLoad | None) -> bool:
    if load is None:
        return True
    least, most = SPEEDS
    return _all_within(msgspec.structs.astuple(load)) and least <= load.speed <= most


def _all_within(values: Iterable[float], most: float = MOST_MS) -> bool:
    return all(math.isfinite(value) and 0 <= value <= most for value in values)
