"""Whether another version may run beside those that make up a cluster, and a roll may begin now.

The cluster says what runs; the version that is to come judges. So the rules are those of the newer
of the two, which knows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrator.records.spec import ClusterRecord
from orchestrator.records.versions import Versions
from orchestrator.results.result import Result
from orchestrator.results.status import StatusDocument
from orchestrator.results.whatif import WhatIfDocument

AGREED = {
    "heartbeat_ms": "heartbeat",
    "suspect_after_ms": "suspectAfter",
    "cpu": "cpu",
    "emulate_costs": "emulateCosts",
}
"""Settings that hosts read when they start and must have in common → their field in the manifest.

Hosts that disagree would suspect each other too early, or place themselves by different axes. All
other settings may change while processes are replaced."""


class RunningProcess(Result, frozen=True, kw_only=True):
    """A process of a cluster; `kind` is `coordinator`, `web`, `executor`, `site` or `observer`."""

    name: str
    kind: str
    versions: Versions


class NeedingRecord(Result, frozen=True, kw_only=True):
    """A record that the first version's readers leave alone.

    Attributes
    ----------
    path
        Where it lies in the store.
    needs
        Which records a version must read to act on it.
    wanted
        Whether people wrote it, and not the leader, which writes it anew for older readers.
    """

    path: str
    needs: int
    wanted: bool


class VersionsDocument(Result, frozen=True, kw_only=True):
    """What the processes of a cluster understand, and what they have in common.

    Attributes
    ----------
    settings
        As they run.
    needing
        Records that not every version reads.
    """

    processes: tuple[RunningProcess, ...]
    settings: ClusterRecord
    needing: tuple[NeedingRecord, ...] = ()


class RollObstacle(Result, frozen=True, kw_only=True):
    """Why a roll must not begin now.

    Attributes
    ----------
    subject
        A process, a setting, a fragment or an application.
    why, remedy
        A sentence each.
    """

    subject: str
    why: str
    remedy: str


class PreflightDocument(Result, frozen=True, kw_only=True):
    """What stands against replacing a cluster's processes by those of this version, one by one.

    Attributes
    ----------
    version
        Of the command that asks.
    processes
        Those that run.
    obstacles
        Empty: nothing does.
    """

    version: Versions
    processes: tuple[RunningProcess, ...]
    obstacles: tuple[RollObstacle, ...]


def obstacles(
    version: Versions,
    running: VersionsDocument,
    status: StatusDocument,
    losses: WhatIfDocument,
    settings: ClusterRecord | None,
) -> Iterator[RollObstacle]:
    """What stands against a roll.

    Parameters
    ----------
    version
        That is to come.
    running, status, losses
        What runs, how well it is protected, and what each loss would do.
    settings
        Those that are to come; None: the same.
    """
    for each in running.processes:
        if (obstacle := version.obstacle(each.versions)) is not None:
            yield RollObstacle(
                subject=each.name,
                why=f"{each.kind} {each.name} is of another version: {obstacle}",
                remedy="Roll to a version in between first.",
            )
    yield from _unreadable(version, running.needing)
    if settings is not None:
        yield from _disagreements(running.settings, settings)
    for fragment in status.fragments:
        if not (fragment.redundant or fragment.paused):
            yield RollObstacle(
                subject=fragment.name,
                why=f"fragment {fragment.name} is not protected: a roll would lose its state",
                remedy="Wait until `vivace status` shows it protected, or do what it says.",
            )
    applications = [loss for loss in losses.losses if loss.kind == "application"]
    for loss in applications:
        lost = [*loss.states_lost, *loss.restored, *loss.streams, *loss.outputs, *loss.breaks]
        lost += [f"{fragment}: {why}" for fragment, why in loss.unhealed.items()]
        if lost:
            yield RollObstacle(
                subject=loss.name,
                why=f"there is no room while application {loss.name} is replaced: {lost[0]}"
                + (f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""),
                remedy="Add a node, or let fewer queries run, until the roll is over.",
            )


def _unreadable(version: Versions, needing: Iterable[NeedingRecord]) -> Iterator[RollObstacle]:
    """Records that the version that is to come would leave alone: it is an older one."""
    for each in needing:
        if each.needs > version.records:
            yield RollObstacle(
                subject=each.path,
                why=f"record {each.path} needs a version that reads records {each.needs}, and this "
                f"one reads {version.records}",
                remedy="Delete what it describes, or apply it without what this version lacks."
                if each.wanted
                else "Replace a host first and the coordinators last: while a process of this "
                "version runs, a newer leader writes what it reads.",
            )


def _disagreements(running: ClusterRecord, coming: ClusterRecord) -> Iterator[RollObstacle]:
    for name, field in AGREED.items():
        before, after = getattr(running, name), getattr(coming, name)
        if before != after:
            yield RollObstacle(
                subject=field,
                why=f"setting {field} changes from {before} to {after}, and hosts must agree on it",
                remedy="Leave it as it is during the roll. To change it, end the cluster with "
                "`vivace down` and start it anew.",
            )
