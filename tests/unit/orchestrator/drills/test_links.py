"""Drills of links: which link, what is promised, and that none stays disturbed."""

from __future__ import annotations

import threading

import pytest

from orchestrator.drills.acting import Acting, DrillFailed
from orchestrator.drills.disturbances import DRILLS
from orchestrator.drills.links import (
    CUT_LINK_MS,
    SCHEDULING_MS,
    HostLink,
    LinkChange,
    aimed_link,
    blast_of_link,
    disturb,
)
from orchestrator.errors import InvalidInput
from orchestrator.progress import silent
from orchestrator.store.protocol import LINKS
from tests.obedient_cluster import ObedientCluster, aircraft

CUT = LinkChange(both_ways=True, lasts_s=0.05)


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def acting(cluster: ObedientCluster, *links: str, breach: bool = False) -> Acting:
    ends = threading.Event()
    if breach:
        ends.set()
    return Acting(
        view=cluster.view(), node="", breach=ends, store=cluster.store, by="",
        on_progress=silent, links=links,
    )  # fmt: skip


def test_the_link_is_one_on_which_output_leaves_the_node(cluster: ObedientCluster) -> None:
    view = cluster.view()
    alerts = view.fragments["proximity.alerts"].record.primary.node
    link = aimed_link(view, "cut-link", None, alerts)
    assert link == HostLink(source=alerts, target="control-centre")


@pytest.mark.parametrize("target", ["nowhere:control-centre", "control-centre:control-centre"])
def test_a_link_that_is_none_is_refused(cluster: ObedientCluster, target: str) -> None:
    with pytest.raises(InvalidInput, match=r"target: '\S+' is not the link between two hosts"):
        aimed_link(cluster.view(), "cut-link", target, "")


def test_the_end_of_a_link_that_is_mistyped_is_suggested(cluster: ObedientCluster) -> None:
    with pytest.raises(InvalidInput, match="Did you mean control-centre"):
        aimed_link(cluster.view(), "cut-link", "paris:control-center", "")


def test_a_cut_is_allowed_its_time_for_each_hop_that_crosses_the_link(
    cluster: ObedientCluster,
) -> None:
    view = cluster.view()
    primary = view.fragments["proximity.alerts"].record.primary.node
    blast = blast_of_link(view, HostLink(source=primary, target="control-centre"), CUT)
    assert blast.outputs == ("alerts",)
    assert blast.bound_ms == CUT_LINK_MS + view.settings.batch_ms + SCHEDULING_MS
    assert blast.links == (f"{primary}:control-centre", f"control-centre:{primary}")
    assert blast.would_lose == ()


def test_a_link_between_two_replicas_leaves_them_unprotected(cluster: ObedientCluster) -> None:
    view = cluster.view()
    record = view.fragments["proximity.alerts"].record
    assert record.secondary is not None
    link = HostLink(source=record.primary.node, target=record.secondary.node)
    assert "proximity.alerts" in blast_of_link(view, link, CUT).unprotected


def test_a_delay_is_allowed_once_beyond_the_bound(cluster: ObedientCluster) -> None:
    view = cluster.view()
    primary = view.fragments["proximity.alerts"].record.primary.node
    change = DRILLS["delay-link"].link
    assert change is not None
    assert change.delay_ms is not None
    blast = blast_of_link(view, HostLink(source=primary, target="control-centre"), change)
    assert blast.bound_ms == 300.0 + change.delay_ms
    assert len(blast.links) == 1


@pytest.mark.parametrize("breach", [False, True])
def test_links_are_restored(cluster: ObedientCluster, *, breach: bool) -> None:
    lasting = LinkChange(both_ways=True, lasts_s=30.0) if breach else CUT
    disturb(acting(cluster, "a:b", "b:a", breach=breach), lasting)
    assert cluster.view().links == {}
    told = [line for line in cluster.history() if "link" in line]
    assert len(told) == 4


def test_a_link_that_another_drill_disturbs_stays_as_that_wants(cluster: ObedientCluster) -> None:
    other = acting(cluster, "a:b")
    held = LinkChange(both_ways=False, lasts_s=30.0)
    thread = threading.Thread(target=disturb, args=(other, held))
    thread.start()
    while cluster.store.get(LINKS.key("a:b")) is None:
        pass
    with pytest.raises(DrillFailed, match="another drill disturbs the link a:b"):
        disturb(acting(cluster, "b:a", "a:b"), CUT)
    assert [*cluster.view().links] == ["a:b"]
    other.breach.set()
    thread.join()
    assert cluster.view().links == {}
