"""Random schedules: a seed gives a setting, and a list of timed faults.

Four shapes of schedules are drawn:

- *none*: no fault. Operators move replicas, and output never rests.
- *single*: one fault. Everything is promised, the recovery bound included.
- *several*: two or three faults of any kind, one after the other or at once. Exactness is promised
  as long as each fragment keeps a warm replica (`orchestrator.simulation.trials.exposure` follows
  that), and `state lost` must be said where it does not.
- *both*: both replicas of one fragment die. `state lost` must be said, and what follows is correct.

In every thirteenth schedule with several, a site stays away until the streams are over, and
hosts crash meanwhile: nothing flows any more when it returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from enum import Enum

import msgspec
import numpy as np

from orchestrator.simulation.trials.faults import (
    AnyFault,
    Break,
    Clock,
    CoordinatorCrash,
    Crash,
    Delay,
    Disk,
    Everything,
    LinkCut,
    Linked,
    Observe,
    Pause,
    QueryPaused,
    Restart,
    SavepointWanted,
    Slow,
    StoreAway,
    StoreCut,
    Visit,
)
from orchestrator.simulation.trials.operations import (
    AnyOperation,
    Drain,
    Rewording,
    Switchover,
    TrialMove,
)
from orchestrator.simulation.trials.rollouts import (
    AnyRollout,
    HostLeaves,
    ProcessesEnd,
    VersionChange,
)
from orchestrator.simulation.trials.setting import (
    EVEN_WATCHES,
    LATEST,
    NEVER_BUSY,
    NOBODY_LEAVES,
    ONE_LEVEL,
    ONE_VERSION,
    Setting,
    random_setting,
)
from orchestrator.simulation.world.links import Fate

FIRST_FAULT_MS, LAST_FAULT_MS = 300, 3500
"""Faults strike between these times; the streams go on for several seconds after them."""

AWAY_MS = 5_000, 15_000
"""How long a site stays away: no longer than output is kept for its sinks."""

MOST_SLOWNESS = 3000
"""Factor by which evaluation takes longer: a batch of one tuple then takes a sixth of a second, so
that the host neither follows its input nor sends its heartbeats in time."""


class Shape(Enum):
    """The kind of a schedule."""

    NONE = "none"
    SINGLE = "single"
    SEVERAL = "several"
    BOTH = "both"


STRUCK = (Shape.SINGLE, Shape.SEVERAL, Shape.BOTH)
"""Shapes with faults. Only these were drawn up to the edition `EVEN_WATCHES`."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A seed's faults.

    Attributes
    ----------
    seed
        Of the setting and of everything else that is random.
    queries
        How many of the setting's queries run, the first ones; None: all.
    observers
        Who reads streams besides the sinks.
    visit
        When the setting's visitor is applied and deleted, if it is.
    operations
        What operators do meanwhile.
    rollouts
        Which hosts leave meanwhile.
    edition
        Of what is drawn (`orchestrator.simulation.trials.setting`).
    checkpoints_ms
        Time between two checkpoints of a fragment; None: there are none.
    """

    seed: int
    shape: Shape
    faults: tuple[AnyFault, ...]
    queries: int | None = None
    observers: tuple[Observe, ...] = ()
    visit: Visit | None = None
    operations: tuple[AnyOperation, ...] = ()
    rollouts: tuple[AnyRollout, ...] = ()
    edition: int = LATEST
    checkpoints_ms: float | None = None

    @property
    def setting(self) -> Setting:
        """The stage that the faults strike."""
        whole = random_setting(self.seed, edition=self.edition)
        if (every_ms := self.checkpoints_ms) is not None:
            whole = whole.with_checkpoints(every_ms)
        return whole if self.queries is None else whole.with_queries(self.queries)


EVERYTHING, SAVEPOINT, QUERY_PAUSE = "everything", "savepoint", "query-pause"
OF_CHECKPOINTS = EVERYTHING, SAVEPOINT, QUERY_PAUSE
"""Kinds that are drawn only if they are chosen, and then clusters keep checkpoints."""

CHECKPOINTS_MS = 200.0, 3000.0

Draw = Callable[[np.random.Generator, Setting, int], AnyFault]


def _round(value: float) -> int:
    """Round numbers read better in a transcript."""
    return round(value / 10) * 10


def _lasting(rng: np.random.Generator, least_ms: float, most_ms: float) -> int:
    """A duration; short ones are as likely as long ones."""
    return max(_round(math.exp(rng.uniform(math.log(least_ms), math.log(most_ms)))), 10)


def _pick(rng: np.random.Generator, among: Collection[str]) -> str:
    return str(rng.choice(sorted(among)))


def _executor(rng: np.random.Generator, setting: Setting) -> str:
    """An executor, mostly one with a role."""
    if rng.random() < 0.2:
        return _pick(rng, setting.executors)
    role = "primary" if rng.random() < 0.6 else "secondary"
    return f"{role}:{_pick(rng, setting.programs)}"


def _host(rng: np.random.Generator, setting: Setting) -> str:
    return _pick(rng, setting.sites) if rng.random() < 0.3 else _executor(rng, setting)


def _ends(rng: np.random.Generator, setting: Setting) -> tuple[str, str]:
    """Two hosts, mostly two that exchange data."""
    chance = rng.random()
    fragment = _pick(rng, setting.programs)
    if chance < 0.3:
        ends = [f"primary:{fragment}", f"secondary:{fragment}"]
    elif chance < 0.75:
        inputs = setting.programs[fragment].inputs
        stream = _pick(rng, inputs)
        recording = setting.recordings.get(stream)
        producer = recording.site if recording is not None else f"primary:{stream}"
        ends = [producer, f"{'primary' if rng.random() < 0.6 else 'secondary'}:{fragment}"]
    elif chance < 0.9:
        stream = _pick(rng, setting.outputs)
        ends = [f"primary:{stream}", setting.outputs[stream]]
    else:
        ends = [str(name) for name in rng.choice([spec.node for spec in setting.specs], 2, False)]
    if rng.random() < 0.5:
        ends.reverse()
    return ends[0], ends[1]


def _crash(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    after = int(rng.integers(0, 3)) if rng.random() < 0.15 else None
    for_ms = _round(rng.uniform(1000, 5000))
    return Crash(at_ms=at_ms, target=_executor(rng, setting), for_ms=for_ms, after_writes=after)


def _site(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return Crash(
        at_ms=at_ms, target=_pick(rng, setting.sites), for_ms=_round(rng.uniform(500, 3000))
    )


def _pause(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return Pause(at_ms=at_ms, target=_host(rng, setting), for_ms=_lasting(rng, 50, 6000))


def _replaced(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return _replace(rng, setting, at_ms, _executor(rng, setting))


def _replaced_site(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return _replace(rng, setting, at_ms, _pick(rng, setting.sites))


def _replace(rng: np.random.Generator, setting: Setting, at_ms: int, target: str) -> AnyFault:
    for_ms = _round(setting.session_timeout_us / 1000 + rng.uniform(500, 4000))
    return Pause(at_ms=at_ms, target=target, for_ms=for_ms, replaced=True)


def _coordinator(rng: np.random.Generator, _: Setting, at_ms: int) -> AnyFault:
    after = int(rng.integers(0, 6)) if rng.random() < 0.7 else None
    return CoordinatorCrash(at_ms=at_ms, for_ms=_round(rng.uniform(300, 3000)), after_writes=after)


def _store(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    for_ms = _lasting(rng, 100, 5000)
    outlasts_sessions = for_ms * 1000 >= setting.session_timeout_us
    # Without another number drawn, for the schedules that seeds are known for.
    return StoreAway(at_ms=at_ms, for_ms=for_ms, stopped=outlasts_sessions and for_ms // 10 % 2 > 0)


def _store_cut(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return StoreCut(at_ms=at_ms, target=_host(rng, setting), for_ms=_lasting(rng, 100, 6000))


def _cut(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    here, there = _ends(rng, setting)
    notice = bool(rng.random() < 0.5)
    return LinkCut(
        at_ms=at_ms,
        here=here,
        there=there,
        notice=notice,
        holds=not notice and bool(rng.random() < 0.6),
        for_ms=_lasting(rng, 50, 5000),
    )


def _one_way(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    cut = _cut(rng, setting, at_ms)
    return msgspec.structs.replace(cut, both_ways=False)


def _connection(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    here, there = _ends(rng, setting)
    return Break(
        at_ms=at_ms,
        here=here,
        there=there,
        both_ways=bool(rng.random() < 0.5),
        notice=bool(rng.random() < 0.6),
        fate=list(Fate)[int(rng.integers(len(Fate)))],
        for_ms=_lasting(rng, 10, 1000),
    )


def _delay(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    here, there = _ends(rng, setting)
    return Delay(
        at_ms=at_ms,
        here=here,
        there=there,
        both_ways=bool(rng.random() < 0.5),
        extra_ms=float(_lasting(rng, 10, 500)),
        for_ms=_lasting(rng, 100, 4000),
    )


def _slow(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return Slow(
        at_ms=at_ms,
        target=_executor(rng, setting),
        factor=float(_lasting(rng, 2, MOST_SLOWNESS)),
        for_ms=_lasting(rng, 100, 4000),
    )


def _disk(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return Disk(at_ms=at_ms, target=_pick(rng, setting.sites), for_ms=_lasting(rng, 100, 4000))


def _clock(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    step_ms = float(rng.choice([-1, 1])) * _lasting(rng, 1, 3_600_000) if rng.random() < 0.7 else 0
    return Clock(
        at_ms=at_ms,
        target=_host(rng, setting),
        step_ms=step_ms,
        drift_ppm=round(float(rng.uniform(-500, 500))),
        for_ms=_lasting(rng, 500, 5000),
        restart=list(Restart)[int(rng.integers(len(Restart)))],
    )


def _everything_dies(rng: np.random.Generator, _: Setting, at_ms: int) -> AnyFault:
    return Everything(
        at_ms=at_ms,
        for_ms=_lasting(rng, 200, 5000),
        apart_ms=_lasting(rng, 10, 400),
        damaged=int(rng.integers(1, 4)) if rng.random() < 0.25 else 0,
        store=bool(rng.random() < 0.3),
    )


def _busy(rng: np.random.Generator, fault: AnyFault) -> AnyFault:
    """A fault that may strike a busy machine: hosts ask a site several times before it responds."""
    if not isinstance(fault, Everything) or rng.random() < 0.5:
        return fault
    reads_ms, still_ms = _lasting(rng, 10, 800), _lasting(rng, 300, 3000)
    return msgspec.structs.replace(fault, reads_ms=reads_ms, still_ms=still_ms)


def _savepoint(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    hazard = rng.random()
    return SavepointWanted(
        at_ms=at_ms,
        for_ms=_lasting(rng, 500, 4000),
        leader_writes=int(rng.integers(0, 12)) if hazard < 0.5 else None,
        crashes=_host(rng, setting) if rng.random() < 0.4 else "",
        damaged=bool(0.5 <= hazard < 0.6),
        full_ms=_lasting(rng, 50, 1000) if 0.6 <= hazard < 0.75 else 0,
        deletes=bool(rng.random() < 0.15),
    )


def _query_pause(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyFault:
    return QueryPaused(
        at_ms=at_ms,
        for_ms=_lasting(rng, 200, 8000),
        query=_pick(rng, [query.name for query in setting.queries]),
        leader_writes=int(rng.integers(0, 12)) if rng.random() < 0.5 else None,
        resuming=bool(rng.random() < 0.5),
    )


KINDS: dict[str, Draw] = {
    "crash": _crash,
    "site": _site,
    "pause": _pause,
    "replaced": _replaced,
    "replaced-site": _replaced_site,
    "coordinator": _coordinator,
    "store": _store,
    "store-cut": _store_cut,
    "cut": _cut,
    "one-way": _one_way,
    "connection": _connection,
    "delay": _delay,
    "slow": _slow,
    "disk": _disk,
    "clock": _clock,
    EVERYTHING: _everything_dies,
    SAVEPOINT: _savepoint,
    QUERY_PAUSE: _query_pause,
}
"""The kinds of faults that can be chosen, by name."""

USUAL = tuple(name for name in KINDS if name not in OF_CHECKPOINTS)
"""Those that are drawn if none is chosen."""

WEIGHTS = {"crash": 4.0, "site": 2.0, "pause": 2.0, "cut": 2.0, "one-way": 2.0}
"""How often a kind is drawn, if not once."""


def random_schedule(
    seed: int,
    kinds: Collection[str] = USUAL,
    shapes: Collection[Shape] = tuple(Shape),
    *,
    edition: int = LATEST,
) -> Schedule:
    """The schedule of a seed, with faults of some kinds only.

    Parameters
    ----------
    kinds
        Names of `KINDS`.
    shapes
        The shapes to choose from; `BOTH` needs the kind `crash`.
    edition
        Of what is drawn (`orchestrator.simulation.trials.setting`).
    """
    setting = random_setting(seed, edition=edition)
    rng = np.random.default_rng((seed, 3))
    names = [name for name in KINDS if name in kinds]
    weights = np.array([WEIGHTS.get(name, 1.0) for name in names])
    if "crash" not in names:
        shapes = [shape for shape in shapes if shape is not Shape.BOTH]
    allowed = [shape for shape in Shape if shape in shapes]
    likely = {Shape.SINGLE: 0.45, Shape.SEVERAL: 0.45, Shape.BOTH: 0.1, Shape.NONE: 0.1}
    chances = np.array([likely[shape] for shape in allowed])
    shape = allowed[int(rng.choice(len(allowed), p=chances / chances.sum()))]
    at_ms = [_round(ms) for ms in np.sort(rng.uniform(FIRST_FAULT_MS, LAST_FAULT_MS, 3)).tolist()]
    faults: list[AnyFault]
    match shape:
        case Shape.NONE:
            faults = []
        case Shape.BOTH:
            fragment = _pick(rng, setting.programs)
            faults = [
                Crash(at_ms=ms, target=f"{role}:{fragment}", for_ms=_round(rng.uniform(1000, 5000)))
                for ms, role in ((at_ms[0], "primary"), (at_ms[0], "secondary"))
            ]
            if seed % 4 == 3 and "site" in kinds and edition > EVEN_WATCHES:
                faults += _everything(np.random.default_rng((seed, 14)), setting, at_ms[0])
        case _:
            count = 1 if shape is Shape.SINGLE else int(rng.integers(2, 4))
            drawn = [str(name) for name in rng.choice(names, count, p=weights / weights.sum())]
            faults = [KINDS[name](rng, setting, ms) for name, ms in zip(drawn, at_ms, strict=False)]
    if edition > NEVER_BUSY:
        busy = np.random.default_rng((seed, 52))
        faults = [_busy(busy, fault) for fault in faults]
    if shape is Shape.SEVERAL and seed % 13 == 1 and {"site", "crash"} <= {*kinds}:
        faults = _absence(np.random.default_rng((seed, 11)), setting)
    more = np.random.default_rng((seed, 5))
    observers = _observers(more, setting)
    for observer in observers:
        faults = [_turned(more, fault, observer.name) for fault in faults]
    checkpoints_ms, changes = None, ()
    if not {*OF_CHECKPOINTS}.isdisjoint(kinds):
        checkpoints_ms = float(_round(np.random.default_rng((seed, 16)).uniform(*CHECKPOINTS_MS)))
        if edition > ONE_LEVEL:
            changes = (_change(np.random.default_rng((seed, 51)), setting),)
    return Schedule(
        checkpoints_ms=checkpoints_ms,
        seed=seed,
        shape=shape,
        faults=tuple(faults),
        observers=observers,
        visit=_visit(np.random.default_rng((seed, 6))),
        operations=(
            *_operations(np.random.default_rng((seed, 9)), setting, always=shape is Shape.NONE),
            *changes,
        ),
        rollouts=()
        if shape not in (Shape.NONE, Shape.SEVERAL)
        else (
            *_rollouts(seed, setting, edition, calm=shape is Shape.NONE),
            *_version_changes(seed, setting, edition, calm=shape is Shape.NONE),
        ),
        edition=edition,
    )


def _everything(rng: np.random.Generator, setting: Setting, at_ms: int) -> list[AnyFault]:
    """All sites crash together with a fragment's replicas, or all hosts do."""
    nodes = setting.sites if rng.random() < 0.5 else (*setting.executors, *setting.sites)
    return [Crash(at_ms=at_ms, target=n, for_ms=_round(rng.uniform(500, 3000))) for n in nodes]


