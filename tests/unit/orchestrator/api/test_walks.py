"""How many files one request passes through: what a reader has to open to follow it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from orchestrator import api
from orchestrator.control.decide.proposing import answer
from orchestrator.control.planning.planner import Planning
from orchestrator.records import SwitchRequest
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.unit.orchestrator.api.test_operations import connected

ROOT = Path(__file__).parents[4]
PRODUCT = ("orchestrator", "ha", "placement", "streams", "topology")


class Walk:
    """The files of the product whose functions are called, as long as it is `taken`.

    Records and errors do not count: everything is made of them.
    """

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.functions: set[tuple[str, str]] = set()

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event != "call" or not path.is_relative_to(ROOT):
            return
        parts = path.relative_to(ROOT).parts
        if parts[0] not in PRODUCT or parts[:2] in (
            ("orchestrator", "records"),
            ("orchestrator", "errors.py"),
            ("orchestrator", "simulation"),
        ):
            return
        self.files.add("/".join(parts))
        self.functions.add(("/".join(parts), code.co_qualname))

    @contextmanager
    def taken(self) -> Generator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def aside(self, other: Callable[[], object]) -> Callable[..., None]:
        """Something that happens meanwhile, and is no part of the walk."""

        def happens(*_: object) -> None:
            sys.setprofile(None)
            other()
            sys.setprofile(self._note)

        return happens


def test_a_client_that_applies_walks_a_short_way() -> None:
    cluster, walk = ObedientCluster(), Walk()
    with walk.taken():
        api.apply(connected(cluster), aircraft(), on_progress=walk.aside(cluster.settle))
    assert not [file for file in walk.files if file.startswith("orchestrator/control/planning/")]
    assert len(walk.files) <= 35, sorted(walk.files)


def test_the_leader_sets_up_one_planning_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, walk = ObedientCluster(), Walk()
    cluster.propose(aircraft())
    view = cluster.view()
    made: list[Planning] = []
    set_up = Planning.__init__

    def counted(planning: Planning, *of: Any, **how: Any) -> None:
        made.append(planning)
        set_up(planning, *of, **how)

    monkeypatch.setattr(Planning, "__init__", counted)
    with walk.taken():
        proposal = answer(view, view.requests["asked"], None)
    assert proposal.refusal is None
    assert len(made) == 1
    assert len(walk.files) <= 75, sorted(walk.files)


@pytest.fixture
def running() -> ObedientCluster:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


def test_a_client_that_switches_over_walks_a_short_way(running: ObedientCluster) -> None:
    walk = Walk()
    with walk.taken():
        made = api.switch(connected(running), "alerts", on_progress=walk.aside(running.settle))
    assert made.done
    assert len(walk.files) <= 10, sorted(walk.files)


def test_the_leader_walks_no_farther_for_a_switchover_than_for_a_plan(
    running: ObedientCluster,
) -> None:
    walk = Walk()
    running.ask(SwitchRequest(fragment="alerts"))
    view = running.view()
    with walk.taken():
        proposal = answer(view, view.requests["asked"], None)
    assert proposal.moves is not None
    assert len(walk.files) <= 50, sorted(walk.files)
