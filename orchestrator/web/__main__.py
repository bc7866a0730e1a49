"""The process of the HTTP API: `python -m orchestrator.web --config FILE`.

It serves until SIGTERM. Requests that are under way then have two seconds; long operations are
abandoned, and whoever follows them is told. A token or a certificate whose file is written anew
takes the place of the former one within a second, because platforms rotate them.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

import uvicorn
from litestar import Litestar

from orchestrator.api.connection import Cluster
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.entry_point import LOOK_EVERY_S, Waiting, leave, run
from orchestrator.edges.listening import Endpoint, parse_endpoint
from orchestrator.errors import InvalidInput, Unreachable
from orchestrator.folders import read_text
from orchestrator.health import Health
from orchestrator.store.cached import ATTEND_S, CachedStore
from orchestrator.web.access import Access
from orchestrator.web.application import Application
from orchestrator.web.connections import BoundedConnection
from orchestrator.web.service import Service

END_S = 2
"""Time for requests that are under way."""

START_S = 30.0

READY_AGE_S = 5.0
"""The process is ready while what it tells is not older."""

LEAST_TOKEN = 16

Written = tuple[tuple[int, int] | None, ...]

_log = logging.getLogger("vivace.web")


def serve(config: ProcessConfig, ended: Callable[[], bool], health: Health) -> None:
    """Serve the API until `ended` says so.

    Raises
    ------
    InvalidInput
        The address, the token or the certificate cannot be used.
    Unreachable
        The address is taken.
    Ended
        `ended` said so before ZooKeeper was there.
    """
    endpoint = _endpoint(config)
    written = _written(config)
    own = _token(config)
    _check_certificate(config)
    with closing(CachedStore(Waiting(ended, health).open_store(config))) as view:
        view.attend()
        service = Service(Cluster(config, view), view, str(endpoint))
        access = Access(own, service.now_us)
        with closing(service):
            application = Application(service, access, health, config.cors_allow)
            server = _Server(application.asgi, endpoint, config)
            service.long.start()
            server.start()
            try:
                renewal = _Renewal(config, access, server, written)
                _attend(view, health, server, renewal, ended)
            finally:
                server.stop()


def _attend(
    view: CachedStore, health: Health, server: _Server, renewal: _Renewal, ended: Callable[[], bool]
) -> None:
    """Keep what is known fresh, until the process is to end."""
    next_s = time.monotonic()
    while not ended():
        if not server.runs:
            raise Unreachable("The API", server.address, "serves no more", "Its log says why.")
        if time.monotonic() >= next_s:
            view.attend()
            renewal.look()
            health.turned(ready=server.turns() and view.age_s < READY_AGE_S)
            next_s = time.monotonic() + ATTEND_S
        time.sleep(LOOK_EVERY_S)


class _Renewal:
    """Takes up the token and the certificate anew once their files are others.

    Parameters
    ----------
    written
        The files as they were read.
    """

    def __init__(
        self, config: ProcessConfig, access: Access, server: _Server, written: Written
    ) -> None:
        self._config, self._access, self._server = config, access, server
        self._seen = written

    def look(self) -> None:
        """Look once. Where the files cannot be used, the former ones stay."""
        seen = _written(self._config)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            own = _token(self._config)
            _check_certificate(self._config)
        except (InvalidInput, OSError) as error:
            _log.warning("token and certificate stay as they were: %s", error)
            return
        self._access.renew(own)
        self._server.renew_certificate()
        _log.info("token and certificate were read anew")


class _Server:
    """uvicorn on a thread of its own: signals are the main thread's."""

    def __init__(self, asgi: Litestar, endpoint: Endpoint, config: ProcessConfig) -> None:
        self.address = str(endpoint)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server = uvicorn.Server(
            uvicorn.Config(
                asgi,
                http=BoundedConnection,
                host=endpoint.host,
                port=endpoint.port,
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=END_S,
                ssl_certfile=None if config.certificate is None else str(config.certificate),
                ssl_keyfile=None if config.certificate_key is None else str(config.certificate_key),
            )
        )
        self._thread = threading.Thread(target=self._serve, name="web", daemon=True)

    @property
    def runs(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Serve; returns once it does.

        Raises
        ------
        Unreachable
            The address is taken.
        """
        self._thread.start()
        give_up_s = time.monotonic() + START_S
        while not self._server.started:
            if not self.runs or time.monotonic() > give_up_s:
                remedy = "Is it taken? Set VIVACE_WEB to another one."
                raise Unreachable("The API", self.address, "cannot be served", remedy)
            time.sleep(LOOK_EVERY_S / 10)

    def renew_certificate(self) -> None:
        """Take the certificate as it is now, for connections to come."""
        context, certificate = self._server.config.ssl, self._server.config.ssl_certfile
        if context is not None and certificate is not None:
            context.load_cert_chain(certificate, self._server.config.ssl_keyfile, password="")

    def turns(self) -> bool:
        """Whether the event loop takes its turns."""
        if self._loop is None:
            return False
        turned = threading.Event()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(READY_AGE_S)

    def stop(self) -> None:
        """End; returns when it has."""
        self._server.should_exit = True
        self._thread.join(2 * END_S)

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve()

        with suppress(SystemExit):
            # uvicorn raises it if it cannot listen, after telling why in the log.
            asyncio.run(serve())


def _written(config: ProcessConfig) -> Written:
    """When the files of token and certificate were written, ns, and which they are."""
    found: list[tuple[int, int] | None] = []
    for path in (config.token_file, config.certificate, config.certificate_key):
        try:
            stat = None if path is None else path.stat()
        except OSError:
            stat = None
        found.append(None if stat is None else (stat.st_mtime_ns, stat.st_ino))
    return tuple(found)


def _endpoint(config: ProcessConfig) -> Endpoint:
    endpoint = parse_endpoint(config.web)
    if endpoint is None:
        remedy = "Write a port, such as 8650, or 0.0.0.0:8650."
        raise InvalidInput(config.file, "web", config.web, "is no address to listen at", remedy)
    if not endpoint.is_local and config.certificate is None and not config.insecure_http:
        raise InvalidInput(
            config.file, "web", config.web,
            "can be reached from other machines, and tokens would travel in plain text",
            "Add `certificate` and `certificateKey`; or, if something before it encrypts, "
            "`insecureHttp: true`.",
        )  # fmt: skip
    return endpoint


def _check_certificate(config: ProcessConfig) -> None:
    """Refuse a certificate and a key with which nothing can be encrypted."""
    given, key = config.certificate, config.certificate_key
    if given is None:
        if key is not None:
            problem, remedy = "stands there without `certificate`", "Add it, or leave both out."
            raise InvalidInput(config.file, "certificateKey", str(key), problem, remedy)
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(given, key, password="")
    except OSError as error:
        with_key = "" if key is None else f" with the key {str(key)!r}"
        raise InvalidInput(
            config.file, "certificate", str(given), f"cannot be used{with_key} ({error})",
            "Name a certificate and its key, PEM without a password, that this process may read.",
        ) from None  # fmt: skip


def _token(config: ProcessConfig) -> str | None:
    if config.token_file is None:
        return None
    token = read_text(config.token_file).strip()
    if len(token) < LEAST_TOKEN:
        problem = f"holds fewer than {LEAST_TOKEN} characters"
        remedy = "Write a random token, such as `openssl rand -hex 32` prints."
        raise InvalidInput(config.file, "tokenFile", str(config.token_file), problem, remedy)
    return token


def main() -> int:
    """Run the entry point; its exit status."""
    return run("orchestrator.web", "Serve the HTTP API of a cluster.", serve)


if __name__ == "__main__":
    # A thread may still carry something out.
    leave(main())
