"""What goes on from checkpoints beside a fragment whose input is read once."""

from __future__ import annotations

import pytest
from msgspec import structs

from orchestrator.control.decide.decision import DecisionSettings, PendingDecision
from orchestrator.control.decide.resuming import Resumption
from orchestrator.manifest import Manifests
from orchestrator.records import StoredCheckpoint, StoredPosition
from orchestrator.records.hosts import NOTHING_DELIVERED
from tests.obedient_cluster import ObedientCluster, query_manifest, stream_manifest
from tests.saved_cluster import READ_AGAIN

SITE = "control-centre"
TOTAL = "ISTREAM(SELECT count(*) AS n FROM north [RANGE UNBOUNDED])"
HIGH = "RSTREAM(SELECT x AS n FROM north [NOW])"
STATEMENTS = """
REGISTER QUERY above {above};
REGISTER QUERY reader RSTREAM(SELECT a.n AS n FROM above [NOW] AS a, south [RANGE 3 SECONDS] AS s);
REGISTER QUERY below ISTREAM(SELECT count(*) AS n FROM reader [RANGE UNBOUNDED]);
"""
KEPT_MS = 100_000
NEEDED_MS = KEPT_MS - 3000
"""After it begins the input of the reader, which begins from nothing."""


def cluster(above: str) -> ObedientCluster:
    """`north` can be read again, and `south` cannot."""
    made = ObedientCluster()
    north, south = (stream_manifest(name) for name in ("north", "south"))
    north = structs.replace(north, record=structs.replace(north.record, source=READ_AGAIN))
    query = query_manifest("q", STATEMENTS.format(above=above), outputs={"below": SITE})
    made.apply(Manifests(cluster=None, streams=(north, south), queries=(query,)))
    made.settle()
    delivered = structs.replace(NOTHING_DELIVERED, kept_ms=KEPT_MS)
    made.hosts[SITE].tell(sinks={"below": delivered})
    return made


def at(watermark_ms: int) -> StoredPosition:
    return StoredPosition(next_seq=watermark_ms, watermark_ms=watermark_ms)


def checkpoint(pending: PendingDecision, fragment: str, base_ms: int) -> StoredCheckpoint:
    generation = pending.fragments[f"q.{fragment}"].generation
    inputs = {
        stream: pending.view.entering[stream].running.generation
        if stream in pending.view.entering
        else pending.fragments[f"q.{stream}"].generation
        for stream in pending.view.dataflow.fragments[fragment].inputs
    }
    return StoredCheckpoint(
        name=f"{generation}-{base_ms}-n1.checkpoint",
        at_us=base_ms,
        generation=generation,
        inputs={stream: (of, at(base_ms + 2000)) for stream, of in inputs.items()},
        log_base=at(base_ms),
        output=at(base_ms + 2000),
    )


def resumed(made: ObedientCluster, *bases_ms: int, everything: bool = False) -> dict[str, int]:
    """Fragment → where the output of its checkpoint begins, if all are lost at once."""
    pending = PendingDecision(made.view(), 0, DecisionSettings())
    stored = {
        f"q.{name}": [checkpoint(pending, name, base_ms) for base_ms in bases_ms]
        for name in ("above", "reader", "below")
    }
    resumption = Resumption(pending, stored)
    chosen = resumption.of_everything() if everything else resumption.of(list(stored))
    assert "q.reader" in resumption.unreadable
    return {key: each.log_base.watermark_ms for key, each in chosen.items()}


@pytest.mark.parametrize("above", [TOTAL, HIGH])
def test_a_producer_that_reaches_back_goes_on_from_its_newest_that_does(above: str) -> None:
    found = resumed(cluster(above), NEEDED_MS - 9000, NEEDED_MS - 10, NEEDED_MS + 10)
    assert found == {"q.above": NEEDED_MS - 10, "q.below": NEEDED_MS + 10}


def test_a_producer_that_lasts_for_ever_keeps_its_state_and_gives_what_it_can() -> None:
    made = cluster(TOTAL)
    later = NEEDED_MS + 500, NEEDED_MS + 900
    assert resumed(made, *later) == {"q.above": later[0], "q.below": later[1]}
    made.kill(SITE)
    assert resumed(made, *later) == {"q.below": later[1]}


def test_a_producer_that_time_bounds_makes_all_of_it_again() -> None:
    assert resumed(cluster(HIGH), NEEDED_MS + 500) == {"q.below": NEEDED_MS + 500}


@pytest.mark.parametrize("above", [TOTAL, HIGH])
def test_a_savepoint_has_the_newest_of_the_producer(above: str) -> None:
    later = NEEDED_MS + 500, NEEDED_MS + 900
    found = resumed(cluster(above), *later, everything=True)
    assert found == {"q.above": later[1], "q.below": later[1]}
