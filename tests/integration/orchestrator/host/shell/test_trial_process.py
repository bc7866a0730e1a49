"""A host's process for trials: what it finds, and that it never stays."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import msgspec
import psutil
import pytest

from orchestrator.embedded.linked_child import NICENESS
from orchestrator.host.shell import trial_process
from orchestrator.host.shell.trial_process import IDLE_S, TrialProcess
from orchestrator.host.shell.trial_responses import responding_to_trials
from orchestrator.records import (
    HostTrial,
    ReplicaId,
    StreamRecord,
    Trial,
    TrialResult,
    TriedFragment,
)
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import TRIALS
from tests.conftest import PATIENCE_S, WaitUntil

pytestmark = pytest.mark.slow

COLUMNS = {"id": "string", "x": "float"}

PARENT = """
import sys, time
import msgspec
from orchestrator.host.shell.trial_process import TrialProcess
from orchestrator.records import Trial
process = TrialProcess()
process.run(msgspec.json.decode(sys.argv[1], type=Trial))
print(process.pid, flush=True)
time.sleep(600)
"""
"""A host that has run a trial."""


class Clock:
    """Stands still unless set."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def trial(statement: str = "SELECT id FROM north [NOW] WHERE x >= 50") -> Trial:
    return Trial(
        fragments=(
            TriedFragment(
                name="a",
                statement=f"REGISTER QUERY a RSTREAM({statement});",
                inputs={"north": COLUMNS},
                columns={"id": "string"},
                rejected=False,
                asked=True,
            ),
        ),
        streams=(StreamRecord(name="north", site="here", columns=COLUMNS, rate_bytes_s=10_000.0),),
        batch_ms=10.0,
        patience_us=1.0,
    )


def family(pid: int) -> list[psutil.Process]:
    """A supervisor and its program."""
    supervisor = psutil.Process(pid)
    return [supervisor, *supervisor.children(recursive=True)]


def are_gone(processes: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != "zombie" for each in processes)


def test_trials_run_in_one_process_that_yields_until_none_has_come_for_a_while() -> None:
    clock = Clock()
    with closing(TrialProcess(now_s=clock, longest_s=PATIENCE_S)) as process:
        assert process.end_if_idle() is None
        assert process.pid is None
        found = process.run(trial())
        assert found.tried["a"].selectivity == pytest.approx(0.35, abs=0.2)
        assert found.took_us > 0
        assert process.pid is not None
        running = family(process.pid)
        assert running[-1].nice() == min(psutil.Process().nice() + NICENESS, 19)
        clock.now_s = IDLE_S - 1
        assert process.run(trial()).tried.keys() == {"a"}
        assert process.end_if_idle() == IDLE_S
        assert family(process.pid) == running
        clock.now_s += IDLE_S
        assert process.end_if_idle() is None
        assert are_gone(running)
        assert process.run(trial()).tried.keys() == {"a"}
        running = family(process.pid)
    assert are_gone(running)
    assert process.run(trial()).tried == {}
    assert process.pid is None


def test_a_statement_that_cannot_be_compiled_gives_no_result_and_the_next_one_does() -> None:
    with closing(TrialProcess(longest_s=PATIENCE_S)) as process:
        assert process.run(trial("SELECT nothing FROM north [NOW]")).tried == {}
        assert process.run(trial()).tried.keys() == {"a"}


def test_a_trial_that_lasts_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_process, "PROGRAM", ("sleep", "600"))
    with closing(TrialProcess(longest_s=0.1)) as process:
        found = process.run(trial())
        assert found.tried == {}
        assert found.took_us >= 100_000
        assert process.pid is None
    assert not any(each.name() == "sleep" for each in psutil.Process().children(recursive=True))


def test_the_process_dies_with_a_killed_host(wait_until: WaitUntil) -> None:
    asked = msgspec.json.encode(trial()).decode()
    with subprocess.Popen([sys.executable, "-c", PARENT, asked], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        running = family(int(host.stdout.readline()))
        host.kill()
    wait_until(lambda: are_gone(running))


def test_a_host_responds_to_the_leader_and_leaves_no_process(wait_until: WaitUntil) -> None:
    server = MemoryServer()
    leader, own = server.connect(), server.connect()
    host = ReplicaId(node="n1", incarnation="now")
    # Such as the servers of other tests.
    before = psutil.Process().children(recursive=True)
    with responding_to_trials(own, host):
        leader.create(TRIALS.key("one"), HostTrial(host=host, trial=trial()), ephemeral=True)

        def result() -> TrialResult | None:
            found = leader.get(TRIALS.key("one"))
            assert found is not None
            return found.record.result

        wait_until(lambda: result() is not None)
        running = [each for each in psutil.Process().children(recursive=True) if each not in before]
        assert running
    found = result()
    assert found is not None
    assert found.tried.keys() == {"a"}
    assert are_gone(running)
