"""Campaigns on several processes."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil

from tests.conftest import PATIENCE_S, WaitUntil

COMMAND = [sys.executable, "-m", "orchestrator.cli.main", "simulate", "--seeds", "1000"]


def test_processes_of_a_campaign_end_with_it_also_if_it_is_killed(wait_until: WaitUntil) -> None:
    run = subprocess.Popen(
        [*COMMAND, "--jobs", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        campaign = psutil.Process(run.pid)
        wait_until(lambda: sum(each.cpu_times().user > 1 for each in campaign.children()) >= 2)
        workers = campaign.children()
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait(PATIENCE_S)
    assert psutil.wait_procs(workers, PATIENCE_S)[1] == []
