"""The audit trail for people."""

from __future__ import annotations

import io

from rich.console import Console

from orchestrator.cli.render.history import events_table
from orchestrator.results.status import EventDocument


def test_what_a_client_wrote_is_no_markup() -> None:
    event = EventDocument(sequence=1, at_us=0, kind="asked", subject="[/]", detail="note [/] [red]")
    shown = io.StringIO()
    Console(width=200, file=shown).print(events_table([event]))
    assert "note [/] [red]" in shown.getvalue()
