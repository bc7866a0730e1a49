"""Machines with systemd, as namespaces of this one: each has files, users, services, an address and
a host name of its own, and this machine's programs.

Their roots are overlays: what happens there is gone with them. They take `systemd`, and `sshd`
for whoever brings files there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.packages import source_root
from tests.conftest import PATIENCE_S
from tests.platform.containers import DEVICES, this_machine
from tests.platform.network import Network

NEEDED = ("systemd", "systemctl", "ssh", "sshd", "ssh-keygen", "rsync")

GROUPS = Path("/sys/fs/cgroup/unified")
"""Where this machine has control groups of the second version, which systemd takes."""

SEARCHED = "/opt/vivace/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_boot = """\
set -e
fs={fs}
mkdir -p $fs
mount -t tmpfs machine $fs
mkdir $fs/upper $fs/work $fs/root
mount -t overlay machine -o lowerdir=/,upperdir=$fs/upper,workdir=$fs/work $fs/root
root=$fs/root
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -t cgroup2 groups $root/sys/fs/cgroup
for each in run tmp; do mount -t tmpfs -o mode=1777 machine $root/$each; done
chmod 755 $root/run
mount -t tmpfs -o mode=755 machine $root/dev
for device in {devices}; do
    touch $root/dev/$device
    mount --bind /dev/$device $root/dev/$device
done
mkdir $root/dev/shm $root/dev/pts
ln -s /proc/self/fd $root/dev/fd
touch $root/dev/console
for path in {reachable}; do
    mkdir -p $root$path
    mount --rbind $path $root$path
done
chmod a+rx {opened}
mkdir -p $root/opt/vivace
mount --rbind {environment} $root/opt/vivace
install -D -m 600 {key}.pub $root/root/.ssh/authorized_keys
install -m 600 {key} $root/etc/ssh/ssh_host_ed25519_key
rm -f $root/etc/systemd/system/multi-user.target.wants/*
echo {name} > $root/etc/hostname
hostname {name}
exec chroot $root env -i container=test PATH={searched} \\
    /usr/lib/systemd/systemd --system --unit=ssh.service --show-status=false
"""


def lacking() -> str:
    """What this machine has not got of what they take; empty: nothing."""
    found = [each for each in NEEDED if shutil.which(each) is None]
    if not GROUPS.is_dir():
        found.append(f"control groups at {GROUPS}")
    return ", ".join(found)


@dataclass(frozen=True, slots=True)
class BootedMachine:
    """A machine."""

    name: str
    address: str
    process: ChildProcess

    @property
    def first_pid(self) -> int | None:
        """Its systemd, by its number on this machine."""
        with suppress(psutil.Error):
            for each in psutil.Process(self.process.pid).children(recursive=True):
                if each.cmdline()[:1] == ["/usr/lib/systemd/systemd"]:
                    return each.pid
        return None

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run lines of a shell there, as root; what they printed."""
        inside = ("nsenter", "--target", str(self.first_pid), "--all", "--root", "--wd")
        own = ("env", "-i", f"PATH={SEARCHED}", "HOME=/root")
        return subprocess.run(
            [*inside, *own, "sh", "-eux", "-c", f"cd\n{text}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def await_boot(self) -> None:
        """Wait until its services can be told something."""
        until = time.monotonic() + PATIENCE_S
        while self.first_pid is None or self.run("systemctl is-active ssh").returncode:
            assert time.monotonic() < until, f"{self.name} does not boot"
            time.sleep(0.5)


@contextmanager
def booted_machines(
    net: Network, folder: Path, addresses: Mapping[str, str], key: Path
) -> Generator[dict[str, BootedMachine]]:
    """Machines for the time of a block.

    Parameters
    ----------
    addresses
        Name → address.
    key
        Of SSH: of whoever may log in as root, and of the machines.
    """
    groups = GROUPS / f"vivace-{folder.name}"
    reachable = [path for path in this_machine(source_root()) if path.is_relative_to("/tmp")]
    with ExitStack() as stack:
        found: dict[str, BootedMachine] = {}
        for name, address in addresses.items():
            namespace = net.join(address)
            fs = folder / f"{name}.fs"
            opened = {*(p for r in this_machine(source_root()) for p in (r, *r.parents))}
            script = folder / f"{name}.sh"
            script.write_text(
                _boot.format(
                    fs=fs, devices=" ".join(DEVICES), key=key, name=name, searched=SEARCHED,
                    reachable=" ".join(map(str, reachable)), environment=sys.prefix,
                    opened=" ".join(f"{fs}/root{path}" for path in sorted(opened)),
                )
            )  # fmt: skip
            own = groups / name
            own.mkdir(parents=True)
            stack.callback(_remove, own)
            enter = f'echo $$ > {own}/cgroup.procs; exec "$@"'
            apart = ("--mount", "--uts", "--ipc", "--pid", "--cgroup", "--fork", "--kill-child")
            inside = ("ip", "netns", "exec", namespace, "unshare", *apart)
            process = ChildProcess(
                ["sh", "-c", enter, "sh", *inside, "sh", str(script)], log=folder / f"{name}.log"
            )
            stack.callback(process.kill)
            found[name] = BootedMachine(name, address, process)
        for machine in found.values():
            machine.await_boot()
        yield found
    _remove(groups)


def _remove(group: Path) -> None:
    """Remove a control group, with all below it, once its processes have ended."""
    until = time.monotonic() + PATIENCE_S
    while group.exists():
        below = [path for path in group.rglob("*") if path.is_dir()]
        for each in (*sorted(below, reverse=True), group):
            with suppress(OSError):
                each.rmdir()
        assert time.monotonic() < until, f"{group} is not empty"
        time.sleep(0.1)
