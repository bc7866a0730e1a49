"""Least sums of costs over variables with few possible values: the min-sum algorithm.

A cost is a *factor*, a table over the values of the variables that it depends on. Where factors
and variables form a tree, the least sum is found by passing minima from the leaves to a root. The
values that reach it are found by going back (dynamic programming; Kschischang, Frey, Loeliger,
"Factor graphs and the sum-product algorithm", IEEE Trans. Inf. Theory 47, 2001). Going back with
costs instead of values gives every value's *min-marginal*, the least sum that it can be part of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foundation.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Costs by the values of some variables, one axis each; none: a constant."""

    variables: tuple[str, ...]
    costs: FloatArray

    def only(self, kept: Mapping[str, IntArray]) -> Factor:
        """The factor over some of the values of its variables, by their places among them."""
        costs = self.costs
        for axis, name in enumerate(self.variables):
            costs = costs.take(kept[name], axis=axis)
        return Factor(self.variables, costs)


class _Message(NamedTuple):
    """The message of a factor to its variable on the side of the root.

    Attributes
    ----------
    table
        Its costs, with all that lies behind its other variables.
    costs
        The least of them, by value of that variable.
    """

    factor: Factor
    towards: str
    table: FloatArray
    costs: FloatArray


def cheapest(factors: Sequence[Factor], sizes: Mapping[str, int]) -> tuple[dict[str, int], float]:
    """Values of least sum, and the sum; infinite, with any values, if no sum is finite.

    Parameters
    ----------
    factors
        Forming a tree, or several, with the variables.
    sizes
        Number of values ≥ 1 of every variable. Of equal sums, the first values win.
    """
    of_variable = _by_variable(factors, sizes)
    chosen: dict[str, int] = {}
    total = _constant(factors)
    for root in sizes:
        if root in chosen:
            continue
        costs, messages = _gathered(root, of_variable, sizes)
        chosen[root] = int(costs.argmin())
        total += float(costs[chosen[root]])
        for factor, towards, table, _ in reversed(messages):
            rest = table.take(chosen[towards], axis=factor.variables.index(towards))
            values = np.unravel_index(int(rest.argmin()), rest.shape)
            others = [name for name in factor.variables if name != towards]
            chosen.update(zip(others, map(int, values), strict=True))
    return chosen, total


def min_marginals(
    factors: Sequence[Factor], sizes: Mapping[str, int]
) -> tuple[dict[str, FloatArray], float]:
    """By variable and value the least sum of all factors connected with it; and that of all.

    Parameters
    ----------
    factors, sizes
        As of `cheapest`.
    """
    of_variable = _by_variable(factors, sizes)
    least_by_value: dict[str, FloatArray] = {}
    total = _constant(factors)
    for root in sizes:
        if root in least_by_value:
            continue
        least_by_value[root], messages = _gathered(root, of_variable, sizes)
        total += float(least_by_value[root].min())
        for factor, towards, table, costs in reversed(messages):
            least, axes = least_by_value[towards], len(factor.variables)
            # Costs on the root's side of the factor; where they are infinite, so is the sum.
            before = np.full(len(least), np.inf)
            np.subtract(least, costs, out=before, where=np.isfinite(least))
            sums = table + _along(before, factor.variables.index(towards), axes)
            for axis, name in enumerate(factor.variables):
                if name != towards:
                    least_by_value[name] = sums.min(axis=_but(axis, axes))
    return least_by_value, total


def _gathered(
    root: str, of_variable: Mapping[str, Sequence[Factor]], sizes: Mapping[str, int]
) -> tuple[FloatArray, list[_Message]]:
    """Least sums by value of the root, and the messages on the way, from the leaves."""
    order: list[tuple[Factor, str]] = []
    seen: set[int] = set()
    reached = [root]
    for name in reached:
        for factor in of_variable[name]:
            if id(factor) not in seen:
                seen.add(id(factor))
                order.append((factor, name))
                reached += [other for other in factor.variables if other != name]
    costs = {name: np.zeros(sizes[name]) for name in reached}
    messages: list[_Message] = []
    for factor, towards in reversed(order):
        axes, own = len(factor.variables), factor.variables.index(towards)
        table = factor.costs
        if axes > 1:
            # The costs of the others are added up before they are spread over the whole table.
            beyond = sum(
                (
                    _along(costs[name], axis, axes)
                    for axis, name in enumerate(factor.variables)
                    if axis != own
                ),
                np.zeros((1,) * axes),
            )
            table = table + beyond
        messages.append(_Message(factor, towards, table, table.min(axis=_but(own, axes))))
        costs[towards] = costs[towards] + messages[-1].costs
    return costs[root], messages


def _by_variable(factors: Iterable[Factor], sizes: Iterable[str]) -> dict[str, list[Factor]]:
    of_variable: dict[str, list[Factor]] = {name: [] for name in sizes}
    for factor in factors:
        for name in factor.variables:
            of_variable[name].append(factor)
    return of_variable


def _constant(factors: Iterable[Factor]) -> float:
    return sum((float(factor.costs) for factor in factors if not factor.variables), 0.0)


def _but(own: int, axes: int) -> tuple[int, ...]:
    """All axes but one."""
    return tuple(axis for axis in range(axes) if axis != own)


def _along(values: FloatArray, axis: int, axes: int) -> FloatArray:
    """A table of `axes` axes that varies along one."""
    return values.reshape([-1 if each == axis else 1 for each in range(axes)])