def _absence(rng: np.random.Generator, setting: Setting) -> list[AnyFault]:
    """A site that stays away for long, and one to three executors that crash meanwhile."""
    at_ms, for_ms = (_round(rng.uniform(*each)) for each in ((300, LAST_FAULT_MS), AWAY_MS))
    crashes = np.sort(rng.uniform(at_ms, at_ms + for_ms, int(rng.integers(1, 4)))).tolist()
    away = Crash(at_ms=at_ms, target=_pick(rng, setting.sites), for_ms=for_ms)
    return [away, *(_crash(rng, setting, _round(ms)) for ms in crashes)]


def _rollouts(seed: int, setting: Setting, edition: int, *, calm: bool) -> tuple[AnyRollout, ...]:
    """In some schedules a host leaves, or the processes of two or three hosts end in turn.

    Parameters
    ----------
    calm
        Whether output never rests: no site ends, and nobody has too little time.
    """
    rng = np.random.default_rng((seed, 15))
    if edition <= NOBODY_LEAVES or rng.random() >= 0.3:
        return ()
    at_ms = _round(rng.uniform(100, LAST_FAULT_MS))
    if rng.random() < 0.4:
        within_ms = 30_000 if calm else _lasting(rng, 200, 15_000)
        target = _executor(rng, setting) if calm else _host(rng, setting)
        return (HostLeaves(at_ms=at_ms, target=target, within_ms=within_ms),)
    among = sorted(setting.executors if calm else (*setting.executors, *setting.sites))
    count = int(rng.integers(2, 4))
    nodes = tuple(str(name) for name in rng.choice(among, count, replace=False))
    grace_ms = 120_000 if calm else _lasting(rng, 500, 60_000)
    back_ms = _round(rng.uniform(300, 3000))
    return (ProcessesEnd(at_ms=at_ms, nodes=nodes, grace_ms=grace_ms, back_ms=back_ms),)


