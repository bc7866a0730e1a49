"""Probes of containers: over HTTP, by a connection, or by a command inside."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable

from tests.platform.containers import Container
from tests.platform.kinds import Object

LEAST_S = 0.2


class Probe:
    """Asks again and again, until it is stopped or `passed` has what it wanted.

    Parameters
    ----------
    changed
        Told whether the probe passes, whenever that is another than before.
    """

    def __init__(
        self, spec: Object, container: Container, ports: dict[str, int], address: str,
        changed: Callable[[bool], None],
    ) -> None:  # fmt: skip
        self._spec = spec
        self._container = container
        self._ports = ports
        self._address = address
        self._changed = changed
        self._stopping = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        spec = self._spec
        began = time.monotonic()
        while time.monotonic() - began < spec.get("initialDelaySeconds", 0):
            if self._stopping.wait(LEAST_S):
                return
        passed, failed = 0, 0
        period = max(LEAST_S, spec["periodSeconds"])
        while True:
            if self._passes():
                passed, failed = passed + 1, 0
            else:
                passed, failed = 0, failed + 1
            if self._stopping.is_set():
                return
            if passed == spec["successThreshold"]:
                self._changed(True)
            elif failed == spec["failureThreshold"]:
                self._changed(False)
            if self._stopping.wait(period):
                return

    def _passes(self) -> bool:
        spec, timeout = self._spec, self._spec["timeoutSeconds"]
        if "exec" in spec:
            return self._container.run(spec["exec"]["command"], timeout) == 0
        where = spec.get("httpGet") or spec["tcpSocket"]
        port = where["port"]
        host, number = where.get("host") or self._address, self._ports.get(str(port), port)
        try:
            if "tcpSocket" in spec:
                socket.create_connection((host, number), timeout).close()
                return True
            connection = http.client.HTTPConnection(host, number, timeout=timeout)
            try:
                connection.request("GET", where["path"])
                return 200 <= connection.getresponse().status < 400
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False
