"""Names of Services and pods: a DNS server on the rig's gateway.

Any Service stands for the addresses of its pods, as a headless one does: the rig has no addresses
that are translated.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from tests.platform.api import is_ready
from tests.platform.kinds import NOTHING, POD, SERVICE, Object
from tests.platform.objects import Objects
from tests.platform.selectors import chosen

DOMAIN = "cluster.local"

API = f"kubernetes.default.svc.{DOMAIN}"
"""The name of the API itself."""

TTL_S = 1
LOOK_S = 0.3
NO_SUCH_NAME = 3
A, IN = 1, 1


class Names:
    """Responds to questions for addresses until it is closed."""

    def __init__(self, objects: Objects, address: str) -> None:
        self._objects = objects
        self._api = address
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, 53))
        self._socket.settimeout(LOOK_S)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._ending.is_set():
            with suppress(OSError):
                question, sender = self._socket.recvfrom(4096)
                self._socket.sendto(self._response(question), sender)

    def _response(self, question: bytes) -> bytes:
        at, labels = 12, list[str]()
        while length := question[at]:
            labels.append(question[at + 1 : at + 1 + length].decode())
            at += length + 1
        end = at + 5
        (kind,) = struct.unpack("!H", question[at + 1 : at + 3])
        addresses = self.lookup(".".join(labels).lower())
        found = (addresses or []) if kind == A else []
        flags = 0x8580 | (NO_SUCH_NAME if addresses is None else 0)
        header = question[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
        records = b"".join(
            struct.pack("!HHHIH", 0xC00C, A, IN, TTL_S, 4) + socket.inet_aton(each)
            for each in found
        )
        return header + question[12:end] + records

    def lookup(self, name: str) -> list[str] | None:
        """The addresses of a full name; None if there is no such name."""
        if name == API:
            return [self._api]
        steps = name.removesuffix(f".svc.{DOMAIN}").split(".")
        if not name.endswith(f".svc.{DOMAIN}") or len(steps) not in (2, 3):
            return None
        host = steps[0] if len(steps) == 3 else ""
        service = self._objects.find(SERVICE, steps[-1], steps[-2])
        if service is None:
            return None
        addresses = [
            pod["status"]["podIP"]
            for pod in self._pods(service)
            if not host or host_of(pod) == (host, steps[1])
        ]
        return addresses if addresses or not host else None

    def _pods(self, service: Object) -> list[Object]:
        selector = {"matchLabels": service["spec"].get("selector") or {"": ""}}
        unready = service["spec"].get("publishNotReadyAddresses", False)
        return [
            pod
            for pod in self._objects.list(POD, service["metadata"]["namespace"])
            if chosen(pod["metadata"].get("labels") or NOTHING, selector)
            and (pod.get("status") or NOTHING).get("podIP")
            and (unready or is_ready(pod))
        ]


def host_of(pod: Object) -> tuple[str | None, str | None]:
    """A pod's own name, and the Service that it has it of."""
    return pod["spec"].get("hostname"), pod["spec"].get("subdomain")
