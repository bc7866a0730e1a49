"""StatementTrials of new queries: what is asked of one, and what its result means for plans.

A trial runs on a host (`orchestrator.host.shell.trial`), and tells costs as those of processors at
speed 1. Plans take them as those of processors as fast as the executors are when the query is
applied. Figures that are stated, or measured on hosts, go before what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from orchestrator.control.observe.dataflow import Dataflow, sound_dataflow
from orchestrator.control.observe.measured_load import mean_speed
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    Estimate,
    QueryRecord,
    RunningQueryRecord,
    StreamRecord,
    Trial,
    TrialResult,
    TriedFragment,
)

Tries = Callable[[Trial], TrialResult]
"""Runs a trial, and waits for it."""

ALL_US = 5_000_000
"""Processor time of the trials of one request, after which queries stay untried, and statements as
they were written: many at once must not take minutes."""


class StatementTrials:
    """The trials of one request.

    Parameters
    ----------
    tries
        Runs one; None: nothing is tried. Nor is anything if the cluster emulates costs.

    Attributes
    ----------
    recorded
        Streams whose recordings were read.
    """

    def __init__(self, view: ClusterView, tries: Tries | None) -> None:
        self._view = view
        self._tries = None if view.settings.emulate_costs else tries
        self._left_us = ALL_US
        self.recorded: set[str] = set()

    @property
    def are_possible(self) -> bool:
        """Whether statements are tried at all."""
        return self._tries is not None

    @property
    def are_over(self) -> bool:
        """Whether nothing more is tried, since others have taken the time."""
        return self._left_us < 0

    def of_new(
        self,
        names: Iterable[str],
        streams: Mapping[str, StreamRecord],
        queries: Mapping[str, QueryRecord],
        running: Mapping[str, RunningQueryRecord],
    ) -> dict[str, RunningQueryRecord]:
        """What trials find of new queries, as they were written.

        What cannot be tried, or fails, is left out: admission names mistakes.
        """
        flow, _ = sound_dataflow(streams, queries, running)
        found: dict[str, RunningQueryRecord] = {}
        left = [name for name in names if _needs_figures(flow, queries[name])]
        for number, name in enumerate(left):
            if self.are_over:
                break
            patience_us = self._left_us / (len(left) - number)
            found[name] = self.tried(RunningQueryRecord(name=name), flow, streams, patience_us)
        return found

    def tried(
        self,
        query: RunningQueryRecord,
        flow: Dataflow,
        streams: Mapping[str, StreamRecord],
        patience_us: float = ALL_US,
    ) -> RunningQueryRecord:
        """A query with what a trial finds of its statements, as they are in a dataflow."""
        fragments = flow.upstream(query.name)
        if self._tries is None or not fragments:
            return query
        entering = sorted({s for each in fragments for s in each.inputs if s in streams})
        result = self._tries(
            Trial(
                fragments=tuple(
                    TriedFragment(
                        name=each.name,
                        statement=each.statement,
                        inputs={stream: dict(columns) for stream, columns in each.inputs.items()},
                        columns=dict(each.columns),
                        rejected=each.rejected,
                        asked=each.query == query.name,
                    )
                    for each in fragments
                ),
                streams=tuple(streams[name] for name in entering),
                batch_ms=self._view.settings.batch_ms,
                patience_us=patience_us,
            )
        )
        self._left_us -= result.took_us
        self.recorded |= {*result.recorded}
        speed = mean_speed(self._view.executors.values())
        trials = {
            name: msgspec.structs.replace(
                each,
                fixed_us=each.fixed_us / speed,
                per_tuple_us=each.per_tuple_us / speed,
                speed=speed,
            )
            for name, each in result.tried.items()
        }
        return msgspec.structs.replace(query, trials=trials)


def _needs_figures(flow: Dataflow, query: QueryRecord) -> bool:
    """Whether some cost or selectivity is not stated."""
    estimates = (query.estimates.get(each.name, Estimate()) for each in flow.of(query.name))
    return not all(each.cost_us is not None and each.selectivity is not None for each in estimates)
