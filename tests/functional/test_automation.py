"""The verbs of moves that nobody asks for, against a real ZooKeeper and a leader that responds."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.clock import now_us
from orchestrator.records import (
    AutomaticRequest,
    AutomationMode,
    PlanFile,
    ProposalRecord,
    ProposedMoves,
    RebalanceLimits,
)
from orchestrator.store.protocol import AUTOMATION, MOVES, NODES, PROPOSAL
from orchestrator.store.requests import LeaderRequest
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import WaitUntil
from tests.functional.paper_cluster import places, run_fragment

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

Vivace = Callable[..., "subprocess.CompletedProcess[str]"]


def farther(store: ZooKeeperStore, name: str, rtt_ms: float) -> None:
    """Have a host far from all others."""
    for here in places:
        found = store.get(NODES.key(here))
        assert found is not None
        told = {
            there: rtt_ms if name in (here, there) else known_ms
            for there, known_ms in found.record.latencies_ms.items()
        }
        record = msgspec.structs.replace(found.record, latencies_ms=told)
        store.update(NODES.key(here), record, found.version)


def proposed(store: ZooKeeperStore, wait_until: WaitUntil) -> PlanFile:
    """What the leader would propose by itself."""
    wish = AutomaticRequest(limits=RebalanceLimits(), reasons=("a test",), asked_us=now_us())
    request, responses = LeaderRequest(store, "automatic"), list[ProposalRecord]()
    request.make(wish)

    def is_answered() -> bool:
        responses.extend(filter(None, [request.look()]))
        return bool(responses)

    wait_until(is_answered)
    request.withdraw()
    assert responses[0].file is not None, responses[0].refusal
    return responses[0].file


def test_automation_is_set_paused_and_resumed(store: ZooKeeperStore, vivace_here: Vivace) -> None:
    assert "propose: the leader plans, and people apply" in vivace_here("automation").stdout
    done = vivace_here("automation", "apply", "--moves-an-hour", 5, "--bytes-an-hour", "2GB")
    assert done.returncode == 0, done.stderr
    vivace_here("automation", "--pause", "--for", "2h")
    found = store.get(AUTOMATION)
    assert found is not None
    assert (found.record.mode, found.record.moves_an_hour) == (AutomationMode.APPLY, 5)
    assert found.record.is_paused(now_us())
    resumed = json.loads(vivace_here("automation", "--resume", "--json").stdout)
    assert (resumed["mode"], resumed["paused"]) == ("apply", False)
    assert vivace_here("automation", "--quiet", "at night").returncode == 2
    assert vivace_here("automation", "sometimes").returncode == 2
    wrong = vivace_here("automation", "--quiet", "22:00-06:00", "--no-quiet")
    assert "is there beside --quiet" in wrong.stderr


def test_the_proposal_is_shown_kept_and_applied(
    store: ZooKeeperStore,
    vivace_here: Vivace,
    manifests: Path,
    tmp_path: Path,
    wait_until: WaitUntil,
) -> None:
    assert vivace_here("rebalance", "--proposed").returncode == 2
    vivace_here("apply", "-f", manifests, "--no-wait")
    run_fragment(store)
    farther(store, "paris", 150.0)
    plan = proposed(store, wait_until)
    assert plan.moves
    record = ProposedMoves(file=plan, reasons=("a test",), made_us=now_us())
    store.create(PROPOSAL, record)
    # The API is told of what others than itself have written a little later.
    wait_until(lambda: "no moves" not in vivace_here("rebalance", "--proposed").stderr)
    shown = vivace_here("rebalance", "--proposed", "--out", tmp_path / "plan.json")
    assert "because a test. Apply it: vivace apply --proposed" in shown.stdout
    assert msgspec.json.decode((tmp_path / "plan.json").read_bytes(), type=PlanFile) == plan
    assert plan.digest in vivace_here("get", "proposals").stdout
    assert "high.high_ones" in vivace_here("describe", "proposal", plan.digest).stdout
    done = vivace_here("apply", "--proposed", "--no-wait")
    assert done.returncode == 0, done.stderr
    (made,) = (each.record for each in store.list(MOVES).records.values())
    assert made.digest == plan.digest
    assert made.by
    assert made.stated is not None
    assert made.name in vivace_here("get", "moves", "-o", "name").stdout
    assert "high.high_ones" in vivace_here("describe", "move", made.name).stdout
    both = vivace_here("apply", "plan.json", "--proposed")
    assert "is there beside another one of these" in both.stderr
