"""The process of the HTTP API, on a thread of a test."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.deploy.config import ProcessConfig
from orchestrator.embedded.ports import free_port
from orchestrator.health import Health
from orchestrator.web.__main__ import serve
from tests.conftest import PATIENCE_S

TOKEN = "a-token-that-only-tests-know"


@contextmanager
def web_process(
    zookeeper: str, cluster: str, secret: str, folder: Path, address: str = "127.0.0.1"
) -> Generator[str]:
    """Serve a cluster for the time of a block; the URL of its API."""
    token_file = folder / "token"
    token_file.write_text(TOKEN)
    listen = f"{address}:{free_port()}"
    config = ProcessConfig(
        file="test", cluster=cluster, zookeeper=zookeeper, secret=secret, web=listen,
        token_file=token_file, archive=folder / "archive", insecure_http=True,
    )  # fmt: skip
    ended, health = threading.Event(), Health()
    thread = threading.Thread(target=serve, args=(config, ended.is_set, health))
    thread.start()
    try:
        yield f"http://{listen}"
    finally:
        ended.set()
        thread.join(PATIENCE_S)
