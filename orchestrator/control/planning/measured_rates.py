"""Rates of streams as hosts measure them, for what is decided about fragments that run.

Admission goes by the rates that manifests state, whatever a quiet hour brings; where a fragment is
best moved to, by those of now. A fragment that has run for half a minute tells how many tuples it
takes in and gives a second, and how large the latter are, texts included; of a stream that enters,
its site tells that. Where nobody has measured a stream, its fragment's selectivity applies to what
is known of its input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from orchestrator.control.observe.dataflow import Dataflow, Fragment
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.workload import Rate, Workload, taken_by
from orchestrator.records import ReplicaLoad

KNOWN_SHARE = 0.95
"""Of the window of recent rates: a replica has run for 30 s then, three times the window's length
(`streams.scheduling.recent_rates`)."""


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """Rates of all streams, and the streams that were measured."""

    rates: dict[str, Rate]
    measured: frozenset[str]

    def of(self, work: Workload) -> Workload:
        """The work of all fragments, with these rates."""
        return replace(work, rates=self.rates)


def measured_rates(view: ClusterView, work: Workload) -> MeasuredRates:
    """The rates of now, as far as they were measured."""
    tuples_s = dict(_entering(view, work.flow))
    rates: dict[str, Rate] = {}
    for name in work.rates.keys() - work.flow.fragments.keys():
        rates[name] = _at(work.rates[name], tuples_s.get(name), _tuple_bytes(view, name))
    for fragment in work.flow.fragments.values():
        stated = work.rates[fragment.name]
        if (load := _load(view, fragment)) is not None:
            tuples_s[fragment.name] = load.emitted_s
            told, emitted_s = load.emitted_bytes_s, load.emitted_s
            rates[fragment.name] = _at(stated, emitted_s, told / emitted_s if told else None)
            continue
        before, now = taken_by(fragment, work.rates), taken_by(fragment, rates)
        share = now.bytes_s / before.bytes_s if before.bytes_s else 1.0
        rates[fragment.name] = _at(stated, stated.tuples_s * share)
    return MeasuredRates(rates, frozenset(tuples_s))


def _load(view: ClusterView, fragment: Fragment) -> ReplicaLoad | None:
    """What a fragment's primary has measured, once that is known well."""
    found = view.fragments.get(fragment.key)
    status = None if found is None else view.status(found.record.primary, fragment.name)
    load = None if status is None else status.load
    return load if load is not None and load.window_share >= KNOWN_SHARE else None


def _entering(view: ClusterView, flow: Dataflow) -> Iterator[tuple[str, float]]:
    """Streams that enter, as fragments measure them that read nothing else."""
    for fragment in flow.fragments.values():
        (stream, *others) = fragment.inputs
        if not others and stream not in flow.fragments:
            load = _load(view, fragment)
            if load is not None:
                yield stream, load.tuples_s


def _tuple_bytes(view: ClusterView, stream: str) -> float | None:
    """How large the tuples of an entering stream are, as the site says that feeds consumers."""
    entering = view.entering.get(stream)
    site = None if entering is None else view.hosts.get(entering.feeding_site)
    status = None if site is None else site.sources.get(stream)
    return None if status is None else status.tuple_bytes


def _at(stated: Rate, tuples_s: float | None, tuple_bytes: float | None = None) -> Rate:
    """A stream of so many tuples a second; as large as stated if nobody has told their size."""
    if tuples_s is None or not stated.tuples_s:
        return stated
    width = tuple_bytes or stated.bytes_s / stated.tuples_s
    return replace(stated, tuples_s=tuples_s, bytes_s=tuples_s * width)
