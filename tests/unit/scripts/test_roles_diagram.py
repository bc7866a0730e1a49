"""The diagram of roles: complete, and the one in the docs is the one the table gives."""

from __future__ import annotations

import pytest

from ha.roles import transitions
from scripts import roles_diagram


def test_the_page_shows_the_table_as_it_is() -> None:
    page = roles_diagram.PAGE.read_text(encoding="utf-8")
    assert roles_diagram.updated(page) == page, "run `python -m scripts.roles_diagram`"


def test_every_transition_is_drawn() -> None:
    drawn = roles_diagram.diagram()
    for (role, event), (target, _) in transitions.items():
        (arrow,) = [a for a in drawn.splitlines() if f" {role.value} --> {target.value}:" in a]
        assert event.value in arrow


def test_a_page_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="0 Mermaid blocks"):
        roles_diagram.updated("# Roles\n")
