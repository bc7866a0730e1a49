"""Plans of moves as documents, and how far they are."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import against, bytes_text, clock, of_bytes
from orchestrator.cli.render.tables import Table

MOST_REFUSED = 10
"""Refused candidates that are shown."""


def plan_file_view(plan: api.PlanFile) -> RenderableType:
    """The moves, what they gain, what cannot move, and why there are not more."""
    parts: list[RenderableType] = []
    if plan.moves:
        parts.append(_moves(plan))
    elif plan.undo_of is not None:
        parts.append(f"Nothing of plan {plan.undo_of} can go back, or it is there already.")
    else:
        parts.append("Nothing to move: nothing else would be worth it.")
    parts += [Text(f"{each.fragment} stays: {each.problem}") for each in plan.immovable]
    if plan.rebalancing is not None:
        parts += _reasons(plan.rebalancing)
    return Group(*parts)


def _moves(plan: api.PlanFile) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("fragment", "role", "from → to", "state", "recovery / bound"):
        table.add_column(column)
    table.add_column("latency / deadline")
    gains = {} if plan.rebalancing is None else dict(enumerate(plan.rebalancing.moves))
    if gains:
        table.add_column("gain")
        table.add_column("price")
    for number, each in enumerate(plan.moves):
        before = each.primary[0] if each.role == "primary" else each.secondary[0]
        row = [
            Text(each.fragment, "bold"),
            each.role,
            f"{before} → {each.node}",
            _state(each),
            against(each.recovery_ms[1], each.bound_ms),
            against(each.latency_ms[1], each.deadline_ms),
        ]
        if gains:
            row += [bytes_text(gains[number].gain_bytes), bytes_text(gains[number].price_bytes)]
        table.add_row(*row)
    return table


def _state(each: api.PlannedMove) -> str:
    if {*each.primary} == {*each.secondary}:
        return "change roles"
    return "unknown" if each.state_bytes is None else bytes_text(each.state_bytes)


def _reasons(plan: api.RebalancePlan) -> list[RenderableType]:
    before, now = plan.cost_bytes
    parts: list[RenderableType] = [
        Text(f"Goals: {', '.join(plan.goals)}. Cost: {bytes_text(before)} → {bytes_text(now)}.")
    ]
    parts += [
        Text(f"Loss of {each.kind} {each.name} takes {', '.join(each.fragments)}.")
        for each in plan.unsurvived
    ]
    if plan.rejected:
        told = ", ".join(f"{count} by {why}" for why, count in sorted(plan.rejected.items()))
        when = "After these moves other places are cheaper, and" if plan.moves else "Cheaper, but"
        parts.append(Text(f"{when} not taken: {told}."))
    for each in plan.refused[:MOST_REFUSED]:
        steps = ", ".join(f"{s.fragment} {s.role} → {s.node}" for s in each.steps)
        change = f"{steps} ({bytes_text(each.gain_bytes)}): " if steps else ""
        parts.append(Text(f"  {change}{each.problem}", "dim"))
    if plan.assumed_states:
        told = ", ".join(plan.assumed_states)
        parts.append(Text(f"State of unknown size, the budget is assumed: {told}."))
    if not plan.is_whole:
        parts.append("It tells only of the queries that move: with all, it would be too large.")
    return parts


def move_plans_view(document: api.MovePlansDocument) -> RenderableType:
    """A line for each plan, and below it what is under way or failed."""
    if not document.plans:
        return "No plan of moves is known."
    table = Table(box=None, pad_edge=False)
    for column in ("plan", "began", "by", "bytes moved", "outcome"):
        table.add_column(column)
    for plan in document.plans:
        table.add_row(
            Text(plan.name, "bold"),
            clock(plan.submitted_us),
            Text(plan.by or "leader"),
            of_bytes(plan.moved_bytes, plan.state_bytes),
            Text(_outcome(plan)),
        )
        for step in plan.steps if plan.under_way else ():
            if step.outcome == "begun":
                moved = of_bytes(step.moved_bytes, step.state_bytes)
                way = f"{step.fragment} {step.role} → {step.node}"
                table.add_row("", "", "", moved, Text(way, "yellow"))
    return table


def _outcome(plan: api.MovePlanStatus) -> str:
    told = f"under way: {plan.outcome}" if plan.under_way else plan.outcome
    if plan.undo_of is not None:
        told += f"; takes {plan.undo_of} back"
    return told if plan.undone_by is None else f"{told}; taken back by {plan.undone_by}"
