"""The cheapest placement of a tree of operators, by dynamic programming.

Over the candidates it is exact: no other choice of candidates costs less. The cost of operator o
on node n, fed from nodes n_i at rates DR_i, is, in bytes (bytes/s × s),

    Σ_i DR_i·(Lat(n_i, n) + X(n_i, n))  +  DR·cpu(n)  +  s(n_1, …, n_m, n)

the network usage (2) of its inputs with the price of crossing from node to node, the load price of
its primary (`placement.evaluation.load`), DR being the mean input rate of the query's operators,
and the least cost of its secondary under Active Standby, fed by the same primaries:

    s(n_1, …, n_m, n) = min over nodes x of Σ_i DR_i·Lat(n_i, x) + DR·cpu(x)
                        with max_i Lat(n_i, x) ≤ bound − detection − ΣQ·p,
                        and x and n in no common failure domain

In both sums, DR_i = 0 on nodes to which the stream of a source flows anyway (`Operator.flows_to`).
So primaries are chosen where secondaries are cheap as well; the paper (reliable placement, §4.4 and
§4.5) chooses one after the other.

If nodes share failure domains by one label only, such as the machine, the two cheapest x of
different machines are enough for s, whatever n is. If several labels count, the nodes x are grouped
by all labels but one. Within a group the same holds of that one; of n it depends which groups it
may use at all.

Each operator with its free inputs is a factor over the places of m + 1 operators; factors and
operators form a tree (`placement.min_sum`). Where more than `MAX_JOINT_INPUTS` inputs are to be
placed, s is taken for those with the greatest rates alone, as §4.5 takes one of two; the others'
links are factors over two operators. The price leaves out the load that a query's own operators add
while they are placed (`placement.exact`).

*Bounding.* Tables over three operators take most of the time, and most candidates are in no good
placement. So first each input of an operator gets a secondary of its own, which costs less and
needs no such tables; its min-marginals are a lower bound of the cost of every placement with a
candidate. The exact minimum is taken over the candidates whose bound is within `FIRST_SLACK` of the
least, then, if that minimum exceeds the slack, over all candidates whose bound is below it. The
candidates left out can be in no cheapest placement.

=========  ==============================================================
symbol     here
=========  ==============================================================
n_i, n     axes of a table: candidates of the inputs, of the operator last
x          candidates of the secondary
X(n_i, n)  `crossing_ms` between two nodes, 0 within one
=========  ==============================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.evaluation.evaluator import reprocess_ms
from placement.evaluation.single import Places
from placement.graph import Link, QueryGraph
from placement.min_sum import Factor, cheapest, min_marginals
from placement.network import NetworkView

MAX_JOINT_INPUTS = 2
"""Inputs to be placed that a secondary is priced with together: tables grow as candidates^(m+1)."""

STANDBY_WEIGHT = 1 + 1e-9
"""Two neighbours with their replicas on the same two nodes cost the same whichever replicas are the
primaries. This weight prefers those whose secondaries are reached, and hence recover, soonest. It
exceeds rounding, and is negligible beside any cost that differs."""

FIRST_SLACK = 0.01
"""Share by which a candidate's bound may exceed the least one at first. The exact minimum exceeds
it by less in more than half of queries like those of reliable placement, §5."""

ROUNDING = 1e-9
"""Share of costs by which sums of the same terms in another order may differ, and much more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StandbyTerms:
    """The terms of secondaries in the choice of primaries.

    Attributes
    ----------
    nodes
        Indices of nodes that secondaries may take.
    catch_up_ms
        Recovery bound less detection, for K and the reprocessing of held back tuples, ms.
    batch_size
        B of the standby scheme, ≥ 1.
    """

    nodes: IntArray
    catch_up_ms: float
    batch_size: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExactTask:
    """A query, the nodes its operators may take, and the prices of nodes.

    Attributes
    ----------
    candidates
        Indices of nodes for every operator to be placed, none empty.
    price_bytes
        Load price of a replica by node, shape (n,), bytes (`Load.price_bytes`).
    standby
        None: primaries alone count.
    apart
        Whether operators that are linked must take different nodes.
    staying
        Operators that stay where they run, with room or without: that node is their only
        candidate.
    crossing_ms
        Price of a link between two nodes besides its latency, ms.
    """

    graph: QueryGraph
    view: NetworkView
    candidates: Mapping[str, IntArray]
    price_bytes: FloatArray
    standby: StandbyTerms | None = None
    apart: bool = False
    staying: Places = field(default_factory=dict[str, str])
    crossing_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactPlacement:
    """The cheapest places.

    Attributes
    ----------
    primaries
        Node of every operator, pinned ones included.
    cost
        Network usage, crossings, load price and standby terms, bytes; infinite if no candidates
        meet all conditions.
    """

    primaries: dict[str, str]
    cost: float


