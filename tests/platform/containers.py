"""A container: processes with their own view of files, processes, network and host name.

Its root is an overlay over this machine's own files, which stand for its image: what it writes
outside its volumes is seen by itself alone, and is gone with it. The first process is the command,
as process 1: the kernel ignores signals that it has no handler for.

Where namespaces cannot be made, a container is a process with this machine's own files. The paths
at which it would find volumes are replaced, in its command and its environment, by their folders.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from orchestrator.embedded.child_process import ChildProcess
from tests.platform.kinds import NOTHING, Object
from tests.platform.pod_files import Mount, PodFiles, Surroundings, expand

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

MOST_MESSAGE = 4096

BEGINS_S, LOOK_S = 20.0, 0.1
"""How long a container's first process may take to begin, and how often that is looked at."""

_begin = """\
set -e
fs={fs}
mkdir -p $fs
mount -t tmpfs rig $fs
mkdir $fs/upper $fs/work $fs/root
mount -t overlay rig -o lowerdir=/,upperdir=$fs/upper,workdir=$fs/work $fs/root
root=$fs/root
mount -t proc proc $root/proc
mount --rbind /sys $root/sys
mount -t tmpfs -o mode=1777 rig $root/tmp
mount -t tmpfs rig $root/dev
for device in {devices}; do
    touch $root/dev/$device
    mount --bind /dev/$device $root/dev/$device
done
ln -s /proc/self/fd $root/dev/fd
mkdir -m 1777 $root/dev/shm
getent passwd {user} >/dev/null || echo 'image:x:{user}:0::/tmp:/bin/sh' >> $root/etc/passwd
rm -f $root/etc/resolv.conf $root/etc/hosts
printf '%s' {resolve} > $root/etc/resolv.conf
printf '%s' {hosts} > $root/etc/hosts
hostname {name}
"""


