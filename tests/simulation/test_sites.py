"""Killed sites: a source resumes its numbering, a sink continues after what it had kept."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from foundation.timestamps import timestamp_text
from ha.roles import ReplicaRole
from orchestrator.control.observe.view import read_view
from orchestrator.drills.links import CUT_LINK_MS
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources import recorded, spec_of
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.replay import OpenReplay, Replay
from orchestrator.host.core.hosted_streams import HostedSource
from orchestrator.records import Shed, SourceAssignment, StreamRecord
from orchestrator.simulation.trials.pushed import Pushed
from orchestrator.simulation.world.scenario import Scenario
from tests.long_tests import mostly_long
from tests.pairs import BEGIN_MS, SETTLE_S, Input, answer

SECONDS = 6
ROUNDS = 7
RESTART_S = 2.0
"""About what a site's process takes to start again."""


@pytest.fixture
def recording() -> Input:
    return Input.random(seed=11, seconds=SECONDS)


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    """The third round of the replay has begun."""
    made = Scenario(
        recording.manifests(tmp_path, repeat=True),
        seed=3,
        check_invariants=True,
        settle_s=SETTLE_S,
    )
    made.begin()
    made.run_for(2 * SECONDS + 2)
    return made


def kill_for_a_while(scenario: Scenario, *sites: str) -> None:
    for site in sites:
        scenario.world.kill(site)
    scenario.run_for(RESTART_S)
    for site in sites:
        scenario.world.restart(site)
    scenario.run_for(4.0)


def history(scenario: Scenario) -> list[str]:
    return [f"{each.event.kind}: {each.event.subject}" for each in scenario.store.history()]


def delivered(scenario: Scenario, stream: str) -> Delivered:
    kept = scenario.deliveries[stream]
    return Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)


def assert_exact_and_alive(scenario: Scenario, recording: Input) -> None:
    for stream, expected in recording.repeated(ROUNDS).expected().items():
        seen = delivered(scenario, stream)
        end_ms = int(seen.completed_column("watermark_ms")[-1])
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        assert answer(seen) == [row for row in expected if row[0] <= end_ms]
        # Nothing lags: what entered a second ago has been delivered.
        now_ms = BEGIN_MS + (scenario.world.now_us - started_us(scenario)) // 1000
        assert end_ms > now_ms - 1000


def started_us(scenario: Scenario) -> int:
    (start_us,) = {s.running.start_at_us for s in read_view(scenario.store).entering.values()}
    assert start_us is not None
    return start_us


@pytest.mark.parametrize(
    "sites",
    mostly_long([("west-site", "exit"), ("west-site",), ("exit",), ("west-site", "east-site")]),
    ids="+".join,
)
def test_killed_sites_in_a_later_round(
    scenario: Scenario, recording: Input, sites: tuple[str, ...]
) -> None:
    for _ in range(2):
        kill_for_a_while(scenario, *sites)
    assert_exact_and_alive(scenario, recording)
    assert "state lost" not in " ".join(history(scenario))
    assert sum(host.core.counters["takeovers"] for host in scenario.world.hosts.values()) == 0


def test_source_site_killed_together_with_a_primary_that_reads_it(
    scenario: Scenario, recording: Input
) -> None:
    node = read_view(scenario.store).fragments["pairing.strong"].record.primary.node
    scenario.kill(node)
    kill_for_a_while(scenario, "west-site")
    scenario.run_for(6.0)
    scenario.heal()
    assert_exact_and_alive(scenario, recording)


@pytest.mark.parametrize("site", mostly_long(["west-site", "exit"]))
def test_hosts_killed_one_after_the_other_while_a_site_stays_away(
    recording: Input, scenario: Scenario, site: str
) -> None:
    """Its record has gone, and every fragment gets a new secondary all the same."""
    scenario.world.kill(site)
    scenario.run_for(12)
    for _ in range(2):
        record = read_view(scenario.store).fragments["pairing.pairs"].record
        scenario.kill(record.primary.node, restart_s=2.0)
        scenario.run_for(4.5)
        view = read_view(scenario.store)
        assert all(view.protected(found.record) for found in view.fragments.values())
    scenario.world.restart(site)
    scenario.run_for(6)
    assert_exact_and_alive(scenario, recording)
    assert "state lost" not in " ".join(history(scenario))