@dataclass(frozen=True, slots=True, eq=False)
class _StandbyGroup:
    """Nodes for secondaries that agree in all labels but one.

    Attributes
    ----------
    part
        Which of them.
    served
        Nodes of whose primaries a secondary may be here, shape (u,).
    alone
        Whether no two nodes of the group agree in that label, either.
    """

    part: slice
    served: BoolArray
    alone: bool

    @classmethod
    def of(cls, part: slice, served: BoolArray, labels: IntArray) -> _StandbyGroup:
        """The group of nodes with these labels."""
        return cls(part, served, alone=len(np.unique(labels)) == len(labels))


@dataclass(frozen=True, slots=True, eq=False)
class _Ground:
    """The u nodes that a task is about, numbered from 0 by their index.

    Latencies between all of them are taken once: the tables of all links are cut out of it.

    Attributes
    ----------
    delay_ms
        One-way latencies, shape (u, u), ms.
    price_bytes
        As that of `ExactTask`, shape (u,).
    pays
        Source → 0 for nodes to which its stream flows anyway, 1 for others, shape (u,).
    places
        Nodes that each operator may take; the one where it is pinned.
    standby
        Nodes that secondaries may take, group by group; none, if they do not count.
    groups
        Of these nodes.
    label
        The label by which nodes of a group may differ, shape (u,).
    """

    delay_ms: FloatArray
    price_bytes: FloatArray
    pays: Mapping[str, FloatArray]
    places: Mapping[str, IntArray]
    standby: IntArray
    groups: tuple[_StandbyGroup, ...]
    label: IntArray

    @classmethod
    def of(cls, task: ExactTask) -> _Ground:
        """The ground of a task."""
        view = task.view
        at = {
            o.name: np.array([view.index[o.pinned]], dtype=np.int64)
            for o in task.graph.operators
            if o.pinned is not None
        }
        at |= task.candidates
        standby = np.empty(0, dtype=np.int64) if task.standby is None else task.standby.nodes
        nodes = np.unique(np.concatenate([standby, *at.values()]))
        standby = np.searchsorted(nodes, standby)
        label, standby, groups = _grouped(view.domains.distinct[:, nodes], standby)
        return cls(
            delay_ms=view.one_way_between(nodes, nodes),
            price_bytes=task.price_bytes[nodes],
            pays={
                each.name: np.array([float(n not in each.flows_to) for n in view.names(nodes)])
                for each in task.graph.operators
                if each.flows_to
            },
            places={name: np.searchsorted(nodes, indices) for name, indices in at.items()},
            standby=standby,
            groups=groups,
            label=label,
        )

    def only(self, kept: Mapping[str, IntArray]) -> _Ground:
        """The ground with some of the places of operators, by their positions among them."""
        narrowed = {name: self.places[name][at] for name, at in kept.items()}
        return replace(self, places={**self.places, **narrowed})

    def delays_ms(self, sources: IntArray, targets: IntArray) -> FloatArray:
        """Latencies between nodes, shape (s, t), ms."""
        return self.delay_ms[sources[:, None], targets]

    def rate_bytes_s(self, link: Link, targets: IntArray) -> FloatArray | float:
        """DR of a link, by the place of its target where that matters, bytes/s."""
        pays = self.pays.get(link.source)
        return link.rate_bytes_s if pays is None else link.rate_bytes_s * pays[targets]


def is_tree(graph: QueryGraph) -> bool:
    """Whether the links among operators to be placed close no circle, in whatever direction."""
    root = {name: name for name in graph.to_place}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for name in graph.to_place:
        for link in graph.inputs[name]:
            if link.source in root:
                above, below = find(link.source), find(name)
                if above == below:
                    return False
                root[above] = below
    return True


