"""Containers of the image, run by crun as an unknown user, with a read-only root and no rights.

They share this machine's network. Volumes are empty folders; nothing else can be written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from orchestrator.embedded.child_process import ChildProcess

USER = 12345

_run = """\
mount -t cgroup2 none /sys/fs/cgroup &&
exec crun --cgroup-manager=disabled --root "$1/state" run --bundle "$1" "$2"
"""
"""crun refuses hybrid hierarchies of cgroups; it makes none here."""


def _bundle(
    root: Path, name: str, command: tuple[str, ...], environment: Mapping[str, str],
    mounts: Mapping[str, tuple[Path, bool]],
) -> dict[str, object]:  # fmt: skip
    """OCI's description of a container.

    Parameters
    ----------
    mounts
        Path inside → folder or file, and whether it may be written.
    """
    binds = [
        {
            "destination": inside, "type": "bind", "source": str(path),
            "options": ["bind", "nosuid", "nodev", "rw" if writable else "ro"],
        }
        for inside, (path, writable) in mounts.items()
    ]  # fmt: skip
    none: dict[str, list[str]] = {
        kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
    }
    return {
        "ociVersion": "1.0.2",
        "hostname": name,
        "process": {
            "terminal": False,
            "user": {"uid": USER, "gid": USER},
            "args": ["/usr/bin/tini", "--", "vivace-container", *command],
            "env": [f"{key}={value}" for key, value in environment.items()],
            "cwd": "/data",
            "noNewPrivileges": True,
            "capabilities": none,
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {
                "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "mode=755"],
            },
            {
                "destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "nodev", "mode=1777"],
            },
            *binds,
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "uts", "ipc")]},
    }  # fmt: skip


def volume(folder: Path) -> Path:
    """An empty folder that the user of a container may write to."""
    folder.mkdir(parents=True)
    os.chown(folder, USER, USER)
    return folder


def run(
    work: Path, root: Path, name: str, command: tuple[str, ...], environment: Mapping[str, str],
    mounts: Mapping[str, tuple[Path, bool]],
) -> ChildProcess:  # fmt: skip
    """Run a container until the process is stopped; its log is `NAME.log`."""
    bundle = work / f"bundle-{name}"
    bundle.mkdir()
    hosts = bundle / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {name}\n")
    described = _bundle(root, name, command, environment, {**mounts, "/etc/hosts": (hosts, False)})
    (bundle / "config.json").write_text(json.dumps(described))
    inside = ("unshare", "--mount", "sh", "-c", _run, "sh", str(bundle), name)
    return ChildProcess([*inside], log=work / f"{name}.log", env=dict(os.environ))
