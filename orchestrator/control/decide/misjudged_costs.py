"""Evaluations that cost something else than the plan rests on, or than the manifest states.

The history tells of them, with what to write into the manifest. A query that runs keeps its plan: a
new one would move replicas for figures that may change back.
"""

from __future__ import annotations

import msgspec

from orchestrator.control.decide.decision import PendingDecision
from orchestrator.control.planning.costs import cost_line, misstated_cost_us
from orchestrator.documents.units import figure

TOLD_AGAIN = 2.0
"""Factor by which a measured cost has to change until the history tells of it again."""


def note_drift(pending: PendingDecision) -> None:
    """Say so when evaluating a fragment costs something else than its plan rests on."""
    view, settings = pending.view, pending.settings
    for fragment in view.dataflow.fragments.values():
        record, found = pending.fragments.get(fragment.key), view.fragments.get(fragment.key)
        if record is None or found is None or record.primary != found.record.primary:
            # Costs were measured on the primary before; the next decision looks again.
            continue
        if view.measured_cost(fragment) is None:
            continue
        timing, cost_ms = record.timing, pending.planning.work.fragments[fragment.name].instance_ms
        change_ms = abs(cost_ms - timing.cost_ms)
        if (
            change_ms <= settings.drift * timing.cost_ms
            or change_ms <= settings.drift_share * timing.sub_deadline_ms
        ):
            continue
        detail = f"evaluating a burst takes {figure(cost_ms)} ms, the plan rests on "
        detail += f"{figure(timing.cost_ms)} ms; sub-deadline {figure(timing.sub_deadline_ms)} ms"
        renewed = msgspec.structs.replace(timing, cost_ms=cost_ms)
        pending.change_fragment(record, "re-plan proposed", detail, timing=renewed)


def suggest_costs(pending: PendingDecision) -> None:
    """Say what a manifest should state as a fragment's cost if what it states is far off."""
    view = pending.view
    for name, work in pending.planning.work.fragments.items():
        record, found = (
            pending.fragments.get(work.fragment.key),
            view.fragments.get(work.fragment.key),
        )
        measured_us = misstated_cost_us(view, work)
        if record is None or found is None or measured_us is None:
            continue
        told_us = record.told_cost_us
        if told_us is not None and 1 / TOLD_AGAIN < measured_us / told_us < TOLD_AGAIN:
            continue
        if record.primary != found.record.primary:
            continue
        detail = f"a tuple takes {float(f'{measured_us:.3g}'):,.10g} us, the manifest states "
        detail += f"{work.stated_cost_us:,g} us; write under estimates: "
        detail += cost_line(name, measured_us)
        pending.change_fragment(record, "cost differs", detail, told_cost_us=measured_us)