def place_tree(task: ExactTask) -> ExactPlacement:
    """Place the operators of a tree at least cost.

    Parameters
    ----------
    task
        With a graph for which `is_tree` holds.
    """
    graph, ground = task.graph, _Ground.of(task)
    joint = {name: _joint_inputs(task, name) for name in graph.order}
    split = {
        name: _factors(task, ground, name, [[link] for link in links] or [[]])
        for name, links in joint.items()
    }
    sizes = {name: len(task.candidates[name]) for name in graph.to_place}
    bounds, least = min_marginals([each for factors in split.values() for each in factors], sizes)
    slack = FIRST_SLACK * least
    while True:
        spared = slack + ROUNDING * (slack + least)
        kept = {name: np.flatnonzero(each <= each.min() + spared) for name, each in bounds.items()}
        ground_kept = ground.only(kept)
        factors: list[Factor] = []
        for name, links in joint.items():
            if len(links) > 1:
                factors += _factors(task, ground_kept, name, [links])
            else:
                factors += [factor.only(kept) for factor in split[name]]
        chosen, cost = cheapest(factors, {name: len(kept[name]) for name in sizes})
        # Any candidate left out makes the whole dearer than the least by more than the slack.
        if not cost - least > slack:
            break
        slack = cost - least
    primaries = graph.pinned
    for name, at in chosen.items():
        (primaries[name],) = task.view.names(task.candidates[name][kept[name][[at]]])
    return ExactPlacement(primaries=primaries, cost=cost)


def _joint_inputs(task: ExactTask, name: str) -> list[Link]:
    """Links from operators to be placed that the secondary of one to be placed is priced with."""
    if task.standby is None or name not in task.candidates:
        return []
    free = [link for link in task.graph.inputs[name] if link.source in task.candidates]
    return sorted(free, key=_rate, reverse=True)[:MAX_JOINT_INPUTS]


def _factors(
    task: ExactTask, ground: _Ground, name: str, shares: Sequence[Sequence[Link]]
) -> list[Factor]:
    """All costs of one operator: its input links, its load price, its secondary.

    Only inputs that its secondary is priced with share a table; a link of any other is one of its
    own, which keeps tables small and the factors a tree.

    Parameters
    ----------
    shares
        `_joint_inputs`, for the exact costs all in one share. For a bound of them in several: each
        share has a secondary of its own, with an equal part of what else one costs, and together
        those cost no more than one for all.
    """
    graph = task.graph
    is_free = name in task.candidates
    own = ground.places[name]
    joint = [link for links in shares for link in links]
    free = [link for link in graph.inputs[name] if link.source in task.candidates]
    fixed = [link for link in graph.inputs[name] if link.source not in task.candidates]
    factors: list[Factor] = []
    for link in free:
        if link not in joint:
            usage = _usage(task, ground, link)
            factors.append(
                Factor((link.source, name), usage)
                if is_free
                else Factor((link.source,), usage[:, 0])
            )
    alone = sum((_usage(task, ground, link)[0] for link in fixed), np.zeros(len(own)))
    if not is_free:
        return [*factors, Factor((), alone[0])]
    alone = alone + ground.price_bytes[own]
    for links in shares:
        costs = _sum_over([_usage(task, ground, link) for link in links], alone / len(shares))
        if task.standby is not None:
            held_ms = reprocess_ms(graph, name, task.standby.batch_size)
            transfer_ms, part = task.standby.catch_up_ms - held_ms, 1 / len(shares)
            costs += _standby_costs(task, ground, transfer_ms, name, links, fixed, part)
        factors.append(Factor((*(link.source for link in links), name), costs))
    return factors


def _usage(task: ExactTask, ground: _Ground, link: Link) -> FloatArray:
    """DR·(Lat + X) of a link by the places of its ends, bytes; infinite where they must not share
    one."""
    sources, targets = ground.places[link.source], ground.places[link.target]
    is_within = sources[:, None] == targets
    price_ms = ground.delays_ms(sources, targets) + np.where(is_within, 0.0, task.crossing_ms)
    usage = ground.rate_bytes_s(link, targets) * price_ms / 1e3
    if task.apart and link.source in task.candidates and link.target in task.candidates:
        usage[is_within] = np.inf
    return usage


