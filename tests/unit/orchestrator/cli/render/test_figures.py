from __future__ import annotations

import doctest

from orchestrator.cli.render import figures
from orchestrator.cli.render.figures import against


def test_examples() -> None:
    assert doctest.testmod(figures).failed == 0


def test_limits_are_marked_by_more_than_colour() -> None:
    assert against(50, 300).plain == "50.0 ms / 300 ms  "
    assert against(290, 300).plain == "290 ms / 300 ms !"
    assert against(301, 300).plain == "301 ms / 300 ms ✗"