def _version_changes(
    seed: int, setting: Setting, edition: int, *, calm: bool
) -> tuple[VersionChange, ...]:
    """In some schedules one or two changes of version; the second mostly takes the first back.

    Parameters
    ----------
    calm
        As for `_rollouts`.
    """
    rng = np.random.default_rng((seed, 22))
    if edition <= ONE_VERSION or rng.random() >= 0.4:
        return ()
    among = sorted(setting.executors if calm else (*setting.executors, *setting.sites))

    def change(at_ms: int, nodes: Sequence[str], *, ahead: bool) -> VersionChange:
        return VersionChange(
            at_ms=at_ms,
            nodes=tuple(nodes),
            coordinators=bool(rng.random() < 0.5),
            ahead=ahead,
            grace_ms=120_000 if calm else _lasting(rng, 500, 60_000),
            back_ms=_round(rng.uniform(300, 3000)),
        )

    def drawn() -> list[str]:
        return [str(name) for name in rng.choice(among, int(rng.integers(1, 4)), replace=False)]

    at_ms, nodes, ahead = _round(rng.uniform(100, LAST_FAULT_MS)), drawn(), rng.random() < 0.6
    first = change(at_ms, nodes, ahead=bool(ahead))
    if rng.random() < 0.3:
        return (first,)
    later_ms, others = at_ms + _lasting(rng, 200, 5000), drawn()
    return first, change(later_ms, nodes if rng.random() < 0.7 else others, ahead=not ahead)


