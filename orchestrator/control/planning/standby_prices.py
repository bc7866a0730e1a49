"""What secondaries cost by the schemes by which they are fed, for the choice of their places.

A node that is cheap when every tuple is sent may lie so far from the upstreams that the bound
leaves no time for anything else; on one that is a little dearer, hardly any tuple need be sent. And
what flows to a node anyway is free there. So the search for places prices each node by the scheme
that the secondary would have on it (`StandbyPrices`).

Each fragment is priced as if the recovery bound were its own. Fragments that die together share it,
so places found in this way may turn out dearer than those found by the prices of Active Standby.
Therefore both are completed with their schemes, and the cheaper ones are taken (`cheaper`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from foundation.arrays import FloatArray, IntArray
from orchestrator.control.planning.feeding import (
    chosen,
    decided,
    fed,
    feedings,
    payload_share,
    undecided,
)
from orchestrator.control.planning.task import QueryTask, flowing
from placement.evaluation.load import Load
from placement.records import Recovery, Secondary
from placement.standby_schemes import NO_CHECKPOINTS, Fed, Feeding, Input

PRICED_NODES = 128
"""Nodes on which schemes are tried, the cheapest under Active Standby; the others are priced by
that. Each takes about half a millisecond."""


@dataclass(frozen=True, slots=True)
class StandbyPrices:
    """Network usage of feeding a fragment's secondary on each of some nodes.

    Attributes
    ----------
    task
        With all primaries of its query, and no secondaries.
    primaries
        Node of every operator of the query's graph, pinned ones included.
    flows
        Stream → nodes where it flows whole.
    """

    task: QueryTask
    primaries: Mapping[str, str]
    flows: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, task: QueryTask, primaries: Mapping[str, str]) -> StandbyPrices:
        """For secondaries of the given primaries of the query's fragments."""
        around = undecided(task, primaries)
        return cls(
            task=around,
            primaries=task.pinned | dict(primaries),
            flows=flowing(around.work, around.running, task.graph.to_place),
        )

    def __call__(self, operator: str, nodes: IntArray, transfer_ms: FloatArray) -> FloatArray:
        """See `placement.secondaries.StandbyTraffic`."""
        network = self.task.network
        names = network.names(nodes)
        base = fed(self.task, operator, self._secondary("", 0.0))
        streams = list(self.task.work.fragments[operator].fragment.inputs)
        models: list[Fed] = [
            replace(base, transfer_ms=ms, inputs=self._inputs_at(base.inputs, streams, node))
            for node, ms in zip(names, transfer_ms.tolist(), strict=True)
        ]
        usage = np.array(
            [
                self.usage(operator, node, model, model.with_batch(1, NO_CHECKPOINTS))
                for node, model in zip(names, models, strict=True)
            ]
        )
        bound_ms = self.task.request.recovery_bound_ms
        cheapest: list[int] = np.argsort(usage, kind="stable")[:PRICED_NODES].tolist()
        for at in cheapest:
            feeding = chosen(self.task, models[at], bound_ms, None)
            usage[at] = self.usage(operator, names[at], models[at], feeding)
        return usage

    def usage(self, operator: str, node: str, model: Fed, feeding: Feeding) -> float:
        """Network usage of one secondary on its node: its inputs, and its primary's checkpoints."""
        network, sent = self.task.network, model.sent_bytes_s(feeding)
        streams = self.task.work.fragments[operator].fragment.inputs
        flows = [*zip((self.primaries[each] for each in streams), sent, strict=True)]
        flows.append((self.primaries[operator], feeding.bytes_s - sum(sent)))
        usage = sum(bytes_s * network.one_way_ms(source, node) / 1e3 for source, bytes_s in flows)
        return payload_share(self.task, operator) * usage

    def total(self, standbys: Mapping[str, Secondary], load: Load) -> float:
        """Network usage of a query's secondaries as they are to be fed, and their load price.

        Parameters
        ----------
        load
            With all primaries of the query.
        """
        graph, network = self.task.graph, self.task.network
        placed = {name: self.primaries[name] for name in graph.to_place}
        fed_so = feedings(self.task, standbys, placed)
        total, around = 0.0, self.task
        for name, standby in standbys.items():
            model = fed(around, name, standby)
            total += self.usage(name, standby.node, model, fed_so[name])
            price = load.price_bytes(graph.mean_input_rate)
            total += float(price[network.at(standby.node)])
            load = load.with_operators(graph, {name: (standby.node,)})
            around = decided(around, name, standby.node, fed_so[name])
        return total

    def cheaper(
        self, choices: Iterable[Mapping[str, Secondary]], load: Load
    ) -> Mapping[str, Secondary]:
        """Of several choices of secondaries the one that costs least, the first of equal ones."""
        return min(choices, key=lambda each: self.total(each, load))

    def _inputs_at(self, inputs: Iterable[Input], streams: Iterable[str], node: str) -> list[Input]:
        none = frozenset[str]()
        return [
            replace(each, is_free=node in self.flows.get(stream, none))
            for each, stream in zip(inputs, streams, strict=True)
        ]

    def _secondary(self, node: str, transfer_ms: float) -> Secondary:
        recovery = Recovery(
            detection_ms=self.task.detection_ms, transfer_ms=transfer_ms, reprocess_ms=0.0
        )
        return Secondary(node=node, recovery=recovery)
