"""One link cut, in one direction or both, noticed or not, and never mended: output goes on."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from ha.subscription import STALLED_US
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.records import DisturbedLink, FragmentRecord
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import LINKS
from tests.pairs import NODES, SETTLE_S, SITES, Input, answer

log = logging.getLogger(__name__)

RESUMES_MS = 750
"""Longest latency under a cut: a host waits `STALLED_US` for the primary, learns within four
acknowledgement intervals that the standby is ahead, and asks it over links of up to 50 ms."""

PATIENCE_S = DecisionSettings().warm_up_us / 1e6


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=7, seconds=10)


@pytest.mark.parametrize(
    ("here", "there", "both", "noticed"),
    [
        ("primary", "reader", False, False),
        ("reader", "primary", False, True),
        ("primary", "secondary", True, False),
        ("source", "reader", False, False),
    ],
    ids=str,
)
def test_output_goes_on_while_a_link_that_matters_is_cut(
    recording: Input, tmp_path: Path, here: str, there: str, both: bool, noticed: bool
) -> None:
    check(recording, tmp_path, here, there, both=both, noticed=noticed)


@pytest.mark.parametrize(
    ("here", "there"),
    [("west-site", "primary"), ("reader", "exit"), ("primary", "reader")],
    ids=str,
)
def test_output_goes_on_though_standbys_are_sent_nothing(
    recording: Input, tmp_path: Path, here: str, there: str
) -> None:
    """A standby learns that it is needed, and evaluates what was kept back."""
    check(recording, tmp_path, here, there, both=True, noticed=False, standby="upstream")


def test_output_goes_on_while_any_link_is_cut(recording: Input, tmp_path: Path) -> None:
    """A fresh one each time; the log of a failure says which."""
    random = Random()
    one, other = random.sample([*NODES, *SITES], 2)
    both, noticed = random.random() < 0.5, random.random() < 0.5
    standby = random.choice(["active", "adaptive", "upstream", "{batch: 20}"])
    # Not a parameter: names of tests must be the same in every process.
    what = "from %s to %s, both ways: %s, noticed: %s, standby: %s"
    log.warning(what, one, other, both, noticed, standby)
    check(recording, tmp_path, one, other, both=both, noticed=noticed, standby=standby)


@pytest.mark.parametrize("both", [False, True])
def test_output_goes_on_while_a_drill_cuts_a_link(
    recording: Input, tmp_path: Path, *, both: bool
) -> None:
    """As on real hosts: by a record of the store, which ends by itself."""
    manifests = recording.manifests(tmp_path)
    scenario = Scenario(manifests, seed=1, check_invariants=True, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(3)
    reader = read_view(scenario.store).fragments["pairing.strong"].record.primary.node
    ends = "west-site", reader
    for source, target in (ends, ends[::-1])[: 2 if both else 1]:
        link = DisturbedLink(
            source=source, target=target, until_us=scenario.world.now_us + 3_000_000
        )
        scenario.store.create(LINKS.key(link.name), link)
    played = scenario.finish()
    assert read_view(scenario.store).links == {}
    longest_ms = [0.0]
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected
        longest_ms.append(float(np.max(delivered.latencies_ms)))
    assert STALLED_US / 1000 < max(longest_ms) < RESUMES_MS


@pytest.mark.slow
def test_a_secondary_to_which_nothing_comes_from_its_primary_does_not_warm_for_ever(
    tmp_path: Path,
) -> None:
    """The primary hears that its state is asked for, and what it sends is lost."""
    recording = Input.random(seed=7, seconds=10)
    scenario = Scenario(recording.manifests(tmp_path, repeat=True), seed=1, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(3)
    before = strong(scenario)
    assert before.secondary is not None
    others = [node for node in NODES if node not in (before.primary.node, before.secondary.node)]
    scenario.kill(before.secondary.node, restart_s=1000.0)
    for other in others:
        scenario.world.links.cut(before.primary.node, other)
    scenario.run_for(5)
    warming = strong(scenario).secondary
    assert warming is not None
    (last,) = [node for node in others if node != warming.node]
    scenario.world.links.mend(before.primary.node, last)
    scenario.run_for(PATIENCE_S)
    after = strong(scenario)
    assert (after.primary, after.epoch) == (before.primary, before.epoch)
    assert after.secondary is not None
    assert after.secondary.node == last
    assert read_view(scenario.store).protected(after)
    (told,) = [
        each.event.detail
        for each in scenario.store.history()
        if (each.event.kind, each.event.subject) == ("secondary replaced", "pairing.strong")
        and "not warm" in each.event.detail
    ]
    assert told.startswith(warming.node)


def strong(scenario: Scenario) -> FragmentRecord:
    return read_view(scenario.store).fragments["pairing.strong"].record


def check(
    recording: Input,
    tmp_path: Path,
    here: str,
    there: str,
    *,
    both: bool,
    noticed: bool,
    standby: str = "active",
) -> None:
    """Cut the link between two ends, both ways or one, and have hosts notice it at once or not."""
    manifests = recording.manifests(tmp_path, standby=standby)
    (query,) = manifests.queries
    # Left alone, all primaries are on one node, and no link leads from one to the next.
    apart = msgspec.structs.replace(query.record, primaries={"strong": ("n1",), "pairs": ("n3",)})
    manifests = msgspec.structs.replace(
        manifests, queries=(msgspec.structs.replace(query, record=apart),)
    )
    scenario = Scenario(manifests, seed=1, check_invariants=True, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(3)
    strong, pairs = (
        read_view(scenario.store).fragments[f"pairing.{name}"].record
        for name in ("strong", "pairs")
    )
    assert strong.secondary is not None
    named = {
        "primary": strong.primary.node,
        "secondary": strong.secondary.node,
        "reader": pairs.primary.node,
        "source": "west-site",
    }
    one, other = named.get(here, here), named.get(there, there)
    assert one != other
    for begin, end in ((one, other), (other, one))[: 2 if both else 1]:
        scenario.world.links.cut(begin, end)
        if noticed:
            scenario.world.tell_lost(end, begin)
    played = scenario.finish()
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected
        assert float(np.max(delivered.latencies_ms)) < RESUMES_MS, STALLED_US
