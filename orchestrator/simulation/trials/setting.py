"""A random cluster with streams and queries: the stage of a schedule.

Every fragment and stream has the columns `key int, value int`, so that any of them can be read by
any fragment (`orchestrator/simulation/trials/statements.py`). Several fragments read one stream,
also across queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from foundation.arrays import IntArray
from foundation.loop_limits import DEFAULT_TUPLES, Beyond, LoopLimits
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP, Replay
from orchestrator.records import (
    DEFAULT_MEMORY_BYTES,
    ClusterRecord,
    DriverSpec,
    FailureLabels,
    HostSpec,
    Late,
    Loops,
    NodeKind,
    Overdue,
    QueryRecord,
    Scheme,
    Shed,
    SourceSpec,
    Standby,
    StateSpec,
    StreamRecord,
)
from orchestrator.simulation.trials.nested_statements import (
    fragments_of,
    loop_statements,
    nested_statement,
    read_outside,
)
from orchestrator.simulation.trials.pushed import Pushed
from orchestrator.simulation.trials.sensor import Sensor
from orchestrator.simulation.trials.statements import factors_of, periodic, random_statement
from streams.language import parse
from streams.language.loops import LOOP_INFIX
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import stream_schema

BEGIN_MS = 1_700_000_000_000
COLUMNS = {"key": "int", "value": "int"}
RECOVERY_BOUND_MS = 500.0
DEADLINE_MS = 5_000.0

FIRST_FORMS_ONLY, EVEN_WATCHES, NOBODY_LEAVES, NO_LABELS, ALL_IS_KEPT = 1, 2, 3, 4, 5
ONE_VERSION, NOTHING_PERIODIC, ONE_LEVEL, NEVER_BUSY, LATEST = 6, 7, 8, 9, 10
"""Editions of what is drawn: a seed replays in the edition in which it was found. In the first,
statements had fewer forms; up to the second, all hosts heard of a change of the store at once; up
to the third, nobody left; up to the fourth, hosts shared no failure domain; up to the fifth, no
overdue tuples and late results were dropped; up to the sixth, all processes were of one version;
up to the seventh, no statement was periodic; up to the eighth, none had sub-queries, outer joins
or operations on relations, and there were no loops; up to the ninth, checkpoints were read at once,
and no site stood still meanwhile."""

DENSER = 4
"""How many times as many tuples have streams whose overdue ones are dropped."""

SHORT_DEADLINE_MS = 600.0
"""Of queries some of whose overdue tuples or late results are dropped."""

LITTLE_MEMORY_BYTES = 128 * 2**10
"""Budget of a host in some settings: room for some seconds of its streams."""
LONGEST_WINDOW_MS = 3_000
"""No window of a statement holds tuples for longer."""

SHARE_NESTED, SHARE_OF_LOOPS = 0.25, 0.2
"""Of all statements: those of several levels, and those that loops take the place of."""

STEPS, TUPLES = (12, 40), (25, DEFAULT_TUPLES)
"""Most instants and tuples of a millisecond of a loop; some loops need more than the first."""


Draw = Callable[[np.random.Generator, str, Mapping[str, int], int], str]
"""Draws a statement, as `random_statement`."""


class PlayMode(Enum):
    """How a recording is played when its site has been started again."""

    REPLAY = "replay"
    """It resumes."""
    SENSOR = "sensor"
    """It goes on with what is due from then on."""
    REWINDING = "rewinding"
    """It begins again."""
    PUSHED = "pushed"
    """A client pushes it, and its journal continues it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStream:
    """The recording of one stream.

    Attributes
    ----------
    rows
        With the stream's schema, in order.
    watermarks_ms
        As the driver will give them, rising, shape (m,).
    driver
        How it is played.
    shed
        Limits of the stream's load shedder, if it has one.
    overdue
        Whether overdue tuples are dropped where it enters.
    standby
        The site that stands by for `site`, if one does. If the recording does not resume, it is
        opened there only once `site` is gone.
    """

    site: str
    rows: pa.RecordBatch
    interval_ms: int
    watermarks_ms: IntArray
    driver: PlayMode = PlayMode.REPLAY
    shed: Shed | None = None
    overdue: Overdue = Overdue.KEEP
    standby: str | None = None

    @property
    def drops(self) -> bool:
        """Whether tuples may be dropped before they have a number."""
        return self.shed is not None or self.overdue is Overdue.DROP

    @property
    def sites(self) -> tuple[str, ...]:
        """Where it enters."""
        return (self.site,) if self.standby is None else (self.site, self.standby)

    @property
    def resumes(self) -> bool:
        """Whether a site that is started again continues the stream."""
        return self.driver in (PlayMode.REPLAY, PlayMode.PUSHED) and not self.drops

    @property
    def gapless(self) -> bool:
        """Whether everything enters, whatever becomes of the site."""
        return not self.drops and self.driver is not PlayMode.SENSOR

    def source(self, path: str, end_ms: int) -> SourceSpec:
        """The driver that plays the recording."""
        if self.driver is PlayMode.REPLAY:
            replay = Replay(
                path=path, begin_ms=BEGIN_MS, end_ms=end_ms, interval_ms=self.interval_ms
            )
            return spec_of("replay", replay)
        if self.driver is PlayMode.PUSHED:
            journals = str(Path(path).parent / "journals")
            pushed = Pushed(
                path=path,
                begin_ms=BEGIN_MS,
                end_ms=end_ms,
                interval_ms=self.interval_ms,
                journals=journals,
                # What waits when a site is killed must be neither lost nor there twice.
                slack_ms=3 * self.interval_ms,
                ends=True,
            )
            return spec_of("pushed", pushed)
        sensor = Sensor(
            path=path,
            begin_ms=BEGIN_MS,
            end_ms=end_ms,
            interval_ms=self.interval_ms,
            rewinds=self.driver is PlayMode.REWINDING,
        )
        return spec_of("sensor", sensor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A cluster, its streams and its queries.

    Attributes
    ----------
    programs
        The queries' fragments by name, producers first.
    query_of
        Fragment → its query.
    session_timeout_us
        When the store ends a session that it has not heard of.
    frames
        Whether messages pass through real frames.
    bulk_ms
        Greatest time that a snapshot takes beyond the link delay.
    step_ms
        Time between two steps in which a host reads a snapshot's state.
    watch_ms
        Least and greatest time from a change of the store until a host reads it.
    own_machines
        Whether each host has a machine of its own, whose clocks are others.
    ahead
        Hosts that are of the next version at first.
    coordinators_ahead
        Whether coordinators are.
    visitor
        A query that may be applied while the streams run.
    visiting
        Its fragments by name.
    """

    cluster: ClusterRecord
    specs: tuple[HostSpec, ...]
    recordings: dict[str, RecordedStream]
    queries: tuple[QueryRecord, ...]
    programs: dict[str, Program]
    query_of: dict[str, str]
    seconds: int
    session_timeout_us: int
    frames: bool
    bulk_ms: int = 0
    step_ms: int = 0
    watch_ms: tuple[int, int] = (30, 30)
    own_machines: bool = False
    ahead: tuple[str, ...] = ()
    coordinators_ahead: bool = False
    visitor: QueryRecord | None = None
    visiting: dict[str, Program] = field(default_factory=dict[str, Program])

    @property
    def every_program(self) -> dict[str, Program]:
        """The fragments of all queries, producers first."""
        return self.programs | self.visiting

    @property
    def end_ms(self) -> int:
        """The last watermark of every stream."""
        return BEGIN_MS + self.seconds * 1000

    @property
    def executors(self) -> tuple[str, ...]:
        """Nodes that run fragments."""
        return tuple(spec.node for spec in self.specs if spec.kind is NodeKind.EXECUTOR)

    @property
    def sites(self) -> tuple[str, ...]:
        """Nodes where streams enter and leave."""
        return tuple(spec.node for spec in self.specs if spec.kind is NodeKind.SITE)

    @property
    def outputs(self) -> dict[str, str]:
        """Stream → site it leaves at."""
        return {name: site for query in self.queries for name, site in query.outputs.items()}

    def with_checkpoints(self, every_ms: float) -> Setting:
        """The same with a folder of checkpoints."""
        state = StateSpec(folder="state", every_ms=every_ms)
        return replace(self, cluster=msgspec.structs.replace(self.cluster, state=state))

    def with_queries(self, count: int) -> Setting:
        """The setting with its first queries only."""
        queries = self.queries[:count]
        names = {query.name for query in queries}
        query_of = {name: query for name, query in self.query_of.items() if query in names}
        programs = {name: self.programs[name] for name in query_of}
        return replace(
            self,
            queries=queries,
            programs=programs,
            query_of=query_of,
            visitor=None,
            visiting={},
        )

    def upstream(self, stream: str) -> set[str]:
        """The stream and all that it is made from."""
        found = {stream}
        programs = self.every_program
        for name in reversed(programs):
            if name in found:
                found.update(programs[name].inputs)
        return found

    def depth(self, stream: str) -> int:
        """Fragments on the longest way from a source to the stream."""
        program = self.programs.get(stream)
        return 0 if program is None else 1 + max(map(self.depth, program.inputs))

    def write(self, folder: Path) -> list[StreamRecord]:
        """Write the recordings; returns the records of the streams that play them."""
        records: list[StreamRecord] = []
        for name, recording in self.recordings.items():
            path = folder / f"{name}.parquet"
            # In a recording the timestamp has another name.
            fields = [*stream_schema(COLUMNS)]
            fields[0] = pa.field(RECORDED_TIMESTAMP, pa.int64())
            rows = pa.RecordBatch.from_arrays(recording.rows.columns, schema=pa.schema(fields))
            parquet.write_table(pa.Table.from_batches([rows]), path)
            records.append(
                StreamRecord(
                    name=name,
                    site=recording.site,
                    standby=recording.standby,
                    columns=COLUMNS,
                    rate_bytes_s=1000.0,
                    shed=recording.shed,
                    overdue=recording.overdue,
                    source=recording.source(str(path), self.end_ms),
                )
            )
        return records


def random_setting(seed: int, *, edition: int = LATEST) -> Setting:
    """The setting of a seed."""
    draw: Draw = partial(random_statement, first_forms=edition <= FIRST_FORMS_ONLY)
    if edition > NOTHING_PERIODIC:
        draw = _some_periodic(np.random.default_rng((seed, 23)), draw)
    if edition > ONE_LEVEL:
        draw = _some_nested(np.random.default_rng((seed, 24)), draw)
    rng, more = np.random.default_rng((seed, 2)), np.random.default_rng((seed, 4))
    seconds = int(rng.integers(7, 9))
    nodes = [f"n{i + 1}" for i in range(int(rng.integers(4, 6)))]
    sites = [f"site{i + 1}" for i in range(int(rng.integers(2, 4)))]
    streams = [f"s{i + 1}" for i in range(int(rng.integers(2, 4)))]
    interval_ms = int(rng.choice([100, 100, 200]))
    recordings = {
        name: _recording(rng, str(rng.choice(sites)), seconds, interval_ms) for name in streams
    }
    loops = np.random.default_rng((seed, 25)) if edition > ONE_LEVEL else None
    queries, programs, query_of = _queries(rng, draw, loops, streams, sites)
    heartbeat_ms = float(rng.choice([25.0, 50.0, 50.0]))
    places = [*nodes, *sites]
    at = {place: rng.uniform(0, 10, 2) for place in places}
    delays_ms = {
        one: {other: round(0.5 + float(np.linalg.norm(at[one] - at[other])), 3) for other in places}
        for one in places
    }
    visitor, visiting = _visitor(more, draw, programs, sites)
    queries = _fed(np.random.default_rng((seed, 9)), queries)
    has_little = np.random.default_rng((seed, 8)).random() < 0.3
    ahead, coordinators_ahead = _ahead(seed, places) if edition > ONE_VERSION else ((), False)
    memory_bytes = LITTLE_MEMORY_BYTES if has_little else DEFAULT_MEMORY_BYTES
    recordings = _standing_by(seed, sites, _pushed(seed, _played(more, recordings)))
    if edition > ALL_IS_KEPT:
        recordings, queries = _dropping(np.random.default_rng((seed, 17)), recordings, queries)
    return Setting(
        cluster=ClusterRecord(
            name="random",
            delays_ms=delays_ms,
            heartbeat_ms=heartbeat_ms,
            suspect_after_ms=6 * heartbeat_ms,
            ack_interval_ms=float(rng.choice([50.0, 100.0, 100.0])),
            probe_interval_ms=1000.0,
            memory_bytes=memory_bytes,
            nodes=tuple(nodes),
            sites=tuple(sites),
        ),
        specs=_executors(seed, nodes, labelled=edition > NO_LABELS)
        + tuple(_spec(place, NodeKind.SITE) for place in sites),
        recordings=recordings,
        queries=queries,
        programs=programs,
        query_of=query_of | dict.fromkeys(visiting, visitor.name),
        visitor=visitor,
        visiting=visiting,
        seconds=seconds,
        session_timeout_us=int(rng.choice([2_000_000, 4_000_000])),
        frames=bool(rng.random() < 0.2),
        bulk_ms=int(more.choice([0, 20, 200, 600])),
        step_ms=int(more.choice([0, 2, 40])),
        watch_ms=(30, 30) if edition <= EVEN_WATCHES else _watch_ms(seed),
        ahead=ahead,
        coordinators_ahead=coordinators_ahead,
        own_machines=bool(np.random.default_rng((seed, 7)).random() < 0.5),
    )


def _some_periodic(chance: np.random.Generator, draw: Draw) -> Draw:
    """Draws the same statements, some of them periodic."""

    def drawn(
        rng: np.random.Generator, name: str, factors: Mapping[str, int], longest_s: int
    ) -> str:
        return periodic(chance, draw(rng, name, factors, longest_s))

    return drawn


def _some_nested(chance: np.random.Generator, draw: Draw) -> Draw:
    """Draws the same statements, some of which give way to those of several levels."""

    def drawn(
        rng: np.random.Generator, name: str, factors: Mapping[str, int], longest_s: int
    ) -> str:
        text = draw(rng, name, factors, longest_s)
        if chance.random() >= SHARE_NESTED:
            return text
        return nested_statement(chance, name, factors, longest_s)

    return drawn


def _ahead(seed: int, places: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Hosts of the next version, and whether coordinators are: in half of the settings none."""
    rng = np.random.default_rng((seed, 21))
    share = float(rng.choice([0.0, 0.0, 0.5, 1.0]))
    chosen = rng.random(len(places)) < share
    ahead = tuple(place for place, each in zip(places, chosen.tolist(), strict=True) if each)
    return ahead, bool(rng.random() < share)


def _watch_ms(seed: int) -> tuple[int, int]:
    most_ms = int(np.random.default_rng((seed, 12)).choice([0, 60, 250]))
    return (1, most_ms) if most_ms else (30, 30)


def _executors(seed: int, nodes: Sequence[str], *, labelled: bool) -> tuple[HostSpec, ...]:
    """The executors; in half of the settings they share applications, machines and zones."""
    rng = np.random.default_rng((seed, 13))
    specs = tuple(_spec(node, NodeKind.EXECUTOR) for node in nodes)
    if not labelled or rng.random() < 0.5:
        return specs
    kinds = {"application": 2, "machine": 3, "zone": 2}
    return tuple(
        msgspec.structs.replace(
            spec, labels=FailureLabels(**{k: f"{k}-{rng.integers(n)}" for k, n in kinds.items()})
        )
        for spec in specs
    )


def _spec(node: str, kind: NodeKind) -> HostSpec:
    return HostSpec(cluster="random", node=node, kind=kind, region=node, zookeeper="", secret="")


def _recording(
    rng: np.random.Generator, site: str, seconds: int, interval_ms: int, denser: int = 1
) -> RecordedStream:
    """Tuples at random times, some at the same one, none in the last second."""
    count = denser * int(rng.integers(3, 9)) * (seconds - 1)
    times = BEGIN_MS + 10 * np.sort(rng.integers(0, (seconds - 1) * 100, count))
    columns = [times, rng.integers(0, 6, count), rng.integers(0, 100, count)]
    ends_ms = np.arange(BEGIN_MS, BEGIN_MS + seconds * 1000 + 1, interval_ms, dtype=np.int64)
    return RecordedStream(
        site=site,
        rows=pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns], schema=stream_schema(COLUMNS)
        ),
        interval_ms=interval_ms,
        watermarks_ms=np.union1d(ends_ms, times),
    )


