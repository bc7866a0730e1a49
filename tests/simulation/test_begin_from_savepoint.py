"""A query that was deleted begins again with what a savepoint holds, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import GENERATION, Delivered
from orchestrator.records import (
    ApplyRequest,
    ChangedQuery,
    ProposalRecord,
    QueryManifest,
    QueryRecord,
    SavepointState,
    StatementEffect,
)
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import QUERIES, STREAMS
from orchestrator.store.requests import LeaderRequest
from tests.long_tests import mostly_long
from tests.pairs import BEGIN_MS, FRAGMENTS, NODES, SITES, Input, Rows, answer
from tests.simulation.test_changed_queries import cut_ms, thrice, wanted
from tests.simulation.test_checkpoints import SECONDS, assert_exact, begin, kinds
from tests.simulation.test_everything_dies import BACK_S, Kind, kill_for_a_while
from tests.simulation.test_savepoints import NAME, ask, await_end

QUERY = "pairing"


def deleted(scenario: Scenario, after_s: float = 1.5, away_s: float = 1.0) -> QueryRecord:
    """The query, of which a savepoint was taken, and which was deleted some time after that."""
    ask(scenario)
    assert await_end(scenario).state is SavepointState.KEPT
    scenario.run_for(after_s)
    found = scenario.store.get(QUERIES.key(QUERY))
    assert found is not None
    scenario.store.delete(QUERIES.key(QUERY), found.version)
    scenario.run_for(away_s)
    assert not read_view(scenario.store).fragments
    assert not read_view(scenario.store).checkpoints
    return found.record


class Application:
    """A query that is applied, to begin from the savepoint."""

    def __init__(self, scenario: Scenario, query: QueryRecord, savepoint: str = NAME) -> None:
        self.scenario = scenario
        self._request = LeaderRequest(scenario.world.server.connect(), "apply")
        manifest = QueryManifest(file="query.yaml:1", record=query, statements_line=1)
        self._wish = ApplyRequest(queries=(manifest,), savepoint=savepoint)

    def propose(self) -> ProposalRecord:
        """The leader's proposal."""
        self._request.make(self._wish)
        for _ in range(600):
            if (found := self._request.look()) is not None:
                return found
            self.scenario.run_for(0.05)
        raise AssertionError("the leader does not respond")

    def consent(self, most_s: float = 30.0) -> None:
        """Want it, and wait until it is carried out."""
        self._request.consent()
        while most_s > 0:
            self.scenario.run_for(0.05)
            most_s -= 0.05
            found = self._request.look()
            assert found is None or not found.changed
            if found is not None and found.created:
                return
        raise AssertionError("it is not carried out")

    @property
    def told(self) -> ChangedQuery:
        """What becomes of the query."""
        proposal = self.propose()
        assert proposal.refusal is None
        assert proposal.plan is not None
        (told,) = proposal.plan.changed
        return told


def refused(scenario: Scenario, query: QueryRecord, savepoint: str = NAME) -> tuple[str, ...]:
    """Field, value, problem and remedy of the refusal; nothing is changed."""
    refusal = Application(scenario, query, savepoint).propose().refusal
    assert refusal is not None
    assert refusal.figures is None, "the input is wrong: exit status 2"
    assert QUERY not in read_view(scenario.store).queries
    return refusal.field, str(refusal.value), refusal.problem, refusal.remedy


@pytest.mark.parametrize("kind", [Kind.REPLAY, Kind.JOURNAL])
@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_nothing_is_lost_or_repeated(tmp_path: Path, seed: int, kind: Kind) -> None:
    recording = Input.random(seed=360 + seed, seconds=SECONDS)
    scenario = begin(tmp_path, recording, seed, kind)
    query = deleted(scenario)
    application = Application(scenario, query)
    told = application.told
    assert (told.query, told.savepoint) == (QUERY, NAME)
    assert {each.effect for each in told.statements} == {StatementEffect.KEPT}
    application.consent()
    scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert kinds(scenario).count("restored") == len(FRAGMENTS)
    assert_exact(scenario, recording)


def leader_dies(scenario: Scenario) -> None:
    for name in scenario.coordinators.leading:
        scenario.coordinators.kill(name)
    scenario.coordinators.stand()


def everything_dies(scenario: Scenario) -> None:
    kill_for_a_while(scenario, (*NODES, *SITES))


@pytest.mark.parametrize("what", mostly_long([leader_dies, everything_dies]))
@pytest.mark.parametrize("after_s", mostly_long([0.2, 0.0, 0.05, 0.1, 0.4, 0.8, 1.5]))
def test_whatever_dies_when_it_begins(
    tmp_path: Path, what: Callable[[Scenario], None], after_s: float
) -> None:
    recording = Input.random(seed=370, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 1)
    application = Application(scenario, deleted(scenario))
    assert application.told.savepoint == NAME
    application.consent()
    scenario.run_for(after_s)
    what(scenario)
    scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


@pytest.mark.parametrize("writes", mostly_long([3, 0, 1, 2, 4, 5, 6, 7, 9, 12, 15]))
def test_the_next_leader_goes_on_wherever_the_former_one_is_killed(
    tmp_path: Path, writes: int
) -> None:
    recording = Input.random(seed=371, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 2)
    application = Application(scenario, deleted(scenario))
    assert application.told.savepoint == NAME
    (leader,) = scenario.coordinators.leading
    scenario.coordinators.kill_after(leader, writes)
    scenario.run_for(0.5)
    scenario.coordinators.stand()
    application.consent()
    scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


