"""Waiting until a cluster that was started is ready for queries.

What that means is said in `orchestrator.control.observe.readiness`. Patience goes by progress: on a
slow machine everything takes longer, and what still comes is worth waiting for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from orchestrator.control.observe.readiness import Incomplete, Readiness, incomplete, readiness
from orchestrator.errors import Unreachable
from orchestrator.progress import Progress
from orchestrator.store.protocol import CLAIMS, NODES, Store

REGISTER_PATIENCE_S = 240.0
"""Time for Spark to start, and for the next host to start or to register, on a busy machine."""

PROBE_PATIENCE_S = 60.0
"""Time until one more pair has been probed; a host sends several probes a second."""

SETTLE_PATIENCE_S = 20.0
"""Time for one more coordinate to settle once every pair has been probed. Planning prefers measured
latencies, so uncertain coordinates are reported and are no failure."""

LOOK_EVERY_S = 0.1


def await_ready(
    store: Store,
    expected: Sequence[str],
    logs: Path,
    on_progress: Progress,
    check: Callable[[], None],
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the cluster is ready.

    Parameters
    ----------
    expected
        Names of all hosts.
    logs
        Folder of their logs, for the message.
    check
        Called repeatedly; raises when waiting has become pointless.
    now_s, sleep
        A clock that never goes back, and how to let it go on.

    Raises
    ------
    Unreachable
        Naming the hosts or links that are missing.
    """
    former, silent_logs = _claims(store), _logged(logs)
    waits: Incomplete | None = None
    while True:
        check()
        started = {name for name, number in _claims(store).items() if number != former.get(name)}
        nodes = {name: found.record for name, found in store.list(NODES).records.items()}
        now_us = round(now_s() * 1e6)
        begun = sum(size > silent_logs.get(name, 0) for name, size in _logged(logs).items())
        now = msgspec.structs.replace(readiness(expected, nodes, started), begun=begun)
        waits = incomplete(waits, now, now_us)
        if waits is None:
            on_progress("coordinates", "settled")
            return
        on_progress("hosts" if waits.now.absent else "coordinates", str(waits.now))
        if now_us - waits.since_us >= _patience_s(waits.now) * 1e6:
            break
        sleep(LOOK_EVERY_S)
    if waits.now.absent or waits.now.unprobed:
        raise _not_ready(waits.now, logs)


def _claims(store: Store) -> dict[str, int]:
    """Host → the number of its newest process: a process claims its name before anything else."""
    return {name: found.record.number for name, found in store.list(CLAIMS).records.items()}


def _logged(logs: Path) -> dict[str, int]:
    """Spark application → the size of its log, which it begins once Spark runs."""
    return {each.name: each.stat().st_size for each in logs.glob("application-*.log")}


def _patience_s(now: Readiness) -> float:
    """How long to wait for the next of what is missing."""
    if now.absent:
        return REGISTER_PATIENCE_S
    return PROBE_PATIENCE_S if now.unprobed else SETTLE_PATIENCE_S


def _not_ready(now: Readiness, logs: Path) -> Unreachable:
    if now.absent:
        problem = f"{', '.join(now.absent)} did not register"
    else:
        links = [f"{name} → {', '.join(peers)}" for name, peers in now.unprobed.items()]
        problem = f"no latency was measured for {'; '.join(links)}"
    return Unreachable(
        "The cluster",
        "this machine",
        f"is not complete: {problem}, and nothing has come for {_patience_s(now):g} s",
        f"The logs in {logs} say why; a machine short of memory or processors is the usual reason.",
    )
