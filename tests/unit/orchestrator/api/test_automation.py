"""Automation from the client's side: set, paused, resumed, and the proposal."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator import api
from orchestrator.api.automation import CHANGED, quiet_hours
from orchestrator.api.carrying import carry_out
from orchestrator.clock import now_us
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import InvalidInput
from orchestrator.operations import table
from orchestrator.operations.parameters import (
    AutomationParameters,
    DescribeParameters,
    Parameters,
    PauseParameters,
)
from orchestrator.records import (
    AutomaticRequest,
    AutomationMode,
    ProposedMoves,
    QuietHours,
    RebalanceLimits,
)
from orchestrator.store.protocol import AUTOMATION, PROPOSAL
from tests.automated import AutomatedCluster

NOTHING = Parameters()


@pytest.fixture
def cluster() -> AutomatedCluster:
    made = AutomatedCluster(AutomationMode.PROPOSE)
    found = made.store.get(AUTOMATION)
    assert found is not None
    made.store.delete(AUTOMATION, found.version)
    return made


@pytest.fixture
def connected(cluster: AutomatedCluster) -> api.Cluster:
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, cluster.store, by="somebody@host")


def test_what_is_not_given_stays_as_it_is_and_the_history_tells_who_wanted_it(
    cluster: AutomatedCluster, connected: api.Cluster
) -> None:
    usual = carry_out(table.AUTOMATION, connected, NOTHING)
    assert (usual.mode, usual.moves_an_hour, usual.rests) == (AutomationMode.PROPOSE, 10, None)
    wanted = AutomationParameters(mode=AutomationMode.APPLY, bytes_an_hour=2e9)
    assert carry_out(table.AUTOMATION_SET, connected, wanted).bytes_an_hour == 2e9
    quiet = AutomationParameters(quiet=("22:00-06:30",), moves_an_hour=3)
    found = carry_out(table.AUTOMATION_SET, connected, quiet)
    assert (found.mode, found.quiet, found.moves_an_hour) == (
        AutomationMode.APPLY,
        ("22:00-06:30",),
        3,
    )
    none = AutomationParameters(any_bytes=True, quiet=())
    found = carry_out(table.AUTOMATION_SET, connected, none)
    assert (found.quiet, found.bytes_an_hour) == ((), None)
    carry_out(table.AUTOMATION_SET, connected, none)
    events = [e.event for e in cluster.store.history() if e.event.kind == CHANGED]
    assert [(e.by, e.subject) for e in events] == [("somebody@host", "apply")] * 3
    assert events[1].detail == "3 moves and 2,000,000,000 bytes an hour; quiet 22:00-06:30 UTC"


def test_a_pause_lasts_for_a_while_or_until_it_is_ended(
    cluster: AutomatedCluster, connected: api.Cluster
) -> None:
    for_good = carry_out(table.AUTOMATION_PAUSE, connected, PauseParameters())
    assert (for_good.paused, for_good.paused_until_us) == (True, None)
    assert for_good.rests == "it is paused"
    before_us = now_us()
    lasting = carry_out(table.AUTOMATION_PAUSE, connected, PauseParameters(for_s=7200))
    assert lasting.paused_until_us is not None
    assert lasting.paused_until_us >= before_us + 7_200_000_000
    seen = carry_out(table.STATUS, connected, NOTHING)
    assert seen.automation_paused
    assert seen.automation_paused_until_us == lasting.paused_until_us
    ended = carry_out(table.AUTOMATION_RESUME, connected, NOTHING)
    assert (ended.paused, ended.paused_until_us, ended.rests) == (False, None, None)
    assert cluster.view().automation.mode is AutomationMode.PROPOSE


def test_settings_that_cannot_be_read_are_replaced(
    cluster: AutomatedCluster, connected: api.Cluster
) -> None:
    cluster.server.plant(AUTOMATION.path, b"{]")
    assert carry_out(table.AUTOMATION, connected, NOTHING).mode is AutomationMode.OFF
    wanted = AutomationParameters(mode=AutomationMode.PROPOSE)
    assert carry_out(table.AUTOMATION_SET, connected, wanted).rests is None


@pytest.mark.parametrize("text", ["22:00", "24:00-06:00", "6:00-07:00", "06:00-06:00", "a-b", ""])
def test_what_are_no_hours_of_a_day_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="are no hours of a day"):
        quiet_hours(text)


def test_hours_of_a_day_may_go_over_midnight() -> None:
    night = quiet_hours("22:00-06:00")
    assert night == QuietHours(begin_min=22 * 60, end_min=6 * 60)
    assert str(night) == "22:00-06:00"
    covered = [night.covers(hour * 60) for hour in (21, 22, 23, 0, 5, 6)]
    assert covered == [False, True, True, True, True, False]


def test_the_proposal_is_listed_described_and_there_is_one_at_most(
    cluster: AutomatedCluster, connected: api.Cluster
) -> None:
    assert carry_out(table.PROPOSALS, connected, NOTHING) == ()
    assert carry_out(table.STATUS, connected, NOTHING).proposal is None
    wish = AutomaticRequest(limits=RebalanceLimits(), reasons=("paris has joined",), asked_us=1)
    file = cluster.ask(wish).file
    assert file is not None
    made = ProposedMoves(file=file, reasons=wish.reasons, made_us=cluster.now_us)
    cluster.store.create(PROPOSAL, made)
    (found,) = carry_out(table.PROPOSALS, connected, NOTHING)
    assert (found.name, found.plan, found.reasons) == (file.digest, file, ("paris has joined",))
    assert found.until_us - found.made_us == 900_000_000
    short = carry_out(table.STATUS, connected, NOTHING).proposal
    assert short is not None
    assert msgspec.structs.asdict(found) == msgspec.structs.asdict(short) | {"plan": file}
    asked = DescribeParameters(kind="proposal", name=file.digest)
    assert carry_out(table.DESCRIBE, connected, asked).proposals == (found,)
    with pytest.raises(InvalidInput, match="is no move here"):
        carry_out(table.DESCRIBE, connected, DescribeParameters(kind="move", name="nothing"))
