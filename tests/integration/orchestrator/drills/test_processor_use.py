"""Readings of this machine's processors, while a process takes one."""

from __future__ import annotations

import os

import psutil

from orchestrator.drills.processor_use import COUNT_US, ProcessorLog
from orchestrator.embedded.process_faults import busy_process
from tests.conftest import WaitUntil


def test_what_a_process_of_the_cluster_took_counts_also_after_its_end(
    wait_until: WaitUntil,
) -> None:
    log = ProcessorLog(os.getpid())
    log.read(0)
    rival = busy_process()
    try:
        process = psutil.Process(rival.pid)
        wait_until(lambda: process.cpu_times().user >= 0.2)
        log.read(COUNT_US)
    finally:
        rival.kill()
        rival.wait()
    log.read(2 * COUNT_US)
    first, running, ended = log.readings
    assert first.cluster_s == 0.0
    assert running.cluster_s >= 0.2
    assert ended.cluster_s >= running.cluster_s
    assert ended.used_s - first.used_s >= 0.2
