"""A query is changed while it runs: nothing is lost or repeated, and both replicas change at one
event time, whoever dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.documents.units import timestamp_ms
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.records import (
    ApplyRequest,
    BeginFrom,
    FragmentRecord,
    ProposalRecord,
    QueryManifest,
    QueryRecord,
    StatementEffect,
)
from orchestrator.simulation.world.scenario import Scenario, ScenarioOutcome
from orchestrator.store.requests import LeaderRequest
from tests.long_tests import mostly_long
from tests.pairs import BEGIN_MS, NODES, SETTLE_S, SITES, Input, Rows, answer
from tests.simulation.test_checkpoints import begin
from tests.simulation.test_everything_dies import Kind, kill_for_a_while

SECONDS = 14


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=5, seconds=SECONDS)


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    """The replay has run for three seconds."""
    made = Scenario(
        recording.manifests(tmp_path),
        seed=1,
        check_invariants=True,
        settle_s=SETTLE_S,
        candidates=2,
    )
    made.begin()
    made.run_for(3)
    return made


def running(scenario: Scenario) -> QueryRecord:
    return read_view(scenario.store).queries["pairing"].record


def fragment(scenario: Scenario, name: str) -> FragmentRecord:
    return read_view(scenario.store).fragments[f"pairing.{name}"].record


def thrice(query: QueryRecord) -> QueryRecord:
    """Shows three times the value, and ten times the count."""
    text = query.statements.replace("value * 2 AS twice", "value * 3 AS twice")
    return msgspec.structs.replace(
        query, statements=text.replace("count(*) AS", "10 * count(*) AS")
    )


class Change:
    """A change of the query that is asked for, consented to, and carried out as time passes."""

    def __init__(
        self, scenario: Scenario, query: QueryRecord, begin: BeginFrom = BeginFrom.NOW
    ) -> None:
        self.scenario, self.query = scenario, query
        self._begin = begin
        self._store = scenario.world.server.connect()
        self._request = LeaderRequest(self._store, "change")
        self._wish = ApplyRequest(
            queries=(QueryManifest(file="query.yaml:1", record=query, statements_line=1),),
            begin=begin,
        )

    def propose(self) -> ProposalRecord:
        """The leader's proposal."""
        self._request.make(self._wish)
        return self._awaited(lambda _: True)

    def consent(self) -> None:
        """Want it, and do not wait."""
        self._request.consent()

    def carried_out(self) -> ProposalRecord:
        """The proposal once it is carried out."""
        return self._awaited(lambda each: each.created or bool(each.changed) or each.refusal)

    def _awaited(self, is_it: Callable[[ProposalRecord], object]) -> ProposalRecord:
        for _ in range(600):
            found = self._request.look()
            if found is not None and is_it(found):
                return found
            self.scenario.run_for(0.05)
        raise AssertionError("the leader does not respond")


def cut_ms(scenario: Scenario) -> int:
    """The event time at which the statements changed, by the history."""
    found = {
        timestamp_ms(entry.event.detail.split()[1].rstrip(";"))
        for entry in scenario.store.history()
        if entry.event.kind == "statement changed" and entry.event.detail.startswith("after ")
    }
    (only,) = found
    return only


def wanted(recording: Input, at_ms: int) -> dict[str, Rows]:
    """What the query gives that is changed to `thrice` there."""
    before = recording.expected()
    pairs = [
        (at, key, twice if at <= at_ms else twice // 2 * 3, value)
        for at, key, twice, value in before["pairs"]
    ]
    counts = [(at, n if at <= at_ms else 10 * n) for at, n in before["pair_counts"]]
    return {"pairs": sorted(pairs), "pair_counts": counts}


def assert_changed(played: ScenarioOutcome, recording: Input, at_ms: int) -> None:
    for stream, expected in wanted(recording, at_ms).items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


def assert_in_force(scenario: Scenario, query: QueryRecord) -> None:
    assert running(scenario) == query
    for name in ("strong", "pairs", "pair_counts"):
        assert fragment(scenario, name).changing is None


def test_a_changed_query_goes_on_with_its_state(scenario: Scenario, recording: Input) -> None:
    before = {name: fragment(scenario, name) for name in ("strong", "pairs", "pair_counts")}
    query = thrice(running(scenario))
    change = Change(scenario, query)
    proposal = change.propose()
    assert proposal.refusal is None
    assert proposal.plan is not None
    (told,) = proposal.plan.changed
    effects = {each.fragment: each.effect for each in told.statements}
    assert effects == {
        "strong": StatementEffect.KEPT,
        "pairs": StatementEffect.UNCHANGED,
        "pair_counts": StatementEffect.KEPT,
    }
    change.consent()
    assert not change.carried_out().changed
    scenario.run_for(4)
    assert_in_force(scenario, query)
    for name, record in before.items():
        now = fragment(scenario, name)
        assert (now.generation, now.primary, now.secondary) == (
            record.generation,
            record.primary,
            record.secondary,
        )
    at_ms = cut_ms(scenario)
    assert BEGIN_MS + 2000 < at_ms < BEGIN_MS + 8000
    played = scenario.finish()
    assert_changed(played, recording, at_ms)
    # Nothing can be of the former statements any more.
    assert fragment(scenario, "strong").former == ()


Strike = Callable[[Scenario], None]


def kill_leader(scenario: Scenario) -> None:
    if scenario.coordinators.leading:
        scenario.kill_leader()


def kill_primary(scenario: Scenario) -> None:
    scenario.kill(fragment(scenario, "pair_counts").primary.node)


def kill_secondary(scenario: Scenario) -> None:
    if (secondary := fragment(scenario, "pair_counts").secondary) is not None:
        scenario.kill(secondary.node)


STEPS_S = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 2.5)
"""After the consent."""