def test_what_came_due_while_a_site_with_a_shedder_was_away_counts_as_lost(tmp_path: Path) -> None:
    recording = Input.random(seed=11, seconds=12)
    manifests = recording.manifests(tmp_path)
    # It never sheds, but whether a tuple is admitted could depend on when it arrives.
    shed = Shed(tuples=1000, per_ms=100.0)
    streams = [
        msgspec.structs.replace(m.record, shed=shed if m.record.name == "west" else None)
        for m in manifests.streams
    ]
    scenario = Scenario(manifests, seed=3, streams=streams, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(4)
    kill_for_a_while(scenario, "west-site")
    skipped = read_view(scenario.store).hosts["west-site"].sources["west"].skipped
    assert skipped is not None
    gone = [row for row in recording.west if skipped.after_ms < row[0] <= skipped.until_ms]
    assert skipped.tuples == len(gone) > 0
    (lost,) = [e.event for e in scenario.store.history() if e.event.kind == "input lost"]
    assert lost.subject == "west"
    assert lost.detail.startswith(f"{len(gone)} tuples")
    for stamp in (skipped.after_ms, skipped.until_ms):
        assert timestamp_text(stamp) in lost.detail
    scenario.finish()
    # Nothing else is missing.
    kept = [row for row in recording.west if row not in gone]
    expected = Input(west=kept, east=recording.east, seconds=recording.seconds).expected()
    assert answer(delivered(scenario, "pairs")) == expected["pairs"]


@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_a_client_pushes_while_sites_are_killed(tmp_path: Path, seed: int) -> None:
    """Its site's journal continues the numbers; batches that come again do not enter twice."""
    recording = Input.random(seed=20 + seed, seconds=30)
    manifests = recording.manifests(tmp_path)
    streams = [pushed(m.record, tmp_path / "journal") for m in manifests.streams]
    scenario = Scenario(
        manifests, seed=seed, streams=streams, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    scenario.run_for(2.0 + 0.137 * seed)
    primary = read_view(scenario.store).fragments["pairing.strong"].record.primary.node
    kill_for_a_while(scenario, "west-site")
    kill_for_a_while(scenario, "west-site", "exit")
    scenario.kill(primary)
    kill_for_a_while(scenario, "west-site", "east-site")
    scenario.run_for(5.0)
    entered_ms = 0
    for stream, expected in recording.expected().items():
        seen = delivered(scenario, stream)
        entered_ms = int(seen.completed_column("watermark_ms")[-1])
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        assert answer(seen) == [row for row in expected if row[0] <= entered_ms]
    assert BEGIN_MS + 20_000 < entered_ms < BEGIN_MS + 29_000
    assert "stream begins anew" not in " ".join(history(scenario))
    assert "state lost" not in " ".join(history(scenario))


def pushed(stream: StreamRecord, journals: Path) -> StreamRecord:
    replay = recorded(stream)
    assert isinstance(replay, Replay)
    made = Pushed(
        path=replay.path,
        begin_ms=replay.begin_ms,
        end_ms=replay.end_ms,
        interval_ms=replay.interval_ms,
        journals=str(journals),
    )
    return msgspec.structs.replace(stream, source=spec_of("pushed", made))


def with_standbys(recording: Input, folder: Path) -> Scenario:
    """Either site stands by for the other one's stream."""
    manifests = recording.manifests(folder, repeat=True)
    other = {"west-site": "east-site", "east-site": "west-site"}
    streams = [
        msgspec.structs.replace(m.record, standby=other[m.record.site]) for m in manifests.streams
    ]
    scenario = Scenario(
        manifests, seed=3, streams=streams, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    scenario.run_for(SECONDS)
    return scenario


def longest_gap_ms(scenario: Scenario, since_us: int) -> float:
    """Longest time without anything delivered of some output."""
    times = [
        [each.arrived_us for each in kept if each.arrived_us > since_us]
        for kept in scenario.deliveries.values()
    ]
    return max((b - a) / 1000 for each in times for a, b in pairwise(each))


BOUND_MS = 300.0
"""Recovery bound of the query."""


def test_a_standby_takes_over_from_a_killed_site_within_the_bound(
    recording: Input, tmp_path: Path
) -> None:
    scenario = with_standbys(recording, tmp_path)
    for site in ("west-site", "east-site"):
        before_us = scenario.world.now_us - 500_000
        kill_for_a_while(scenario, site)
        assert longest_gap_ms(scenario, before_us) < BOUND_MS
        assert read_view(scenario.store).entering["west"].feeding_site != site
    assert_exact_and_alive(scenario, recording)
    assert "source taken over: west" in history(scenario)
    assert not any("stream begins anew" in each for each in history(scenario))


def test_a_site_whose_time_axis_has_slipped_follows_the_one_that_feeds(
    recording: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = with_standbys(recording, tmp_path)
    west = scenario.world.hosts["west-site"].core.replica_manager.sources["west"]

    def held_up(source: HostedSource, _: int) -> bool:
        return source is west

    with monkeypatch.context() as consumers_take_nothing:
        consumers_take_nothing.setattr(HostedSource, "update_held_up", held_up)
        scenario.run_for(3.0)
    # The other site has gone on meanwhile, and has what comes due here three seconds later.
    kill_for_a_while(scenario, "west-site")
    scenario.run_for(1.0)
    before_us = scenario.world.now_us - 500_000
    kill_for_a_while(scenario, "east-site")
    assert longest_gap_ms(scenario, before_us) < BOUND_MS


def test_both_sites_killed_go_on_with_the_same_numbers(recording: Input, tmp_path: Path) -> None:
    scenario = with_standbys(recording, tmp_path)
    for sites in (("west-site", "east-site"), ("east-site", "west-site")):
        kill_for_a_while(scenario, *sites)
    assert_exact_and_alive(scenario, recording)


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Sites at which the file of the stream west is gone."""
    sites = set[str]()
    opened: list[tuple[str, OpenReplay]] = []
    open_there, emit = Replay.open, OpenReplay.emit

    def opening(options: Replay, assigned: SourceAssignment, context: SourceContext) -> OpenReplay:
        source = open_there(options, assigned, context)
        if assigned.stream == "west":
            if context.site in sites:
                raise DriverError("there is no such file")
            opened.append((context.site, source))
        return source

    def emitting(source: OpenReplay, start_at_us: int, now_us: int) -> SourceEmitted | None:
        if any(source is each and site in sites for site, each in opened):
            raise OSError("input/output error")
        return emit(source, start_at_us, now_us)

    monkeypatch.setattr(Replay, "open", opening)
    monkeypatch.setattr(OpenReplay, "emit", emitting)
    return sites


@pytest.mark.long
def test_a_source_that_fails_while_its_site_lives_hands_over_to_the_other_site(
    recording: Input, tmp_path: Path, missing: set[str]
) -> None:
    scenario = with_standbys(recording, tmp_path)
    site, other = "west-site", "east-site"
    for _ in range(2):
        before_us = scenario.world.now_us - 500_000
        missing.add(site)
        scenario.run_for(6.0)
        assert read_view(scenario.store).entering["west"].feeding_site == other
        assert longest_gap_ms(scenario, before_us) < BOUND_MS
        missing.clear()
        # It is tried again ever more rarely.
        scenario.run_for(8.0)
        found = read_view(scenario.store).hosts[site]
        status = found.sources["west"]
        assert (status.role, status.lags) == (ReplicaRole.STANDBY, False)
        assert found.failed_sources == ()
        site, other = other, site
    assert_exact_and_alive(scenario, recording)


def test_a_failed_source_is_handed_over_while_the_store_is_away(
    recording: Input, tmp_path: Path, missing: set[str]
) -> None:
    scenario = with_standbys(recording, tmp_path)
    before_us = scenario.world.now_us - 500_000
    scenario.world.server.go_away()
    scenario.run_for(1.0)
    missing.add("west-site")
    scenario.run_for(5.0)
    assert longest_gap_ms(scenario, before_us) < BOUND_MS
    scenario.world.server.come_back()
    scenario.run_for(2.0)
    assert read_view(scenario.store).entering["west"].feeding_site == "east-site"
    assert_exact_and_alive(scenario, recording)


def test_a_site_that_cannot_open_the_source_after_both_were_killed_is_not_waited_for(
    recording: Input, tmp_path: Path, missing: set[str]
) -> None:
    scenario = with_standbys(recording, tmp_path)
    assert read_view(scenario.store).entering["west"].feeding_site == "west-site"
    missing.add("west-site")
    kill_for_a_while(scenario, "west-site", "east-site")
    assert read_view(scenario.store).entering["west"].feeding_site == "east-site"
    assert_exact_and_alive(scenario, recording)


def test_two_sites_that_do_not_hear_each_other_agree_afterwards(
    recording: Input, tmp_path: Path
) -> None:
    scenario = with_standbys(recording, tmp_path)
    cut(scenario, "west-site", "east-site")
    scenario.run_for(6.0)
    mend(scenario, "west-site", "east-site")
    scenario.run_for(4.0)
    assert_exact_and_alive(scenario, recording)
    hosts = scenario.world.hosts
    for stream in ("west", "east"):
        sources = [
            hosts[site].core.replica_manager.sources[stream] for site in ("west-site", "east-site")
        ]
        assert sum(source.feeds_subscribers for source in sources) == 1


def test_a_standby_feeds_a_consumer_that_is_cut_off_from_the_primary(
    recording: Input, tmp_path: Path
) -> None:
    scenario = with_standbys(recording, tmp_path)
    node = read_view(scenario.store).fragments["pairing.strong"].record.primary.node
    before_us = scenario.world.now_us - 500_000
    cut(scenario, "west-site", node)
    scenario.run_for(4.0)
    assert longest_gap_ms(scenario, before_us) < 2 * CUT_LINK_MS
    mend(scenario, "west-site", node)
    scenario.run_for(4.0)
    assert_exact_and_alive(scenario, recording)


def cut(scenario: Scenario, one: str, other: str) -> None:
    scenario.world.links.cut(one, other)
    scenario.world.links.cut(other, one)


def mend(scenario: Scenario, one: str, other: str) -> None:
    scenario.world.links.mend(one, other)
    scenario.world.links.mend(other, one)
