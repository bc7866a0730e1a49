"""How long processes have waited for a processor within a time."""

from __future__ import annotations

import os

from bench.processor_waits import ProcessorWaits


def test_what_was_waited_within_a_time_and_around_it_counts() -> None:
    waits = ProcessorWaits([])
    for at_us, waited_ms in ((0, 5.0), (100, 5.0), (200, 9.0), (300, 9.0), (400, 0.0)):
        waits.note(at_us, waited_ms)
    assert waits.between_ms(0, 100) == 0
    assert waits.between_ms(110, 150) == 4
    assert waits.between_ms(-50, 1000) == 4
    # A process that has ended waits no more.
    assert waits.between_ms(300, 400) == 0


def test_without_an_account_nothing_waits() -> None:
    with ProcessorWaits([2**31]) as waits:
        assert waits.between_ms(0, 1) == 0


def test_this_process_is_looked_at() -> None:
    with ProcessorWaits([os.getpid()]) as waits:
        pass
    assert waits.between_ms(0, 1e18) >= 0
