"""That a standby feeds a host is a problem for as long as traffic shows it."""

from __future__ import annotations

import msgspec

from ha.messages import Control, Offer
from orchestrator.host.core.events import Report
from orchestrator.host.core.stand_ins import JUDGED_US
from orchestrator.records import Assignment
from tests.driven_host import MS, Driven, assigned, assignment_of, data, subscribed
from tests.streams_of_numbers import chunk

PRIMARY, STANDBY = "site", "two"
REST_MS = JUDGED_US / MS


class Fed:
    """A primary whose input has two producers."""

    def __init__(self) -> None:
        self.host = Driven("one")
        given = assignment_of(assigned("primary", peer_replica=None))
        producers = {"s": (PRIMARY, STANDBY)}
        self.assign(msgspec.structs.replace(given, producers=producers))
        for node in (PRIMARY, STANDBY):
            self.host.hear(node, subscribed(0, 0))

    def assign(self, assignment: Assignment) -> None:
        self.host.assign(assignment)

    def offer(self, until_ms: int) -> None:
        """The standby has output that has not come; it is asked for it, and responds."""
        offer = Offer(generation=1, epoch=1, watermark_ms=until_ms, sent=False)
        self.host.wait(1000.0, hearing=PRIMARY)
        self.host.hear(STANDBY, Control(offers={"s": offer}))
        self.host.hear(STANDBY, subscribed(0, 0))

    def send(self, sender: str, first_seq: int, until_ms: int) -> None:
        self.host.hear(sender, data(chunk(first_seq, [(until_ms, 1)])))

    def kinds(self) -> list[str]:
        told = {"fed by standby", "fed by primary", "stream rests"}
        return [
            each.kind
            for each in self.host.commands
            if isinstance(each, Report) and each.kind in told
        ]


def test_a_burst_that_a_standby_has_sent_first_is_no_problem_for_ever() -> None:
    fed = Fed()
    fed.offer(10)
    fed.send(STANDBY, 0, 10)
    assert fed.kinds() == ["fed by standby"]
    fed.host.wait(REST_MS + 1000.0, hearing=PRIMARY)
    assert fed.kinds() == ["fed by standby", "stream rests"]
    fed.host.wait(10 * REST_MS, hearing=PRIMARY)
    assert len(fed.kinds()) == 2


def test_it_is_told_again_when_the_standby_goes_on_and_ends_with_the_primary() -> None:
    fed = Fed()
    fed.offer(10)
    fed.send(STANDBY, 0, 10)
    fed.host.wait(REST_MS + 1000.0, hearing=PRIMARY)
    fed.send(STANDBY, 1, 20)
    fed.send(STANDBY, 2, 30)
    assert fed.kinds() == ["fed by standby", "stream rests", "fed by standby"]
    fed.send(PRIMARY, 3, 40)
    assert fed.kinds()[3:] == ["fed by primary"]
    fed.host.wait(REST_MS + 1000.0, hearing=PRIMARY)
    assert len(fed.kinds()) == 4


def test_while_it_goes_on_it_is_told_once() -> None:
    fed = Fed()
    fed.offer(10)
    for number in range(10):
        fed.send(STANDBY, number, 10 * (number + 1))
        fed.host.wait(REST_MS / 2, hearing=PRIMARY)
    assert fed.kinds() == ["fed by standby"]


def test_a_stream_that_is_no_longer_read_is_no_problem() -> None:
    fed = Fed()
    fed.offer(10)
    fed.assign(assignment_of())
    fed.host.wait(1000.0, hearing=PRIMARY)
    assert fed.kinds() == ["fed by standby", "stream rests"]
