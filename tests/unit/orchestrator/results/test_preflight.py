"""What stands against a roll to another version."""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.api.cluster_status import status
from orchestrator.api.connection import Cluster
from orchestrator.api.versions import versions
from orchestrator.records.versions import Versions, this_version
from orchestrator.results.preflight import RollObstacle, obstacles
from orchestrator.results.whatif import LossOutlook, WhatIfDocument
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.served_cluster import reach

UNHARMED = WhatIfDocument(
    assumed=(), losses=(LossOutlook(kind="application", name="one", hosts=("paris",)),)
)


def cluster() -> tuple[ObedientCluster, Cluster]:
    found = ObedientCluster()
    found.apply(aircraft())
    found.settle()
    return found, Cluster(reach(), found.store)


def against(
    opened: Cluster, version: Versions | None = None, losses: WhatIfDocument = UNHARMED
) -> list[RollObstacle]:
    return [*obstacles(version or this_version(), versions(opened), status(opened), losses, None)]


def test_nothing_stands_against_the_same_version() -> None:
    _, opened = cluster()
    assert against(opened) == []


def test_a_version_that_is_too_far_ahead_names_each_process() -> None:
    _, opened = cluster()
    mine = this_version()
    far = replace(mine, wire=(mine.wire[1] + 1, mine.wire[1] + 2))
    found = against(opened, far)
    assert {each.subject for each in found} == {
        process.name for process in versions(opened).processes
    }
    assert found[0].remedy == "Roll to a version in between first."
    assert against(opened, replace(mine, wire=(mine.wire[0], mine.wire[1] + 1))) == []
    assert len(against(opened, replace(mine, records=mine.records + 2))) == len(found)


def test_what_is_not_protected_is_named() -> None:
    found, opened = cluster()
    fragment = found.view().fragments["proximity.alerts"]
    found.lose_secondary(fragment.record, fragment.version)
    assert [each.subject for each in against(opened)] == ["proximity.alerts"]


def test_an_application_that_cannot_be_missed_is_named() -> None:
    _, opened = cluster()
    lost = LossOutlook(
        kind="application", name="one", hosts=("paris",), states_lost=("proximity.alerts",),
        breaks=("the bound of proximity",),
    )  # fmt: skip
    node = LossOutlook(kind="node", name="paris", hosts=("paris",), breaks=("everything",))
    (only,) = against(opened, losses=WhatIfDocument(assumed=(), losses=(node, lost)))
    assert only.subject == "one"
    assert "proximity.alerts (and 1 more)" in only.why


def test_settings_that_hosts_must_agree_on() -> None:
    _, opened = cluster()
    running = versions(opened)
    coming = replace(running.settings, heartbeat_ms=40.0, batch_ms=99.0, nodes=("another",))
    found = obstacles(this_version(), running, status(opened), UNHARMED, coming)
    assert [each.subject for each in found] == ["heartbeat"]
