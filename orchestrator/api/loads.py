"""How busy nodes and machines are, as predicted and as measured, and what fragments cost."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.costs import suggested_cost_us, suggestion
from orchestrator.control.planning.utilisation import PredictedPlace
from orchestrator.control.planning.workload import Workload


class PlaceLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A node or site, or a machine that several of them share.

    Attributes
    ----------
    hosts
        On the machine; of a node, itself.
    limit_cores
        Up to which queries are admitted.
    predicted_cores
        By rates and costs of the fragments there, primaries and secondaries, and of replicas that
        were lost and will be placed there.
    measured_cores
        Of hosts, over the last ten seconds or so; None if it was not measured.
    services
        What coordinator, Spark and ZooKeeper have taken there over the same time.
    services_cores, takeover_cores
        What they will take, and what must stay free for a takeover.
    speed
        How fast its processors work just now; 1: as where the costs were found that are assumed.
    """

    name: str
    is_machine: bool
    hosts: tuple[str, ...]
    processors: float
    limit_cores: float
    predicted_cores: float
    measured_cores: float | None
    services: dict[str, float] = {}
    services_cores: float = 0.0
    takeover_cores: float = 0.0
    speed: float = 1.0


class FragmentCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica of a fragment costs its node.

    Attributes
    ----------
    basis
        Where the cost is known from: measured, stated, tried or assumed.
    fixed_us, per_tuple_us
        Of an evaluation and of each tuple in it, processor time.
    evaluations_s, cores
        As predicted; `cores` with the overhead of the host.
    measured_evaluations_s, measured_timestamps_s, measured_tuples_s, measured_cores
        On the primary's node lately; `measured_cores` evaluating alone. None: not measured.
    suggestion
        The line for the manifest, if the stated cost is off; None if it is not, or none is stated.
    """

    query: str
    fragment: str
    basis: str
    fixed_us: float
    per_tuple_us: float
    evaluations_s: float
    cores: float
    measured_evaluations_s: float | None = None
    measured_timestamps_s: float | None = None
    measured_tuples_s: float | None = None
    measured_cores: float | None = None
    measured_cost_us: float | None = None
    suggestion: str | None = None


def place_loads(places: Iterable[PredictedPlace]) -> tuple[PlaceLoad, ...]:
    """Places as documents."""
    return tuple(
        PlaceLoad(
            name=place.name,
            is_machine=place.is_machine,
            hosts=place.hosts,
            processors=place.capacity_cores,
            limit_cores=place.limit_cores,
            predicted_cores=place.predicted_cores,
            measured_cores=place.measured_cores,
            services=dict(place.services),
            services_cores=place.services_cores,
            takeover_cores=place.takeover_cores,
            speed=place.speed,
        )
        for place in places
    )


def fragment_costs(view: ClusterView, work: Workload) -> tuple[FragmentCost, ...]:
    """What every fragment costs, by query, producers before consumers."""
    found: list[FragmentCost] = []
    for name, each in work.fragments.items():
        record = view.fragments.get(each.fragment.key)
        status = None if record is None else view.status(record.record.primary, name)
        load = None if status is None else status.load
        found.append(
            FragmentCost(
                query=each.fragment.query,
                fragment=name,
                basis=each.cost.basis.value,
                fixed_us=each.cost.fixed_us,
                per_tuple_us=each.cost.per_tuple_us,
                evaluations_s=each.evaluations_s,
                cores=each.cores,
                measured_evaluations_s=None if load is None else load.evaluations_s,
                measured_timestamps_s=None if load is None else load.timestamps_s,
                measured_tuples_s=None if load is None else load.tuples_s,
                measured_cores=None if load is None else load.cores,
                measured_cost_us=suggested_cost_us(view, each.fragment),
                suggestion=suggestion(view, each),
            )
        )
    return tuple(found)
