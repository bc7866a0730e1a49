"""Moves that nobody asks for: what is wanted of them, and the proposal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import bytes_text, clock
from orchestrator.cli.render.listing import Kind, ListedColumn
from orchestrator.cli.render.plan_files import plan_file_view

MODES = {
    "off": "off: moves are planned when somebody asks",
    "propose": "propose: the leader plans, and people apply",
    "apply": "apply: the leader plans and applies",
}

PROPOSALS = Kind[api.ProposalStatus](
    title="Proposals",
    name=lambda proposal: proposal.name,
    columns=(
        ListedColumn(title="proposal", cell=lambda proposal: proposal.name),
        ListedColumn(title="made", cell=lambda proposal: clock(proposal.made_us)),
        ListedColumn(title="ends", cell=lambda proposal: clock(proposal.until_us)),
        ListedColumn(
            title="moves", cell=lambda each: str(each.moves), order=lambda each: each.moves
        ),
        ListedColumn(
            title="state",
            cell=lambda each: "–" if each.state_bytes is None else bytes_text(each.state_bytes),
            order=lambda each: each.state_bytes,
        ),
        ListedColumn(
            title="cost",
            cell=lambda each: " → ".join(map(bytes_text, each.cost_bytes)),
            order=lambda each: each.cost_bytes[0],
        ),
        ListedColumn(title="because", cell=lambda each: ", ".join(each.reasons)),
    ),
)


def automation_view(status: api.AutomationStatus) -> RenderableType:
    """What is wanted, and what has been done."""
    most = status.bytes_an_hour
    shipped = "any number of bytes" if most is None else bytes_text(most)
    parts = [
        Text(f"Automation: {MODES[status.mode.value]}."),
        Text(
            f"Budget: {status.moves_an_hour} moves and {shipped} an hour; "
            f"{status.moved} and {bytes_text(status.moved_bytes)} in the last hour."
        ),
    ]
    if status.quiet:
        parts.append(Text(f"Quiet hours, UTC: {', '.join(status.quiet)}."))
    if status.paused:
        parts.append(Text(f"{paused(status.paused_until_us).capitalize()}.", "yellow"))
    elif status.rests is not None and status.mode is not api.AutomationMode.OFF:
        parts.append(Text(f"It rests now: {status.rests}.", "yellow"))
    return Group(*parts)


def paused(until_us: int | None) -> str:
    """That automation is paused, and for how long."""
    until = "`vivace automation --resume`" if until_us is None else clock(until_us)
    return f"paused until {until}"


def proposal_view(found: api.ProposalStatus) -> RenderableType:
    """The moves, and why and for how long they are proposed."""
    why = Text(
        f"Proposed at {clock(found.made_us)}, up to {clock(found.until_us)}, because "
        f"{', '.join(found.reasons)}. Apply it: vivace apply --proposed"
    )
    return Group(plan_file_view(found.plan), why)
