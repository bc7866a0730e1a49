"""Drills one after the other, each predicted before it is run if that is wanted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from orchestrator.api.apart import carry_apart
from orchestrator.api.connection import Cluster
from orchestrator.api.drilling import DRILLS, drill, known
from orchestrator.drills.acting import Inapplicable
from orchestrator.errors import Cancelled, InvalidInput, VivaceError
from orchestrator.operations import table
from orchestrator.operations.parameters import PredictParameters
from orchestrator.progress import Progress, silent
from orchestrator.results.drills import DrillRun
from orchestrator.store.protocol import StoreError


def run_series(
    cluster: Cluster,
    names: Sequence[str] = tuple(DRILLS),
    target: str | None = None,
    on_progress: Progress = silent,
    *,
    times: int = 1,
    force: bool = False,
    compare: bool = False,
) -> tuple[DrillRun, ...]:
    """Run drills one after the other, and all of them so many times.

    One that is refused or fails stops none.

    Parameters
    ----------
    compare
        Predict each before it is run. One that cannot be predicted is run all the same.

    Raises
    ------
    InvalidInput
        There is no such drill, or it cannot strike the target.
    """
    for name in names:
        known(name)
    runs: list[DrillRun] = []
    for number, name in enumerate([*names] * times, start=1):
        on_progress("drill", f"{name}, {number} of {len(names) * times}")
        predicted_ms, unpredicted = None, None
        if compare:
            try:
                asked = PredictParameters(drill=name, target=target)
                report = carry_apart(table.PREDICT, cluster, asked, on_progress)
                predicted_ms = report.recovery_ms
            except Cancelled:
                raise
            except (VivaceError, StoreError) as error:
                unpredicted = str(error)
        run = _run(cluster, name, target, on_progress, force, predicted_ms)
        runs.append(msgspec.structs.replace(run, unpredicted=unpredicted))
        on_progress("result", runs[-1].told)
    return tuple(runs)


def _run(
    cluster: Cluster,
    name: str,
    target: str | None,
    on_progress: Progress,
    force: bool,
    predicted_ms: float | None,
) -> DrillRun:
    try:
        found = drill(cluster, name, target, on_progress, force=force, predicted_ms=predicted_ms)
    except Cancelled:
        raise
    except Inapplicable as error:
        return DrillRun(drill=name, inapplicable=error.why)
    except (VivaceError, StoreError) as error:
        if target is not None and isinstance(error, InvalidInput):
            # It would be as wrong the next time.
            raise
        return DrillRun(drill=name, problem=str(error))
    return DrillRun(drill=name, report=found)