def _operations(
    rng: np.random.Generator, setting: Setting, *, always: bool
) -> tuple[AnyOperation, ...]:
    """In some schedules, one to three operations, mostly around the time of the faults."""
    if rng.random() >= 0.35 and not always:
        return ()
    times = np.sort(rng.uniform(100, LAST_FAULT_MS, int(rng.integers(1, 4)))).tolist()
    return tuple(_operation(rng, setting, _round(ms)) for ms in times)


def _change(rng: np.random.Generator, setting: Setting) -> AnyOperation:
    """A query is changed in place, if one can be into statements of the same results."""
    at_ms = _round(float(rng.uniform(1000, LAST_FAULT_MS + 1000)))
    return Rewording(at_ms=at_ms, query=_pick(rng, [query.name for query in setting.queries]))


def _operation(rng: np.random.Generator, setting: Setting, at_ms: int) -> AnyOperation:
    chance = rng.random()
    if chance < 0.4:
        return Switchover(at_ms=at_ms, fragment=_pick(rng, setting.programs))
    if chance < 0.8:
        withdrawn = rng.random() < 0.2
        return TrialMove(
            at_ms=at_ms,
            fragment=_pick(rng, setting.programs),
            role="primary" if rng.random() < 0.6 else "secondary",
            node=_pick(rng, setting.executors),
            withdrawn_ms=at_ms + _lasting(rng, 20, 1000) if withdrawn else None,
        )
    ends = rng.random() < 0.7
    return Drain(
        at_ms=at_ms,
        node=_pick(rng, setting.executors),
        at_a_time=int(rng.integers(1, 4)),
        until_ms=at_ms + _lasting(rng, 100, 4000) if ends else None,
    )


