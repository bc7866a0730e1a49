"""Scripts that have shells complete words."""

from __future__ import annotations

from orchestrator.cli.completion import words
from orchestrator.cli.verbs import GROUPS, VERBS


def test_every_verb_is_completed_with_its_options() -> None:
    found = words()
    assert {*found} == {
        "", *VERBS, *GROUPS, *(f"{g} {v}" for g, verbs in GROUPS.items() for v in verbs),
    }  # fmt: skip
    following, kind, files = found["switchover"]
    assert {"--dry-run", "--wait", "--no-wait", "-o", "--json", "--context"} <= {*following}
    assert (kind, files) == ("fragments", False)
    assert {"nodes", "fragments"} <= {*found["get"].words}
    assert {"bash", "zsh", "fish"} <= {*found["completion"].words}
    assert found["apply"].files