@pytest.mark.parametrize("strike", [kill_leader, kill_primary, kill_secondary])
@pytest.mark.parametrize("after_s", mostly_long(list(STEPS_S)))
def test_whoever_dies_while_a_query_is_changed(
    scenario: Scenario, recording: Input, strike: Strike, after_s: float
) -> None:
    query = thrice(running(scenario))
    change = Change(scenario, query)
    assert change.propose().refusal is None
    change.consent()
    scenario.run_for(after_s)
    strike(scenario)
    scenario.run_for(4)
    if change.carried_out().changed:
        # It was killed before the leader took the consent: what it rests on differs.
        scenario.heal()
        assert running(scenario) != query
        change.propose()
        change.consent()
        assert not change.carried_out().changed
    scenario.heal()
    played = scenario.finish()
    assert_in_force(scenario, query)
    assert_changed(played, recording, cut_ms(scenario))


def test_a_change_is_undone_by_the_former_manifest(scenario: Scenario, recording: Input) -> None:
    former = running(scenario)
    for query in (thrice(former), former):
        change = Change(scenario, query)
        assert change.propose().refusal is None
        change.consent()
        assert not change.carried_out().changed
        scenario.run_for(3)
        assert_in_force(scenario, query)
    cuts = sorted(
        {
            timestamp_ms(entry.event.detail.split()[1].rstrip(";"))
            for entry in scenario.store.history()
            if entry.event.kind == "statement changed"
        }
    )
    played = scenario.finish()
    first, second = cuts
    between, after = wanted(recording, first), recording.expected()
    for stream in ("pairs", "pair_counts"):
        rows = [row for row in between[stream] if row[0] <= second]
        rows += [row for row in after[stream] if row[0] > second]
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == sorted(rows)


def test_another_deadline_bound_and_scheme_keep_everything(
    scenario: Scenario, recording: Input
) -> None:
    query = msgspec.structs.replace(running(scenario), deadline_ms=400.0, recovery_bound_ms=350.0)
    change = Change(scenario, query)
    proposal = change.propose()
    assert proposal.plan is not None
    (told,) = proposal.plan.changed
    assert {each.effect for each in told.statements} == {StatementEffect.UNCHANGED}
    assert next((each.field, each.was, each.now) for each in told.fields) == (
        "deadline",
        "300 ms",
        "400 ms",
    )
    before = fragment(scenario, "pairs")
    change.consent()
    change.carried_out()
    scenario.run_for(1)
    now = fragment(scenario, "pairs")
    assert now.timing.sub_deadline_ms > before.timing.sub_deadline_ms
    assert now.epoch == before.epoch
    played = scenario.finish()
    for stream, expected in recording.expected().items():
        delivered = played.delivered(stream)
        assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
        assert answer(delivered) == expected


def test_a_statement_that_reads_another_stream_goes_on_after_what_was_delivered(
    scenario: Scenario, recording: Input
) -> None:
    """Its stream begins a new generation; no timestamp has results twice, and none is left out."""
    former = running(scenario)
    query = msgspec.structs.replace(
        former,
        statements=former.statements.replace(
            "SELECT key, value * 2 AS twice FROM west [NOW] WHERE value >= 20",
            "SELECT key, value * 2 AS twice FROM east [NOW] WHERE value >= 20",
        ),
    )
    records = {name: fragment(scenario, name) for name in ("strong", "pairs")}
    change = Change(scenario, query)
    proposal = change.propose()
    assert proposal.plan is not None
    (told,) = proposal.plan.changed
    effects = {each.fragment: (each.effect, each.why) for each in told.statements}
    assert effects["strong"] == (StatementEffect.ANEW, "it reads east, and read west")
    assert effects["pairs"] == (StatementEffect.UNCHANGED, "")
    change.consent()
    assert not change.carried_out().changed
    scenario.run_for(3)
    now = fragment(scenario, "strong")
    assert now.generation > records["strong"].generation
    assert fragment(scenario, "pairs").generation == records["pairs"].generation
    played = scenario.finish()
    delivered = played.delivered("pairs")
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    rows, before, after = answer(delivered), recording.expected()["pairs"], pairs_of_east(recording)
    # Its reader has crossed where it was then, which no event says.
    assert any(
        rows == [row for row in before if row[0] <= at] + [row for row in after if row[0] > at]
        for at in range(BEGIN_MS + 2000, BEGIN_MS + 8000, 10)
    )


