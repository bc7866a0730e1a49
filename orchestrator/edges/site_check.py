"""What sources and sinks need of their site: looked at before they are applied.

Nothing is opened, and what is made for a trial goes again. Whatever holds at that moment may have
changed when the stream starts; then its host says so, as of any driver that fails.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.http_server import is_served
from orchestrator.edges.listening import Endpoint, read_token

PORT_PATIENCE_S = 1.0
"""How long a port may be in use: a stream that was deleted a moment ago is still being closed."""

LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteCheck:
    """The place where sources and sinks would be opened.

    Attributes
    ----------
    folder
        The site's own; None if it has none.
    """

    folder: Path | None = None
    _ports: dict[Endpoint, tuple[str, bool]] = field(
        default_factory=dict[Endpoint, tuple[str, bool]]
    )
    """Where streams of this check are to listen, and whether over HTTP."""

    def need_folder(self, option: str | None, value: object, purpose: str) -> None:
        """Make sure that the site has a folder that can be written.

        Raises
        ------
        Unusable
            It has none, or cannot write it.
        """
        if self.folder is None:
            raise Unusable(
                option,
                value,
                f"needs a folder of the site for {purpose}",
                "Set `archive` in the site's configuration.",
            )
        if (problem := _unwritable(self.folder)) is not None:
            raise Unusable(
                option,
                value,
                f"needs the site's folder for {purpose}, and {problem}",
                "Mend the folder, or name another one in the site's configuration.",
            )

    def need_writable(self, option: str, path: str) -> None:
        """Make sure that a folder can be written, or made.

        Raises
        ------
        Unusable
            It cannot.
        """
        if (problem := _unwritable(Path(path))) is not None:
            remedy = "Let the site's user write it, or choose another one."
            raise Unusable(option, path, f"cannot be used at the site: {problem}", remedy)

    def need_token(self, path: str | None) -> None:
        """Make sure that the site can read a token, if one is asked for.

        Raises
        ------
        Unusable
            It cannot.
        """
        try:
            read_token(path)
        except DriverError as error:
            remedy = "Put a token of 16 characters or more there, at the site."
            raise Unusable("tokenFile", path, f"cannot be used: {error}", remedy) from None

    def need_port(self, endpoint: Endpoint, stream: str, *, http: bool) -> None:
        """Make sure that a stream can be served at an address.

        Parameters
        ----------
        http
            Streams that are served over HTTP share an address.

        Raises
        ------
        Unusable
            Another process listens there, or another stream of the check would; or the address is
            none of the machine's, or is not allowed.
        """
        if endpoint.port:
            other, shared = self._ports.setdefault(endpoint, (stream, http))
            if other != stream and not (shared and http):
                raise Unusable(
                    "listen",
                    endpoint,
                    f"is where {other} is to listen, and only streams over HTTP share a port",
                    "Choose another port.",
                )
        if not (http and is_served(endpoint)):
            _bind(endpoint)


def _unwritable(folder: Path) -> str | None:
    """Why a folder, or the first one above it that exists, cannot be written; None if it can."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is no folder"
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".vivace-") as file:
            file.write(b"\n")
    except OSError as error:
        return f"{folder} cannot be written ({os.strerror(error.errno or 0)})"
    return None


def _bind(endpoint: Endpoint) -> None:
    """Bind a socket to an address, without listening."""
    until_s = time.monotonic() + PORT_PATIENCE_S
    while True:
        try:
            family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind((endpoint.host, endpoint.port))
            return
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < until_s:
                time.sleep(LOOK_EVERY_S)
                continue
            raise Unusable(
                "listen",
                endpoint,
                f"cannot be listened at ({error.strerror or error})",
                "Choose a port that is free there, or 0 for any.",
            ) from None
