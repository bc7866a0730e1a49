"""The paper's queries under each standby scheme, by formulas: kind `model` of benchmark `standby`.

Networks, queries and bound are those of reliable placement, §5 (`bench.placement_workload`), and
acknowledgements come every 200 ms and cost nothing. Each placement is priced twice:

- `pushed`: the paper's (1), R = max K + ΣQ·p. An upstream that holds tuples back sends them as soon
  as the primary is dead; nobody has to ask for them.
- `asked`: as in the product. Only the secondary notices the death, and asks the upstreams, so R has
  the way twice: R = 2 max K + ΣQ·p.

The difference is large where secondaries stand far from their upstreams: with K beyond half of the
bound, a secondary that has to ask must be sent every tuple.

A query's recovery time is that of its slowest operator, as in the paper's Table 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.placement_methods import METHODS
from bench.placement_workload import BOUND_MS, COST_US, Workload, paper_workload
from bench.standby_shared import METHOD, shared
from placement.graph import Link
from placement.records import Pairs
from placement.standby_schemes import NEVER, Fed, Feeding, Input

NETWORKS = 10
ACK_MS = 200.0
BATCHES = (5, 10, 15)
READINGS = {"pushed": False, "asked": True}
"""Third part of the keys → whether the secondary asks."""

PLACED_BY = ("paper", "ours")
ROUNDING_MS = 1e-9


@dataclass(slots=True)
class _Sum:
    """Figures of one scheme over all queries.

    Attributes
    ----------
    usage
        Network usage of standbys, bytes.
    recoveries_ms
        By query.
    """

    usage: float = 0.0
    recoveries_ms: list[float] = field(default_factory=list[float])


def modelled(networks: int) -> dict[str, float]:
    """Means over networks."""
    sums: dict[str, list[float]] = {}
    for seed in range(networks):
        load = paper_workload(seed)
        for method in PLACED_BY:
            pairs = METHODS[method](load, np.random.default_rng(seed))
            for reading, is_asked in READINGS.items():
                for key, value in priced(load, pairs, is_asked=is_asked).items():
                    sums.setdefault(f"model.{method}.{reading}.{key}", []).append(value)
            if method == METHOD:
                for key, value in shared(load, pairs, seed).items():
                    sums.setdefault(f"model.shared.{key}", []).append(value)
    return {key: float(np.mean(values)) for key, values in sums.items()}


def priced(load: Workload, pairs: Pairs, *, is_asked: bool) -> dict[str, float]:
    """Network usage and recovery of one placement under each scheme.

    Parameters
    ----------
    is_asked
        Whether upstreams send what they held back only when the secondary asks.
    """
    view, sums, primary_usage = load.view, dict[str, _Sum](), 0.0
    for request in load.requests:
        graph = request.graph
        primaries = graph.pinned | {name: pairs[name][0] for name in graph.to_place}
        for link in graph.links:
            one_way_ms = view.one_way_ms(primaries[link.source], primaries[link.target])
            primary_usage += link.rate_bytes_s * one_way_ms / 1e3
        slowest_ms: dict[str, float] = {}
        for name in graph.to_place:
            links = graph.inputs[name]
            ways_ms = [view.one_way_ms(primaries[each.source], pairs[name][1]) for each in links]
            for key, chosen in _schemes(links, max(ways_ms), is_asked=is_asked).items():
                share = chosen.bytes_s / sum(each.rate_bytes_s for each in links)
                found = sums.setdefault(key, _Sum())
                for link, one_way_ms in zip(links, ways_ms, strict=True):
                    found.usage += share * link.rate_bytes_s * one_way_ms / 1e3
                slowest_ms[key] = max(slowest_ms.get(key, 0.0), chosen.recovery_ms)
        for key, recovery_ms in slowest_ms.items():
            sums[key].recoveries_ms.append(recovery_ms)
    return _figures(primary_usage, sums)


def _schemes(links: Sequence[Link], transfer_ms: float, *, is_asked: bool) -> dict[str, Feeding]:
    """How one secondary is fed under each scheme."""
    fed = Fed(
        inputs=[Input(tuples_s=each.tuples_s, bytes_s=each.rate_bytes_s) for each in links],
        cost_us=COST_US,
        detection_ms=0.0,
        transfer_ms=transfer_ms,
        checkpoint_bytes=0.0,
        changes_bytes_s=0.0,
        ack_interval_ms=ACK_MS,
        delay_ms=0.0,
        is_asked=is_asked,
    )
    return {
        "as": fed.with_batch(1, 0.0),
        **{f"sas_{batch}": fed.with_batch(batch, ACK_MS) for batch in BATCHES},
        "asas_largest": fed.largest(BOUND_MS, ACK_MS),
        "asas": fed.cheapest(BOUND_MS),
        "upstream": fed.with_batch(NEVER, ACK_MS),
    }


def _figures(primary_usage: float, sums: Mapping[str, _Sum]) -> dict[str, float]:
    active = primary_usage + sums["as"].usage
    flat: dict[str, float] = {}
    for key, found in sums.items():
        ms = np.array(found.recoveries_ms)
        flat |= {
            f"{key}.network_usage": primary_usage + found.usage,
            f"{key}.saved_pct": 100 * (sums["as"].usage - found.usage) / active,
            f"{key}.recovery_ms_mean": float(ms.mean()),
            f"{key}.recovery_ms_max": float(ms.max()),
            f"{key}.bound_kept_pct": 100 * float((ms <= BOUND_MS + ROUNDING_MS).mean()),
        }
    return flat