def pairs_of_east(recording: Input) -> Rows:
    """What the query gives that joins `east` with itself."""
    return sorted(
        (at, key, 2 * value, other)
        for at, key, value in recording.east
        if value >= 20
        for then, of, other in recording.east
        if of == key and at - 3000 < then <= at
    )


def test_from_the_beginning_a_window_knows_what_was_before_the_change(
    scenario: Scenario, recording: Input
) -> None:
    former = running(scenario)
    query = msgspec.structs.replace(
        former,
        statements=former.statements.replace("east [RANGE 3 SECONDS]", "east [RANGE 2 SECONDS]"),
    )
    change = Change(scenario, query, BeginFrom.BEGINNING)
    proposal = change.propose()
    assert proposal.plan is not None
    (told,) = proposal.plan.changed
    effects = {each.fragment: each.effect for each in told.statements}
    assert effects["pairs"] is StatementEffect.ANEW
    change.consent()
    assert not change.carried_out().changed
    scenario.run_for(3)
    assert fragment(scenario, "pairs").begins is not None
    played = scenario.finish()
    delivered = played.delivered("pairs")
    assert sequence_faults(delivered).repeated == 0
    rows = answer(delivered)
    times = [row[0] for row in rows]
    assert times == sorted(times)
    late = [row for row in rows if row[0] > BEGIN_MS + 8000]
    assert late == [row for row in narrower(recording) if row[0] > BEGIN_MS + 8000]


def narrower(recording: Input) -> Rows:
    """Pairs within two seconds."""
    return sorted(
        (at, key, 2 * value, other)
        for at, key, value in recording.west
        if value >= 20
        for then, of, other in recording.east
        if of == key and at - 2000 < then <= at
    )


@pytest.mark.parametrize("after_s", mostly_long([0.6, 0.2, 1.2, 2.0, 3.5]))
def test_everything_dies_around_a_change(tmp_path: Path, after_s: float) -> None:
    """Checkpoints of either statement serve, before the cut and after it."""
    recording = Input.random(seed=61, seconds=16)
    scenario = begin(tmp_path, recording, 1, Kind.REPLAY, 4.0)
    query = thrice(running(scenario))
    change = Change(scenario, query)
    assert change.propose().refusal is None
    change.consent()
    assert not change.carried_out().changed
    scenario.run_for(after_s)
    kill_for_a_while(scenario, (*NODES, *SITES))
    kinds = [entry.event.kind for entry in scenario.store.history()]
    assert "restored" in kinds
    assert "state lost" not in kinds
    assert "input lost" not in kinds
    assert_in_force(scenario, query)
    for stream, expected in wanted(recording, cut_ms(scenario)).items():
        kept = scenario.deliveries[stream]
        seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        assert answer(seen) == expected


@pytest.mark.parametrize("seed", mostly_long(range(3)))
def test_all_nodes_die_before_the_cut_while_a_site_cannot_say_what_it_has(
    tmp_path: Path, seed: int
) -> None:
    """Its last report is seconds old. The cut waits until it has said what it has received."""
    recording = Input.random(seed=700 + seed, seconds=16)
    scenario = begin(tmp_path, recording, seed, Kind.REPLAY, 5.0)
    former = running(scenario)
    statements = former.statements.replace("value >= 20", "value >= 50")
    change = Change(scenario, msgspec.structs.replace(former, statements=statements))
    assert change.propose().refusal is None
    site = scenario.world.hosts["exit"]
    scenario.world.part_from_store(site)
    scenario.run_for(4.0)
    change.consent()
    while fragment(scenario, "strong").changing is None:
        scenario.run_for(0.02)
    for node in NODES:
        scenario.world.kill(node)
    scenario.run_for(0.1)
    for node in NODES:
        scenario.world.restart(node)
    assert not change.carried_out().changed
    scenario.run_for(2.5)
    scenario.world.reach_store(site)
    scenario.run_for(25.0)
    at_ms = cut_ms(scenario)
    kept = scenario.deliveries["pairs"]
    seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
    assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
    pairs = recording.expected()["pairs"]
    assert answer(seen) == [row for row in pairs if row[0] <= at_ms or row[2] >= 2 * 50]