def _played(
    rng: np.random.Generator, recordings: dict[str, RecordedStream]
) -> dict[str, RecordedStream]:
    """The recordings, one of which may have a load shedder or a source that cannot resume."""
    chance, name = rng.random(), str(rng.choice(sorted(recordings)))
    one = recordings[name]
    if chance < 0.15:
        value = "value" if rng.random() < 0.5 else None
        shed = Shed(tuples=int(rng.integers(1, 4)), per_ms=500.0, value=value)
        one = replace(one, shed=shed)
    elif chance < 0.3:
        one = replace(one, driver=PlayMode.SENSOR if rng.random() < 0.5 else PlayMode.REWINDING)
    return {**recordings, name: one}


def _pushed(seed: int, recordings: dict[str, RecordedStream]) -> dict[str, RecordedStream]:
    """The recordings; in every eleventh setting clients push them, as far as they would resume."""
    if seed % 11 != 5:
        return recordings
    return {
        name: replace(one, driver=PlayMode.PUSHED) if one.resumes else one
        for name, one in recordings.items()
    }


def _dropping(
    rng: np.random.Generator,
    recordings: dict[str, RecordedStream],
    queries: tuple[QueryRecord, ...],
) -> tuple[dict[str, RecordedStream], tuple[QueryRecord, ...]]:
    """In a third of the settings, overdue tuples of a recording are dropped where it enters; in a
    third, late results of some outputs where they leave."""
    able = [
        name
        for name, one in recordings.items()
        if one.driver is PlayMode.REPLAY and one.standby is None and one.shed is None
    ]
    if rng.random() < 1 / 3 and able:
        name = str(rng.choice(able))
        one = recordings[name]
        # A slow host is to have more of it than it can evaluate.
        seconds = (int(one.watermarks_ms[-1]) - BEGIN_MS) // 1000
        denser = _recording(rng, one.site, seconds, one.interval_ms, DENSER)
        recordings = {**recordings, name: replace(denser, overdue=Overdue.DROP)}
        queries = tuple(
            msgspec.structs.replace(each, overdue=Overdue.DROP, deadline_ms=SHORT_DEADLINE_MS)
            for each in queries
        )
    if rng.random() < 1 / 3:
        queries = tuple(
            msgspec.structs.replace(
                each,
                deadline_ms=SHORT_DEADLINE_MS,
                late={name: Late.DROP for name in each.outputs if rng.random() < 0.6},
            )
            for each in queries
        )
    return recordings, queries