@pytest.mark.parametrize("seed", mostly_long(range(3)))
def test_a_changed_query_counts_from_a_cut_on_beyond_what_was_delivered(
    tmp_path: Path, seed: int
) -> None:
    recording = Input.random(seed=380 + seed, seconds=SECONDS)
    scenario = begin(tmp_path, recording, seed)
    query = thrice(deleted(scenario))
    application = Application(scenario, query)
    effects = {each.fragment: each.effect for each in application.told.statements}
    assert effects == dict.fromkeys(FRAGMENTS, StatementEffect.KEPT)
    application.consent()
    scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert read_view(scenario.store).queries[QUERY].record == query
    for stream, expected in wanted(recording, cut_ms(scenario)).items():
        kept = scenario.deliveries[stream]
        seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        assert answer(seen) == expected
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        assert len(set(seen.rows[GENERATION].to_pylist())) == 1


def test_a_statement_that_reads_another_stream_begins_anew_after_what_was_delivered(
    tmp_path: Path,
) -> None:
    recording = Input.random(seed=390, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 3)
    query = deleted(scenario)
    other = query.statements.replace("AS pairs FROM pairs", "AS pairs FROM strong")
    application = Application(scenario, msgspec.structs.replace(query, statements=other))
    told = {each.fragment: (each.effect, each.why) for each in application.told.statements}
    assert told == {
        "strong": (StatementEffect.KEPT, ""),
        "pairs": (StatementEffect.KEPT, ""),
        "pair_counts": (StatementEffect.ANEW, "it reads strong, and read pairs"),
    }
    application.consent()
    scenario.run_for(BACK_S)
    rows: dict[str, Rows] = {}
    for stream in recording.expected():
        kept = scenario.deliveries[stream]
        seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        assert seen.completed_column("watermark_ms")[-1] == recording.end_ms
        rows[stream] = answer(seen)
    assert "state lost" not in kinds(scenario)
    assert rows["pairs"] == recording.expected()["pairs"]
    before, after = recording.expected()["pair_counts"], counts_of_strong(recording)
    # Its window is filled again before its results count, which follow the former ones.
    assert any(
        rows["pair_counts"]
        == [row for row in before if row[0] <= at] + [row for row in after if row[0] > at]
        for at in range(BEGIN_MS + 2000, BEGIN_MS + 16000, 10)
    )


def counts_of_strong(recording: Input) -> Rows:
    """What the last statement gives if it counts the tuples of `strong`."""
    steps = Counter[int]()
    for at, _, value in recording.west:
        if value >= 20:
            steps[at] += 1
            steps[at + 5000] -= 1
    count, counts = 0, Rows()
    for at, step in sorted(steps.items()):
        count += step
        if step and at <= recording.end_ms:
            counts.append((at, count))
    return counts


def test_whatever_reads_what_begins_anew_does_so_too(tmp_path: Path) -> None:
    recording = Input.random(seed=391, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 4)
    query = deleted(scenario)
    found = scenario.store.get(STREAMS.key("west"))
    assert found is not None
    scenario.store.delete(STREAMS.key("west"), found.version)
    scenario.run_for(0.5)
    scenario.store.create(STREAMS.key("west"), found.record)
    scenario.run_for(0.5)
    _, _, problem, remedy = refused(scenario, query)
    assert problem == (
        "has no state that query pairing could go on with: "
        "pairing.strong: stream west has begun anew; "
        "pairing.pairs: strong, which it reads, begins anew; "
        "pairing.pair_counts: pairs, which it reads, begins anew"
    )
    assert remedy == "Begin anew, with --from now."


def test_what_cannot_be_begun_from_is_refused(tmp_path: Path) -> None:
    recording = Input.random(seed=392, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 5)
    query = deleted(scenario)
    assert refused(scenario, query, "befor") == (
        "--from",
        "befor",
        "is no savepoint of this cluster",
        "Did you mean before?",
    )
    unknown = msgspec.structs.replace(query, name="another")
    assert refused(scenario, unknown)[2:] == ("has no state of query another", "It is of pairing.")
    saved = scenario.world.checkpoints.saved
    of = next(each for each in saved if each[1].endswith("pairs.piece"))
    whole, saved[of] = saved[of], saved[of][:40] + b"?" + saved[of][41:]
    _, _, problem, remedy = refused(scenario, query)
    assert "pairing.pairs.piece is damaged: its checksum does not match" in problem
    assert remedy == "Begin from another savepoint, or anew, with --from now."
    saved[of] = whole
    assert Application(scenario, query).propose().refusal is None


def test_a_query_that_runs_has_newer_states(tmp_path: Path) -> None:
    recording = Input.random(seed=393, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 6)
    ask(scenario)
    assert await_end(scenario).state is SavepointState.KEPT
    query = read_view(scenario.store).queries[QUERY].record
    for wish, problem in (
        (query, "is of no use: the files name no query that does not run already"),
        (thrice(query), "holds states of query pairing, which runs, and has newer ones"),
    ):
        refusal = Application(scenario, wish).propose().refusal
        assert refusal is not None
        assert (refusal.field, refusal.problem) == ("--from", problem)
