"""Failure domains: which two nodes may die together, and how far that is tolerated.

A node has labels: its Spark application, its machine, the machine of its application's driver, its
zone, and a domain that people name, such as a rack. Nodes that share one may die together. A label
that a node does not have it shares with no other.

A node dies with its machine, and with that of its driver. So drivers are compared crosswise: two
nodes share this label if the one is on, or has its driver on, a machine that the other is on or has
its driver on.

The two replicas of an operator share none of the labels of which the hosts have several values. For
an operator of which that cannot be kept, zones cease to count, then drivers, then machines too:
each such step is a *looseness*. Applications and domains always count, and so does the last kind
that parts any two hosts.

Equal numbers in a row of `FailureDomains.labels` mean the same label. So whether two nodes share
one is a comparison of two short columns. (A table of all pairs would be large: 10,000 nodes may
well be on as many machines.) Crosswise labels take several rows (`_crosswise`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from foundation.arrays import BoolArray, IntArray

LABELS = ("application", "domain", "machine", "driver", "zone")
"""Kinds of labels, those first that cease to count last."""

DROPPED = ("zone", "driver", "machine")
"""Those that cease to count, in this order."""

TOGETHER = len(DROPPED) + 1
"""Looseness of a pair that is tolerated nowhere: on one node, or with a label that always
counts."""


@dataclass(frozen=True, eq=False)
class FailureDomains:
    """Nodes by number, and the labels that part hosts.

    Attributes
    ----------
    kinds
        Of the labels that count, in the order of `LABELS`; one of each row.
    labels
        Shape (rows, n); equal numbers in a row, the same label.
    looseness_of
        From which looseness on a row no longer counts, shape (rows,); `TOGETHER`: it always does.
    looseness
        The present one, 0 ≤ looseness < `TOGETHER`.
    """

    kinds: tuple[str, ...]
    labels: IntArray
    looseness_of: IntArray
    looseness: int = 0

    @classmethod
    def of(cls, named: Mapping[str, Sequence[str]], hosts: BoolArray) -> FailureDomains:
        """The failure domains of nodes.

        Parameters
        ----------
        named
            Kind → label of each node; empty: it has none. Those of machines and drivers are both
            names of machines.
        hosts
            Nodes that replicas may be placed on, shape (n,).
        """
        rows = {
            kind: _numbered(labels)[np.newaxis] for kind, labels in named.items() if any(labels)
        }
        if "driver" in rows:
            drivers = named["driver"]
            rows["driver"] = _crosswise(named.get("machine", [""] * len(drivers)), drivers)
        parting = [kind for kind in LABELS if kind in rows and _parts(rows[kind], hosts)]
        looseness_of = dict.fromkeys(parting, TOGETHER)
        for number, kind in enumerate(DROPPED, 1):
            others = [other for other in parting if looseness_of[other] == TOGETHER]
            if kind in parting and len(others) > 1:
                looseness_of[kind] = number
        kinds = tuple(kind for kind in parting for _ in rows[kind])
        nothing = np.empty((0, len(hosts)), dtype=np.int64)
        return cls(
            kinds=kinds,
            labels=np.concatenate([nothing, *(rows[kind] for kind in parting)]),
            looseness_of=np.array([looseness_of[kind] for kind in kinds], dtype=np.int64),
        )

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """Loosenesses from the present one on, each with more pairs of nodes apart."""
        found, before = [self.looseness], self.distinct
        for looseness in range(self.looseness + 1, TOGETHER):
            distinct = self.loosened(looseness).distinct
            if not np.array_equal(distinct, before):
                found.append(looseness)
            before = distinct
        return tuple(found)

    def loosened(self, looseness: int) -> FailureDomains:
        """The same with another looseness."""
        return replace(self, looseness=looseness)

    def apart_from(self, node: int) -> BoolArray:
        """Nodes that may hold the one replica while a node holds the other, shape (n,)."""
        found = np.ones(self.labels.shape[1], dtype=np.bool_)
        found[node] = False
        for row in self._counting:
            found &= row != row[node]
        return found

    def looseness_between(self, one: IntArray, other: IntArray) -> IntArray:
        """The least looseness under which replicas may be on these nodes, element by element;
        `TOGETHER` if there is none."""
        found = np.where(one == other, TOGETHER, 0)
        for row, looseness in zip(self.labels, self.looseness_of, strict=True):
            found = np.where(row[one] == row[other], np.maximum(found, looseness), found)
        return found

    def shared(self, one: int, other: int) -> tuple[str, ...]:
        """Kinds of the labels that part hosts, and that these two share."""
        same = self.labels[:, one] == self.labels[:, other]
        kinds = (kind for kind, is_same in zip(self.kinds, same, strict=True) if is_same)
        return tuple(dict.fromkeys(kinds))

    @cached_property
    def distinct(self) -> IntArray:
        """As few rows as say the same as those that count, shape (≥ 1, n): replicas may be on two
        nodes if and only if these differ in each."""
        kept: list[IntArray] = []
        # Where all nodes of a machine are in one zone, whoever shares the machine shares the zone.
        for row in sorted(self._counting, key=_values):
            if not any(_implies(row, other) for other in kept):
                kept.append(row)
        return np.array(kept or [np.arange(self.labels.shape[1])], dtype=np.int64)

    @property
    def _counting(self) -> IntArray:
        return self.labels[self.looseness_of > self.looseness]


def _numbered(labels: Sequence[str]) -> IntArray:
    """Equal numbers for equal labels, another one for each node without."""
    numbers: dict[str, int] = {}
    return np.array(
        [numbers.setdefault(label or f"\0{at}", len(numbers)) for at, label in enumerate(labels)],
        dtype=np.int64,
    )


def _crosswise(machines: Sequence[str], drivers: Sequence[str]) -> IntArray:
    """Rows of which two nodes have the same number in some if and only if they share a machine, be
    it their own or their driver's.

    In one row, a node can have one of its two machines only. So the two get different rows: each
    machine is in the first row in which none is that some node has beside it. Only the machines of
    drivers are beside several others, so there are hardly more rows than drivers.
    """
    beside: dict[str, set[str]] = {}
    for machine, driver in zip(machines, drivers, strict=True):
        for one, other in ((machine, driver), (driver, machine)):
            if one:
                beside.setdefault(one, set()).update({other} - {"", one})
    row_of: dict[str, int] = {}
    for one in sorted(beside, key=lambda each: (-len(beside[each]), each)):
        taken = {row_of[other] for other in beside[one] if other in row_of}
        row_of[one] = next(row for row in range(len(beside)) if row not in taken)
    rows: list[IntArray] = []
    for row in range(1 + max(row_of.values(), default=0)):
        found = [
            machine if row_of.get(machine) == row else driver if row_of.get(driver) == row else ""
            for machine, driver in zip(machines, drivers, strict=True)
        ]
        rows.append(_numbered(found))
    return np.array(rows, dtype=np.int64)


def _parts(rows: IntArray, hosts: BoolArray) -> bool:
    """Whether a label parts hosts otherwise than being several nodes does."""
    if all(_values(row) == len(row) for row in rows):
        return False
    among = rows[:, hosts]
    # No two are apart where all have the same; else there are such, mostly beside the first.
    if any(_values(row) <= 1 for row in among):
        return False
    return any((among != column[:, np.newaxis]).all(axis=0).any() for column in among.T)


def _values(row: IntArray) -> int:
    return len(np.unique(row))


def _implies(row: IntArray, other: IntArray) -> bool:
    """Whether all nodes that share the one label share the other."""
    pairs = np.unique(np.column_stack([row, other]), axis=0)
    return len(pairs) == _values(row)
