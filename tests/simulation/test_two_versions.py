"""Hosts and coordinators of two versions in one simulated cluster."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchestrator.control.observe.view import ClusterView
from orchestrator.simulation.trials.campaign import check
from orchestrator.simulation.trials.rollouts import VersionChange
from orchestrator.simulation.trials.schedule import Schedule, Shape
from orchestrator.simulation.trials.setting import random_setting


def is_calm(seed: int) -> bool:
    """Whether no process is of the next version at first, and everything enters."""
    setting = random_setting(seed)
    resumes = all(each.resumes for each in setting.recordings.values())
    return resumes and not setting.ahead and not setting.coordinators_ahead


SEED = next(filter(is_calm, range(100)))


def schedule(*changes: VersionChange) -> Schedule:
    return Schedule(seed=SEED, shape=Shape.SEVERAL, faults=(), rollouts=changes)


def change(at_ms: int, *, ahead: bool) -> VersionChange:
    """All processes are replaced."""
    setting = random_setting(SEED)
    return VersionChange(
        at_ms=at_ms,
        nodes=(*setting.executors, *setting.sites),
        coordinators=True,
        ahead=ahead,
        grace_ms=120_000,
        back_ms=500,
    )


def versions_told(monkeypatch: pytest.MonkeyPatch, made: Schedule) -> tuple[set[int], list[str]]:
    """The records by which leaders wrote, and the findings."""
    told: set[int] = set()
    oldest = ClusterView.records.fget
    assert oldest is not None

    def noted(view: ClusterView) -> int:
        told.add(found := oldest(view))
        return found

    monkeypatch.setattr(ClusterView, "records", property(noted))
    _, found = check(made)
    return told, found


def test_all_processes_change_to_the_next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    told, found = versions_told(monkeypatch, schedule(change(500, ahead=True)))
    assert found == []
    assert told == {1, 2}


def test_all_processes_change_to_the_next_version_and_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back = change(30_000, ahead=False)
    told, found = versions_told(monkeypatch, schedule(change(500, ahead=True), back))
    assert found == []
    assert told == {1, 2}


def test_a_leader_that_overlooks_older_processes_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ClusterView, "records", property(lambda _: 2))
    leader = replace(change(500, ahead=True), nodes=())
    # A host of this version starts, and cannot read what the newer leader has it do.
    host = replace(change(1500, ahead=False), nodes=("n1",), coordinators=False)
    _, found = check(schedule(leader, host))
    assert found != []
