"""Preemptive EDF on all nodes of a placement, one instance of every operator, step by step.

Written without any of the demand test's sums: work is released when its inputs have come, the
earliest absolute deadline runs, and clocks say who is late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from placement.deadline.problem import DeadlineProblem


@dataclass(slots=True, kw_only=True)
class Instance:
    """One piece of work on a node, D = r + d (12)."""

    node: str
    left_ms: float
    sub_deadline_ms: float
    released_ms: float | None = None
    done_ms: float | None = None

    @property
    def due_ms(self) -> float:
        return math.inf if self.released_ms is None else self.released_ms + self.sub_deadline_ms


class Edf:
    """A run.

    Parameters
    ----------
    arrivals_ms
        Source stream → when its tuples come.
    running_ms
        Node → when what it runs already is released.
    """

    def __init__(
        self,
        problem: DeadlineProblem,
        places: Mapping[str, str],
        sub_deadlines_ms: Mapping[str, float],
        arrivals_ms: Mapping[str, float],
        running_ms: Mapping[str, float],
    ) -> None:
        self._problem = problem
        self._arrivals_ms = arrivals_ms
        speed = {node.name: node.speed for node in problem.nodes}
        self.instances = {
            name: Instance(
                node=node,
                left_ms=problem.cost_ms(name) / speed[node],
                sub_deadline_ms=sub_deadlines_ms[name],
            )
            for name, node in places.items()
        }
        for node in problem.nodes:
            for work in node.admitted:
                self.instances[f"{node.name}/{work.name}"] = Instance(
                    node=node.name,
                    left_ms=work.cost_ms,
                    sub_deadline_ms=work.deadline_ms,
                    released_ms=running_ms[node.name],
                )

    def run(self) -> float:
        """To the end; by how much the latest instance is past its deadline, ms."""
        now_ms = 0.0
        while any(one.done_ms is None for one in self.instances.values()):
            self._release()
            running = self._running(now_ms)
            releases = [
                one.released_ms
                for one in self.instances.values()
                if one.released_ms is not None and one.released_ms > now_ms
            ]
            until_ms = min([*releases, *(now_ms + one.left_ms for one in running)])
            for one in running:
                one.left_ms -= until_ms - now_ms
                if one.left_ms <= 1e-12:
                    one.done_ms = until_ms
            now_ms = until_ms
        return max(
            one.done_ms - one.due_ms for one in self.instances.values() if one.done_ms is not None
        )

    def output_ms(self, output: str) -> float:
        """When an output reaches its sink."""
        return self._at(output, self._problem.output[output].sink)

    def _running(self, now_ms: float) -> list[Instance]:
        first: dict[str, Instance] = {}
        for _, one in sorted(self.instances.items()):
            ready = one.released_ms is not None and one.released_ms <= now_ms
            if ready and one.done_ms is None:
                held = first.get(one.node)
                if held is None or one.due_ms < held.due_ms:
                    first[one.node] = one
        return list(first.values())

    def _release(self) -> None:
        for name in self._problem.order:
            one = self.instances[name]
            if one.released_ms is None:
                inputs = self._problem.by_name[name].inputs
                come_ms = max(self._at(stream, one.node) for stream in inputs)
                if math.isfinite(come_ms):
                    one.released_ms = come_ms

    def _at(self, stream: str, node: str) -> float:
        """When a stream is on a node; infinite if it is not made yet."""
        index, ms = self._problem.node_index, self._problem.latency_ms
        if stream in self._problem.source:
            ways = [ms[index[n], index[node]] for n in self._problem.source[stream].nodes]
            return self._arrivals_ms[stream] + float(min(ways))
        maker = self.instances[self._problem.producer[stream]]
        if maker.done_ms is None:
            return math.inf
        return maker.done_ms + float(ms[index[maker.node], index[node]])