def _visit(rng: np.random.Generator) -> Visit | None:
    """In some schedules, a visit around the time of the faults."""
    if rng.random() >= 0.15:
        return None
    at_ms = _round(rng.uniform(100, 2500))
    leaves = rng.random() < 0.5
    return Visit(at_ms=at_ms, until_ms=_round(at_ms + rng.uniform(800, 3500)) if leaves else None)


def _observers(rng: np.random.Generator, setting: Setting) -> tuple[Observe, ...]:
    """In some schedules one observer, which comes before the faults, or meanwhile."""
    if rng.random() >= 0.2:
        return ()
    read = {name for program in setting.programs.values() for name in program.inputs}
    streams = sorted(read | setting.programs.keys())
    count = int(rng.integers(1, 3))
    at_ms = _round(rng.uniform(0, LAST_FAULT_MS))
    observer = Observe(
        name="watch",
        streams=tuple(sorted({str(name) for name in rng.choice(streams, count)})),
        region=_pick(rng, [spec.region for spec in setting.specs]),
        at_ms=at_ms,
        until_ms=_round(at_ms + rng.uniform(500, 4000)) if rng.random() < 0.4 else None,
        orderly=bool(rng.random() < 0.5),
    )
    return (observer,)


def _turned(rng: np.random.Generator, fault: AnyFault, observer: str) -> AnyFault:
    """A fault of a link as it is, or between one of its ends and the observer."""
    if not isinstance(fault, Linked) or rng.random() < 0.7:
        return fault
    here, there = (fault.here, observer) if rng.random() < 0.5 else (observer, fault.there)
    return msgspec.structs.replace(fault, here=here, there=there)
