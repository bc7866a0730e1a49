"""The cost that a manifest should state for a fragment, by what was measured."""

from __future__ import annotations

from orchestrator.control.observe.dataflow import Fragment
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.overhead import LEAST_TUPLES_S
from orchestrator.control.planning.workload import FragmentWork

TOLERANCE = 0.25
"""Share by which a stated cost may be off: processors of one kind differ by as much."""

WORTH_CORES = 0.01
"""What a fragment must take more or less than stated, for a stated cost to be called off."""


def suggested_cost_us(view: ClusterView, fragment: Fragment) -> float | None:
    """Processor time by tuple that evaluating a fragment has taken lately on its primary's node.

    It includes what evaluations cost whatever their tuples. None while it is not known, and on
    simulated hosts, which have no processor.
    """
    found = view.fragments.get(fragment.key)
    load = view.measured_load(fragment)
    if found is None or load is None or load.tuples_s < LEAST_TUPLES_S:
        return None
    if view.nodes[found.record.primary.node].record.processors is None:
        return None
    return load.cores * 1e6 / load.tuples_s


def differs(stated_us: float, measured_us: float) -> bool:
    """Whether one of two costs is off by more than `TOLERANCE` of the other."""
    return abs(measured_us - stated_us) > TOLERANCE * min(measured_us, stated_us)


def misstated_cost_us(view: ClusterView, work: FragmentWork) -> float | None:
    """The measured cost of a tuple, if the stated one is off by more than `TOLERANCE`.

    None as well if that hardly changes what the fragment takes, as where few tuples come.
    """
    stated_us, measured_us = work.stated_cost_us, suggested_cost_us(view, work.fragment)
    load = view.measured_load(work.fragment)
    if measured_us is None or stated_us is None or load is None:
        return None
    off_cores = abs(measured_us - stated_us) * load.tuples_s / 1e6
    return measured_us if differs(stated_us, measured_us) and off_cores >= WORTH_CORES else None


def suggestion(view: ClusterView, work: FragmentWork) -> str | None:
    """The line to write under `estimates`, if the stated cost is off."""
    measured_us = misstated_cost_us(view, work)
    return None if measured_us is None else cost_line(work.name, measured_us)


def cost_line(fragment: str, cost_us: float) -> str:
    """A cost as a manifest states it.

    >>> cost_line("alerts", 123.4)
    'alerts: {cost: 120 us}'
    """
    return f"{fragment}: {{cost: {float(f'{cost_us:.2g}'):g} us}}"
