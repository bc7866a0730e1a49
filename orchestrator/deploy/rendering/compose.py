"""`vivace render compose`: a whole cluster in one container, for whoever has Docker at hand.

It is `vivace up` in the image that the chart uses. A machine that is lost takes everything along.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import yaml

from orchestrator.deploy.rendering.folder import (
    Text,
    check_folder,
    left_over,
    manifest_texts,
    write,
)
from orchestrator.manifest import ClusterManifest
from orchestrator.results.rendering import RenderDocument

FILE, FOLDER, DATA = "compose.yaml", "/etc/vivace", "/data"

USER = "10001:10001"
"""As in `deploy/Dockerfile`."""


def render_compose(
    manifest: ClusterManifest, out: Path, *, image: str = "", overwrite: bool = False
) -> RenderDocument:
    """Write the folder.

    Parameters
    ----------
    image
        By default that of this version.

    Raises
    ------
    InvalidInput
        Something given cannot be used; nothing was written.
    """
    check_folder(out, overwrite=overwrite)
    texts = manifest_texts(manifest)
    mounts = [f"./{name}:{FOLDER}/{name}:ro" for name in texts]
    service: dict[str, object] = {
        "image": image or f"vivace:{version('vivace')}",
        "command": [
            *("vivace", "up", "--foreground", "--data", DATA),
            *("-f", f"{FOLDER}/cluster.yaml"),
        ],
        "environment": {"VIVACE_HOME": f"{DATA}/home"},
        "user": USER,
        "read_only": True,
        "tmpfs": ["/tmp"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "volumes": [f"data:{DATA}", *mounts],
        "restart": "unless-stopped",
        # It ends all of its processes, which wait for no turns.
        "stop_signal": "SIGINT",
        "stop_grace_period": "2m",
    }
    document: dict[str, object] = {
        "name": manifest.name,
        "services": {"vivace": service},
        "volumes": {"data": {}},
    }
    texts |= {FILE: Text(yaml.safe_dump(document, sort_keys=False, width=1000))}
    return RenderDocument(
        cluster=manifest.name,
        folder=str(out),
        machines={},
        files=write(out, texts),
        remarks=left_over(out, texts),
    )
