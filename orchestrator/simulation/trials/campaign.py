"""Many schedules on all cores: each seed is played, checked, and shrunk if it fails."""

from __future__ import annotations

import gc
import itertools
import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import msgspec

from orchestrator.simulation.trials.checks import findings
from orchestrator.simulation.trials.observed import Observed
from orchestrator.simulation.trials.oracle import expected
from orchestrator.simulation.trials.schedule import USUAL, Schedule, Shape, random_schedule
from orchestrator.simulation.trials.setting import LATEST
from orchestrator.simulation.trials.shrinking import shrink
from orchestrator.simulation.trials.transcript import transcript
from orchestrator.simulation.trials.trial import play
from orchestrator.simulation.world.world import START_US

SEEDS_A_TASK = 4
"""Seeds that a process takes at once."""


class ScheduleSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules to draw from.

    Attributes
    ----------
    kinds
        Names of faults, out of `orchestrator.simulation.trials.schedule.KINDS`.
    edition
        Of what is drawn (`orchestrator.simulation.trials.setting`).
    """

    kinds: tuple[str, ...] = USUAL
    shapes: tuple[Shape, ...] = tuple(Shape)
    edition: int = LATEST


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was played.

    Attributes
    ----------
    findings
        Promises that did not hold, of the schedule as drawn.
    schedule
        It replays exactly. If the schedule as drawn failed, this one may be smaller, and fails in
        the same way.
    transcript
        Of `schedule`.
    """

    seed: int
    findings: tuple[str, ...]
    schedule: Schedule
    transcript: str


class TrialVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One seed: what was played, and how it failed, if it did."""

    seed: int
    shape: Shape
    faults: int
    virtual_s: float
    failure: TrialReport | None = None


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """All seeds of a campaign.

    Attributes
    ----------
    seeds
        How many were to be played.
    played
        How many were: fewer if the campaign was interrupted.
    before_seed
        Every seed before this one was played; of later ones, some may have been.
    schedules_s
        Schedules played a second, on all processes together.
    """

    first_seed: int
    seeds: int
    played: int
    before_seed: int
    faults: int
    virtual_s: float
    took_s: float
    schedules_s: float
    processes: int
    failures: tuple[TrialReport, ...]


def check(schedule: Schedule) -> tuple[Observed, list[str]]:
    """Play a schedule, and check everything that is promised."""
    seen = play(schedule)
    calm = msgspec.structs.replace(schedule, shape=Shape.NONE, faults=())
    return seen, findings(seen, expected(seen.setting, seen.entered), lambda: play(calm))


def judge(seed: int, selection: ScheduleSelection, *, shrunk: bool = True) -> TrialVerdict:
    """Play the schedule of one seed; if it fails, find a smaller one that fails alike."""
    schedule = random_schedule(seed, selection.kinds, selection.shapes, edition=selection.edition)
    try:
        seen, found = check(schedule)
    except Exception as error:
        # Not every error can be handed to the process that sums up, and none names the seed.
        raise RuntimeError(f"seed {seed} cannot be played:\n{traceback.format_exc()}") from error
    verdict = TrialVerdict(
        seed=seed,
        shape=schedule.shape,
        faults=len(schedule.faults),
        virtual_s=(seen.ended_us - START_US) / 1e6,
    )
    if not found:
        return verdict
    failure = report(schedule, seen, found, shrunk=shrunk)
    return msgspec.structs.replace(verdict, failure=failure)


def report(schedule: Schedule, seen: Observed, found: list[str], *, shrunk: bool) -> TrialReport:
    """Tell of a schedule that was played; make it smaller if it failed."""
    small, small_found = schedule, found
    if shrunk and found:
        kinds = {_kind(finding) for finding in found}
        small = shrink(
            schedule, lambda each: bool(kinds & {_kind(finding) for finding in check(each)[1]})
        )
        seen, small_found = check(small)
    return TrialReport(
        seed=schedule.seed,
        findings=tuple(found),
        schedule=small,
        transcript=transcript(seen, small_found),
    )


def run(
    first_seed: int,
    seeds: int,
    selection: ScheduleSelection,
    *,
    processes: int | None = None,
    tell: Callable[[TrialVerdict], None] = lambda _: None,
) -> Campaign:
    """Play the schedules of consecutive seeds, until all are played or the process is interrupted.

    Parameters
    ----------
    processes
        None: one a core.
    tell
        Told each verdict as it falls.
    """
    began = time.monotonic()
    count = processes or min(os.cpu_count() or 1, seeds)
    verdicts: list[TrialVerdict] = []
    with suppress(KeyboardInterrupt):
        for verdict in _verdicts(range(first_seed, first_seed + seeds), selection, count):
            verdicts.append(verdict)
            tell(verdict)
    verdicts.sort(key=lambda verdict: verdict.seed)
    known = {verdict.seed for verdict in verdicts}
    took_s = time.monotonic() - began
    return Campaign(
        first_seed=first_seed,
        seeds=seeds,
        played=len(verdicts),
        before_seed=next(seed for seed in itertools.count(first_seed) if seed not in known),
        faults=sum(verdict.faults for verdict in verdicts),
        virtual_s=round(sum(verdict.virtual_s for verdict in verdicts), 1),
        took_s=round(took_s, 2),
        schedules_s=round(len(verdicts) / took_s, 2),
        processes=count,
        failures=tuple(each.failure for each in verdicts if each.failure is not None),
    )


def _verdicts(seeds: range, selection: ScheduleSelection, processes: int) -> Iterator[TrialVerdict]:
    if processes == 1:
        with _prepared():
            yield from (judge(seed, selection) for seed in seeds)
        return
    parts = [seeds[i : i + SEEDS_A_TASK] for i in range(0, len(seeds), SEEDS_A_TASK)]
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _prepare_worker)
    try:
        task = partial(_judge_all, selection=selection)
        for done in as_completed([pool.submit(task, part) for part in parts]):
            yield from done.result()
    except BaseException:
        # Nobody waits for what is under way; a schedule that fails may take minutes to shrink.
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - set(others):
            worker.terminate()
        raise
    pool.shutdown()


def _judge_all(seeds: Sequence[int], selection: ScheduleSelection) -> list[TrialVerdict]:
    return [judge(seed, selection) for seed in seeds]


def _prepare_worker() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the one that sums up, and end
    with that, also if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _for_life.enter_context(_prepared())


_for_life = ExitStack()
"""What a worker keeps until it ends."""


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _prepared() -> Generator[None]:
    """Have this process play schedules quickly, and say nothing of them."""
    # Coordinators log what they cannot do yet; in a schedule that is expected.
    logger = logging.getLogger("orchestrator")
    level = logger.level
    logger.setLevel(logging.ERROR)
    # Modules live as long as the process: collecting garbage need not look at them.
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        logger.setLevel(level)


def _kind(finding: str) -> str:
    return finding.partition(":")[0]
