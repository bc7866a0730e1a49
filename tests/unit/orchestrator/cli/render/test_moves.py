"""Cordons in words."""

from __future__ import annotations

import pytest

from orchestrator import api
from orchestrator.cli.render.moves import cordon_view


@pytest.mark.parametrize(
    ("cordoned", "changed", "dry_run", "said"),
    [
        (True, True, False, "is cordoned;"),
        (True, False, False, "is cordoned already;"),
        (False, True, True, "would be cordoned;"),
        (True, True, True, "would be open;"),
    ],
)
def test_a_dry_run_says_what_would_be(
    cordoned: bool, changed: bool, dry_run: bool, said: str
) -> None:
    document = api.CordonDocument(
        node="uk-south", cordoned=cordoned, changed=changed, replicas=("q.alerts",)
    )
    shown = cordon_view(document, dry_run=dry_run)
    assert shown == f"[bold]uk-south[/] {said} replicas there: q.alerts."