def _standby_costs(
    task: ExactTask,
    ground: _Ground,
    most_ms: float,
    name: str,
    joint: Sequence[Link],
    fixed: Sequence[Link],
    part: float,
) -> FloatArray:
    """s(n_1, …, n_m, n), bytes; infinite where no secondary keeps the bound.

    Parameters
    ----------
    most_ms
        Limit of K, ms.
    part
        Of what does not depend on n_1, …, n_m, how much counts.
    """

    def price(link: Link) -> FloatArray:
        delay_ms = ground.delays_ms(ground.places[link.source], ground.standby)
        rate_bytes_s = ground.rate_bytes_s(link, ground.standby)
        return np.where(delay_ms <= most_ms, rate_bytes_s * delay_ms / 1e3, np.inf)

    # In tables over the inputs' candidates, the last axis is the secondary's node here.
    alone = ground.price_bytes[ground.standby]
    alone = sum((price(link)[0] for link in fixed), alone)
    prices = _sum_over([price(link) for link in joint], part * alone)
    own = ground.label[ground.places[name]]
    everywhere = (*prices.shape[:-1], len(own))
    found: FloatArray | None = None
    for group in ground.groups:
        served = group.served[ground.places[name]]
        if not served.any():
            continue
        labels = ground.label[ground.standby[group.part]]
        first, second, taken = _two_cheapest(prices[..., group.part], labels, alone=group.alone)
        first, second = STANDBY_WEIGHT * first, STANDBY_WEIGHT * second
        if served.all() and found is None:
            found = np.where(taken == own, second, first)
            continue
        if found is None:
            found = np.full(everywhere, np.inf)
        least = np.where(taken == own[served], second, first)
        found[..., served] = np.minimum(found[..., served], least, out=least)
    return np.full(everywhere, np.inf) if found is None else found


def _grouped(
    labels: IntArray, standby: IntArray
) -> tuple[IntArray, IntArray, tuple[_StandbyGroup, ...]]:
    """The label that parts most of the nodes for secondaries, these nodes, and their groups by all
    other labels.

    Parameters
    ----------
    labels
        By which nodes may share failure domains, shape (l, u).
    """
    if len(labels) == 1:
        (label,) = labels
        anywhere = np.ones(len(label), dtype=np.bool_)
        return label, standby, (_StandbyGroup.of(slice(None), anywhere, label[standby]),)
    others = [np.delete(labels, at, axis=0) for at in range(len(labels))]
    at = min(range(len(labels)), key=lambda at: np.unique(others[at][:, standby], axis=1).shape[1])
    label, others = labels[at], others[at]
    kinds, member = np.unique(others[:, standby], axis=1, return_inverse=True)
    standby = standby[np.argsort(member, kind="stable")]
    ends = np.cumsum(np.bincount(member, minlength=kinds.shape[1]))
    groups: list[_StandbyGroup] = []
    for kind, start, end in zip(kinds.T, [0, *ends], ends, strict=False):
        served, part = (others != kind[:, None]).all(axis=0), slice(start, end)
        groups.append(_StandbyGroup.of(part, served, label[standby[part]]))
    return label, standby, tuple(groups)


def _two_cheapest(
    prices: FloatArray, labels: IntArray, *, alone: bool
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Least price along the last axis, the least with any other label, and the label of the first.

    The prices may be overwritten, for most of the time goes into tables as large as this.

    Parameters
    ----------
    alone
        Whether each node has a label of its own.
    """
    rows = prices.reshape(-1, len(labels))
    each, at = np.arange(len(rows)), rows.argmin(axis=1)
    first, taken = rows[each, at], labels[at]
    if alone:
        rows[each, at] = np.inf
    else:
        np.copyto(rows, np.inf, where=labels == taken[:, None])
    shape = (*prices.shape[:-1], 1)
    return first.reshape(shape), rows.min(axis=1).reshape(shape), taken.reshape(shape)


def _sum_over(tables: Sequence[FloatArray], alone: FloatArray) -> FloatArray:
    """Σ of tables over (input i, node) and a row over nodes, as a table over (inputs …, node)."""
    total = alone
    for axis, table in enumerate(tables):
        # The row goes into the first table while that is small.
        total = total + table if axis == 0 else total[..., None, :] + table
    return total


def _rate(link: Link) -> float:
    return link.rate_bytes_s
