"""`vivace render standalone`: a folder for each machine of a Spark standalone cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.deploy.rendering.folder import SECRET, Text, check_folder, left_over, write
from orchestrator.deploy.rendering.machine_files import (
    CLUSTER_SECRET,
    QUORUM,
    SPARK_SECRET,
    TOKEN,
    MachinePaths,
    Standalone,
)
from orchestrator.deploy.rendering.machines import MachineLayout, laid_out, read_machines
from orchestrator.embedded.zookeeper import CREDENTIALS
from orchestrator.folders import read_text
from orchestrator.manifest import ClusterManifest
from orchestrator.results.rendering import RenderDocument

SECRET_BYTES = 32


def render_standalone(
    manifest: ClusterManifest,
    machines: Sequence[str],
    out: Path,
    *,
    placed: Sequence[str] = (),
    paths: MachinePaths | None = None,
    overwrite: bool = False,
) -> RenderDocument:
    """Write a folder for each machine.

    Secrets are drawn, unless the folder has some already.

    Parameters
    ----------
    machines, placed
        As `read_machines` and `laid_out` take them.
    overwrite
        Whether the folder may have something in it.

    Raises
    ------
    InvalidInput
        Something given cannot be used; nothing was written.
    """
    layout = laid_out(manifest, read_machines(machines), placed)
    paths = paths or MachinePaths()
    paths.check()
    cluster = Standalone(manifest=manifest, layout=layout, paths=paths)
    check_folder(out, overwrite=overwrite)
    drawn = _secrets(out, layout)
    texts = {
        f"{machine.name}/{path}": text
        for machine in layout.machines
        for path, text in (
            *cluster.texts(machine),
            *((f"secrets/{n}", Text(drawn[n], SECRET)) for n in cluster.secrets_of(machine)),
        )
    }
    written = write(out, texts)
    return RenderDocument(
        cluster=manifest.name,
        folder=str(out),
        machines={
            machine.name: tuple(each.name for each in cluster.processes(machine))
            for machine in layout.machines
        },
        files=written,
        remarks=(*_remarks(layout), *left_over(out, texts)),
    )


def _secrets(out: Path, layout: MachineLayout) -> dict[str, str]:
    """Those that a machine's folder has already, and drawn ones for the rest."""
    quorum = CREDENTIALS.format(secret=secrets.token_urlsafe(SECRET_BYTES))
    drawn = {
        name: secrets.token_urlsafe(SECRET_BYTES) + "\n"
        for name in (CLUSTER_SECRET, SPARK_SECRET, TOKEN)
    } | {QUORUM: quorum}
    for machine in reversed(layout.machines):
        for name in drawn:
            if (file := out / machine.name / "secrets" / name).exists():
                drawn[name] = read_text(file)
    return drawn


def _remarks(layout: MachineLayout) -> Iterator[str]:
    if len(layout.servers) in (1, 2):
        yield (
            "With one or two servers of ZooKeeper, nothing can be planned or healed once one is "
            "lost: write zookeeper: {servers: 3} into the manifest, and name three machines."
        )
    if len(layout.machines) == 1:
        yield "With one machine, nothing survives its loss."
