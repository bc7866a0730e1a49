"""Imports are followed by breaks in proportion to what they used, until the host works."""

from __future__ import annotations

import importlib
import sys

from orchestrator.deploy.host_pool import GENTLE_DAEMON
from orchestrator.spark.hosts.gentle_daemon import LONGEST_S, SLEEP, Breaks, take_breaks, work_on


def test_a_break_lasts_as_long_as_the_import_before_it_deserves() -> None:
    used_s, slept = [0.0], list[float]()
    breaks = Breaks(lambda: used_s[0], slept.append)
    for used in (0.0, 0.1, 0.1, 5.0, 0.02):
        # The last one is a process that was forked: its time begins anew.
        used_s[0] = used
        assert breaks.find_spec("any", None) is None
    assert slept == [0.0, SLEEP * 0.1, 0.0, LONGEST_S, 0.0]


def test_nothing_is_left_of_it_once_the_host_works() -> None:
    before = list(sys.meta_path)
    take_breaks()
    assert isinstance(sys.meta_path[0], Breaks)
    work_on()
    assert sys.meta_path == before


def test_the_daemon_goes_by_the_name_that_spark_is_given() -> None:
    assert importlib.import_module(GENTLE_DAEMON).Breaks is Breaks