class Container:
    """One container of a pod, in one life.

    Parameters
    ----------
    namespace
        Of the pod's network; empty: there is none.
    """

    def __init__(
        self, around: Surroundings, files: PodFiles, pod: Object, spec: Object, namespace: str
    ) -> None:
        self._around = around
        self._pod = pod
        self._spec = spec
        self._namespace = namespace
        self.name: str = spec["name"]
        self.log = files.folder / "logs" / f"{self.name}.log"
        self.log.parent.mkdir(exist_ok=True)
        self._message = files.folder / f"{self.name}.message"
        self._message.write_bytes(b"")
        self._message.chmod(0o666)
        self._mounts = files.mounts(spec)
        self._environment = files.environment(spec)
        self._script = files.folder / f"{self.name}.sh"
        self._fs = files.folder / f"{self.name}.fs"
        self._process = self._start()

    def poll(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._process.poll()

    def terminate(self) -> None:
        """Ask its first process to end."""
        with contextlib.suppress(ProcessLookupError):
            if (first := self.first_pid) is not None:
                os.kill(first, signal.SIGTERM)

    def kill(self) -> None:
        """End all of its processes."""
        self._process.kill()

    def run(self, command: Sequence[str], timeout_s: float) -> int:
        """Run a command inside; its exit status. One that lasts too long is killed."""
        if (first := self.first_pid) is None:
            return 1
        with self.log.open("ab") as log, contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                self._inside(first, command),
                env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                check=False, timeout=timeout_s,
            ).returncode  # fmt: skip
        return 124

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command inside, whose streams are the caller's, once it is there."""
        until = time.monotonic() + BEGINS_S
        while (first := self.first_pid) is None or not self._has_entered(first):
            assert time.monotonic() < until, f"{self.name} has not begun"
            time.sleep(LOOK_S)
        return subprocess.Popen(
            self._inside(first, command),
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _has_entered(self, first: int) -> bool:
        """Whether its first process has the container's own files."""
        with contextlib.suppress(OSError):
            return not self._namespace or str(Path(f"/proc/{first}/root").readlink()) != "/"
        return False

    def _inside(self, first: int, command: Sequence[str]) -> list[str]:
        inside: list[str] = []
        if self._namespace:
            inside = ["nsenter", "--target", str(first), "--all", "--root", "--wd"]
            inside += [*self._as_user(), "--"]
        return [*inside, *self._replaced(command)]

    @property
    def first_pid(self) -> int | None:
        """Its first process, by its number on this machine."""
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(self._process.pid).children()
            if self._namespace:
                below = [child for each in below for child in each.children()]
            return below[0].pid if below else None
        return None

    @property
    def message(self) -> str:
        """What it has left as the message of its end."""
        return self._message.read_text("utf-8", errors="replace")[-MOST_MESSAGE:]

    def _start(self) -> ChildProcess:
        entry_point = self._spec.get("command") or list(self._around.entry_point)
        command = [
            expand(part, self._environment)
            for part in [*entry_point, *(self._spec.get("args") or ())]
        ]
        folder = self._spec.get("workingDir") or "/"
        if not self._namespace:
            self._environment = {
                name: self._replaced([value])[0] for name, value in self._environment.items()
            }
            return ChildProcess(self._replaced(command), log=self.log, env=self._environment)
        self._script.write_text(self._enter(command, folder), "utf-8")
        outside = ["ip", "netns", "exec", self._namespace]
        apart = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        full = [*outside, "unshare", *apart, "sh", str(self._script)]
        return ChildProcess(full, log=self.log, env=self._environment)

    def _enter(self, command: Sequence[str], folder: str) -> str:
        """The script that makes the container's view, and becomes its command."""
        spec = self._pod["spec"]
        host = spec.get("hostname") or self._pod["metadata"]["name"]
        lines = [
            _begin.format(
                fs=shlex.quote(str(self._fs)),
                devices=" ".join(DEVICES),
                resolve=shlex.quote(self._resolve()),
                hosts=shlex.quote(f"127.0.0.1 localhost\n{self._pod['status']['podIP']} {host}\n"),
                name=shlex.quote(host),
                user=self._around.user,
            )
        ]
        lines += [_bound(mount) for mount in self._mounts]
        # After the volumes: one of them may be at /tmp, and this machine's folders below it.
        root_device = Path("/").stat().st_dev
        for path in self._around.reachable:
            if path.stat().st_dev != root_device or path.is_relative_to("/tmp"):
                lines.append(_bound(Mount(path, str(path))))
            if self._user != 0:
                lines += [f"chmod a+rx $root{shlex.quote(str(p))}" for p in (path, *path.parents)]
        lines.append(_bound(Mount(self._message, self._spec["terminationMessagePath"])))
        if (self._spec.get("securityContext") or NOTHING).get("readOnlyRootFilesystem"):
            lines.append("mount -o remount,ro $root")
            if not any(mount.path == "/tmp" for mount in self._mounts):
                lines.append("mount -o remount,ro $root/tmp")
        change = 'cd "$0" && exec "$@"'
        inside = ["sh", "-c", change, folder, *command]
        user = self._as_user()
        lines.append(f"exec chroot $root {shlex.join([*user, *inside])}")
        return "\n".join(lines) + "\n"

    def _as_user(self) -> list[str]:
        """The command before another that has it run as the container's user."""
        own = self._spec.get("securityContext") or NOTHING
        pod = self._pod["spec"].get("securityContext") or NOTHING
        options: list[str] = []
        if self._user:
            group = own.get("runAsGroup", pod.get("runAsGroup", 0))
            options += ["--reuid", str(self._user), "--regid", str(group)]
            extra = pod.get("fsGroup")
            options += ["--clear-groups"] if extra is None else ["--groups", str(extra)]
        if own.get("allowPrivilegeEscalation") is False:
            options.append("--no-new-privs")
        if "ALL" in ((own.get("capabilities") or NOTHING).get("drop") or ()):
            options += ["--bounding-set=-all", "--inh-caps=-all"]
        return ["setpriv", *options] if options else []

    @property
    def _user(self) -> int:
        own = self._spec.get("securityContext") or NOTHING
        pod = self._pod["spec"].get("securityContext") or NOTHING
        user = own.get("runAsUser", pod.get("runAsUser"))
        if user is not None:
            return user
        return self._around.user if own.get("runAsNonRoot", pod.get("runAsNonRoot")) else 0

    def _resolve(self) -> str:
        place = f"{self._pod['metadata']['namespace']}.svc.cluster.local"
        search = f"search {place} svc.cluster.local cluster.local"
        return f"nameserver {self._around.api[0]}\n{search}\noptions ndots:5 timeout:2\n"

    def _replaced(self, command: Sequence[str]) -> list[str]:
        """Texts that name folders of this machine, where the container has no own view of files."""
        if self._namespace:
            return list(command)
        replaced: list[str] = []
        for text in command:
            for mount in sorted(self._mounts, key=lambda each: -len(each.path)):
                whole = rf"(?<![\w./-]){re.escape(mount.path)}(?![\w.-])"
                text = re.sub(whole, lambda _, mount=mount: str(mount.source), text)
            replaced.append(text)
        return replaced


def _bound(mount: Mount) -> str:
    """Commands that put a mount below `$root`."""
    make = 'mkdir -p "$(dirname "$0")" && touch "$0"' if mount.source.is_file() else 'mkdir -p "$0"'
    # As the container sees it: a part of the path may be a link.
    seen = f"$(chroot $root sh -c '{make} && readlink -f \"$0\"' {shlex.quote(mount.path)})"
    lines = [f"at=$root{seen}", f'mount --rbind {shlex.quote(str(mount.source))} "$at"']
    if mount.read_only:
        lines.append('mount -o remount,ro,bind "$at"')
    return "\n".join(lines)


def this_machine(root: Path, *more: Path) -> tuple[Path, ...]:
    """Folders that hold this Python and the product."""
    found = {root, Path(sys.prefix), Path(sys.base_prefix), *more}
    return tuple(sorted(path.resolve() for path in found))
