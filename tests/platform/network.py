"""Addresses of pods: each pod has a network namespace with an address of its own on one bridge.

Making namespaces takes root. Where that is not permitted, pods share this machine's network, and
each has another address of the loopback network; they are told apart by these only, and no names
of Services exist there.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

TOOLS = ("ip", "unshare", "nsenter", "mount", "chroot", "setpriv")

PREFIX = "vvrig"
"""Of the names of bridges and namespaces; a process's number follows, and one of its networks."""

_serials = itertools.count()

MOST_PODS = 60_000


class Network:
    """A network for the pods of one rig.

    Attributes
    ----------
    isolated
        Whether pods have namespaces of their own.
    gateway
        This machine's address there.

    Parameters
    ----------
    number
        The second part of all addresses; by default one of 40 to 239.
    """

    def __init__(self, *, isolated: bool, number: int | None = None) -> None:
        self.isolated = isolated
        serial = next(_serials)
        self._number = (os.getpid() + 7 * serial) % 200 + 40 if number is None else number
        first = "10" if isolated else "127"
        self._prefix = f"{first}.{self._number}"
        self._used = 1
        self._namespaces = dict[str, str]()
        self.gateway = f"{self._prefix}.255.254" if isolated else "127.0.0.1"
        self._bridge = f"{PREFIX}{os.getpid()}-{serial}"
        self._made = 0
        if isolated:
            _remove_abandoned()
            ip("link", "add", self._bridge, "type", "bridge")
            ip("addr", "add", f"{self.gateway}/16", "dev", self._bridge)
            ip("link", "set", self._bridge, "up")

    def address(self) -> str:
        """An address that no pod has had."""
        self._used += 1
        assert self._used < MOST_PODS, "no more addresses"
        return f"{self._prefix}.{self._used // 250}.{self._used % 250 + 2}"

    def join(self, address: str) -> str:
        """Make a pod's namespace, with its address; its name. Empty: there is none."""
        if not self.isolated:
            return ""
        self._made += 1
        name = f"{self._bridge}-{self._made}"
        outer = f"vr{self._number}-{self._made}"
        ip("netns", "add", name)
        self._namespaces[address] = name
        ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", outer, "master", self._bridge, "up")
        ip("-n", name, "addr", "add", f"{address}/16", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", name, "link", "set", device, "up")
        return name

    def namespace(self, address: str) -> str | None:
        """The namespace of a pod that has an address; None: there is none."""
        return self._namespaces.get(address)

    def leave(self, address: str) -> None:
        """Remove a pod's namespace, and its link with it."""
        if (namespace := self._namespaces.pop(address, None)) is not None:
            ip("netns", "del", namespace)

    def close(self) -> None:
        for address in list(self._namespaces):
            self.leave(address)
        if self.isolated:
            ip("link", "del", self._bridge)


def _remove_abandoned() -> None:
    """Remove what rigs have left whose processes were killed."""

    def abandoned(name: str) -> bool:
        owner = name.removeprefix(PREFIX).partition("-")[0]
        return name.startswith(PREFIX) and not Path(f"/proc/{owner}").exists()

    folder = Path("/run/netns")
    for name in [path.name for path in folder.iterdir()] if folder.is_dir() else ():
        if abandoned(name):
            ip("netns", "del", name)
    for name in [path.name for path in Path("/sys/class/net").iterdir()]:
        if abandoned(name):
            ip("link", "del", name)


@contextmanager
def network(*, isolated: bool, number: int | None = None) -> Generator[Network]:
    """A network for the time of a block."""
    made = Network(isolated=isolated, number=number)
    try:
        yield made
    finally:
        made.close()


@cache
def may_isolate() -> bool:
    """Whether namespaces of networks, mounts and processes can be made here."""
    if os.geteuid() or any(shutil.which(tool) is None for tool in TOOLS):
        return False
    probe = f"vvprobe{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], check=False, capture_output=True).returncode:
        return False
    ip("netns", "del", probe)
    script = "mount -t tmpfs t /mnt && mkdir /mnt/u /mnt/w /mnt/r && mount -t overlay o -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r"  # noqa: E501
    tried = ["unshare", "--mount", "--uts", "--pid", "--fork", "sh", "-c", script]
    return not subprocess.run(tried, check=False, capture_output=True).returncode


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