def _standing_by(
    seed: int, sites: list[str], recordings: dict[str, RecordedStream]
) -> dict[str, RecordedStream]:
    """The recordings; in every ninth setting each may enter at two sites."""
    if seed % 9 != 3:
        return recordings

    def with_standby(one: RecordedStream, rng: np.random.Generator) -> RecordedStream:
        others = [each for each in sites if each != one.site]
        return replace(one, standby=str(rng.choice(others)))

    rng, further = (np.random.default_rng((seed, number)) for number in (10, 11))
    replays = {
        name: with_standby(one, rng) if one.resumes and one.driver is PlayMode.REPLAY else one
        for name, one in recordings.items()
    }
    return {
        name: with_standby(one, further) if one.shed is None and not one.resumes else one
        for name, one in replays.items()
    }


VISITORS_WINDOW_MS = 1_000
"""No window of a visitor's statement holds tuples for longer."""


def _visitor(
    rng: np.random.Generator, draw: Draw, programs: dict[str, Program], sites: list[str]
) -> tuple[QueryRecord, dict[str, Program]]:
    """One or two fragments that read what runs already."""
    streams = {name for program in programs.values() for name in program.inputs} | {*programs}
    known = sorted(name for name in streams if LOOP_INFIX not in name)
    every = _factors(programs)
    factors = {name: every[name] for name in known}
    visiting: dict[str, Program] = {}
    statements: list[str] = []
    for number in range(int(rng.integers(1, 3))):
        name = f"g{number + 1}"
        text = draw(rng, name, factors, VISITORS_WINDOW_MS // 1000)
        (statement,) = parse(text)
        visiting[name] = compile_statement(statement, {each: dict(COLUMNS) for each in factors})
        factors[name] = factors_of(visiting[name], factors)
        statements.append(text)
    query = QueryRecord(
        name="visitor",
        statements="\n".join(statements),
        outputs={name: str(rng.choice(sites)) for name in visiting},
        sinks={name: DriverSpec(driver="archive") for name in visiting},
        deadline_ms=DEADLINE_MS,
        recovery_bound_ms=RECOVERY_BOUND_MS,
    )
    return query, visiting


def _factors(programs: Mapping[str, Program]) -> dict[str, int]:
    """Of every stream that programs read or make, in the order in which they are made."""
    found = dict.fromkeys((name for each in programs.values() for name in each.inputs), 1)
    for name, program in programs.items():
        found[name] = factors_of(program, found)
    return found


def _fed(rng: np.random.Generator, queries: tuple[QueryRecord, ...]) -> tuple[QueryRecord, ...]:
    """The queries with random standby schemes, Active Standby in half of them."""
    schemes = [
        Standby(),
        Standby(scheme=Scheme.ADAPTIVE),
        Standby(scheme=Scheme.UPSTREAM),
        Standby(scheme=Scheme.BATCHES, batch=int(rng.integers(2, 12))),
    ]
    chosen = rng.choice(len(schemes), len(queries), p=[0.5, 0.1, 0.2, 0.2])
    return tuple(
        msgspec.structs.replace(query, standby=schemes[at])
        for query, at in zip(queries, chosen.tolist(), strict=True)
    )


def _queries(
    rng: np.random.Generator,
    draw: Draw,
    loops: np.random.Generator | None,
    streams: list[str],
    sites: list[str],
) -> tuple[tuple[QueryRecord, ...], dict[str, Program], dict[str, str]]:
    """One or two queries, the second of which may read what the first makes.

    Parameters
    ----------
    loops
        Draws loops, which take the place of statements.
    """
    factors = dict.fromkeys(streams, 1)
    columns = {name: dict(COLUMNS) for name in streams}
    programs: dict[str, Program] = {}
    query_of: dict[str, str] = {}
    queries: list[QueryRecord] = []
    for number in range(1 + int(rng.random() < 0.5)):
        texts: list[str] = []
        made: list[str] = []
        looping: list[str] = []
        limits = LoopLimits() if loops is None else _limits(loops)
        for _ in range(int(rng.integers(1, 4))):
            name = f"f{len(programs) + 1}"
            text = draw(rng, name, factors, LONGEST_WINDOW_MS // 1000)
            if loops is not None and loops.random() < SHARE_OF_LOOPS:
                text = loop_statements(loops, name, factors, LONGEST_WINDOW_MS // 1000)
            statements = parse(text)
            fragments = fragments_of(statements, columns, limits)
            programs |= fragments
            query_of |= dict.fromkeys(fragments, f"q{number + 1}")
            given = read_outside(statements)
            known = dict(factors)
            for fragment, program in fragments.items():
                known[fragment] = factors_of(program, known)
            factors |= {each: known[each] for each in given}
            columns |= {each: dict(COLUMNS) for each in given}
            made += given
            if any(each.loop is not None for each in fragments.values()):
                looping += given
            texts.append(text)
        leaving = [name for name in made[:-1] if rng.random() < 0.4] + made[-1:]
        # Streams of a loop that are no outputs might be read by nobody, and so be inside of it.
        leaving += [name for name in looping if name not in leaving]
        queries.append(
            QueryRecord(
                name=f"q{number + 1}",
                statements="\n".join(texts),
                outputs={name: str(rng.choice(sites)) for name in leaving},
                sinks={name: DriverSpec(driver="archive") for name in leaving},
                deadline_ms=DEADLINE_MS,
                recovery_bound_ms=RECOVERY_BOUND_MS,
                loops=Loops(steps=limits.steps, tuples=limits.tuples, beyond=limits.beyond),
            )
        )
    return tuple(queries), programs, query_of


def _limits(rng: np.random.Generator) -> LoopLimits:
    return LoopLimits(int(rng.choice(STEPS)), int(rng.choice(TUPLES)), Beyond.CUT)
