"""Columns of what hosts die with: applications, domains, machines, zones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from orchestrator import api
from orchestrator.cli.render.listing import ListedColumn


class Labelled(Protocol):
    """A host, with its labels."""

    @property
    def kind(self) -> str:
        """`executor` or `site`."""
        ...

    @property
    def labels(self) -> api.FailureLabels:
        """What it dies with."""
        ...


def _several(hosts: Sequence[Labelled], kind: str) -> bool:
    """Whether executors differ in a label."""
    return len({getattr(host.labels, kind) for host in hosts if host.kind == "executor"}) > 1


def _drivers_elsewhere(hosts: Sequence[Labelled]) -> bool:
    """Whether some application's driver is on another machine than one of its executors."""
    return any(host.labels.driver not in ("", host.labels.machine) for host in hosts)


def _column(kind: str) -> tuple[ListedColumn[Labelled], ...]:
    def cell(host: Labelled) -> str:
        return getattr(host.labels, kind)

    def only_wide(hosts: Sequence[Labelled]) -> bool:
        return not _several(hosts, kind) and any(map(cell, hosts))

    if kind == "driver":
        driver = ListedColumn[Labelled](
            title=kind, cell=cell, when=_drivers_elsewhere, is_wide=True
        )
        return (driver,)
    return (
        ListedColumn(title=kind, cell=cell, when=lambda hosts: _several(hosts, kind)),
        ListedColumn(title=kind, cell=cell, when=only_wide, is_wide=True),
    )


LABEL_COLUMNS: tuple[ListedColumn[Any], ...] = tuple(
    column for kind in api.FailureLabels.__struct_fields__ for column in _column(kind)
)
"""Shown where executors differ in a label; where more is asked for, wherever a host has one."""
