"""The HTTP API of a cluster of the real command, also after its process was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from orchestrator.deploy.context import find
from tests.conftest import PATIENCE_S, WaitUntil
from tests.functional.conftest import Vivace

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "http"


def ok(vivace: Vivace, *arguments: object) -> None:
    done = vivace(*arguments)
    assert done.returncode == 0, done.stderr


def of_web() -> list[psutil.Process]:
    """The processes of this user that serve an API."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        line: list[str] = process.info["cmdline"] or []
        if line[1:3] == ["-m", "orchestrator.web"]:
            found.append(process)
    return found


def test_the_api_of_a_cluster(vivace: Vivace, tmp_path: Path, wait_until: WaitUntil) -> None:
    before = {process.pid for process in of_web()}
    ok(vivace, "up", "-f", EXAMPLE / "cluster.yaml", "--data", tmp_path / "data")
    home = tmp_path / "home"
    assert (home / "http.json").stat().st_mode & 0o777 == 0o600
    context = find("http", home)
    header = {"Authorization": f"Bearer {context.token}"}
    with httpx.Client(base_url=context.api, headers=header, timeout=PATIENCE_S) as client:

        def ended(name: str) -> dict[str, Any]:
            found: dict[str, Any] = {}

            def is_over() -> bool:
                found.update(client.get(f"/api/v1/operations/{name}").json())
                return found["state"] != "running"

            wait_until(is_over, every_s=0.2)  # A token has 50 requests a second.
            return found

        files = sorted(EXAMPLE.glob("*.yaml"))
        texts = [{"file": str(each), "text": each.read_text(encoding="utf-8")} for each in files]
        manifests = [{"path": str(EXAMPLE), "files": texts}]
        begun = client.post("/api/v1/apply", json={"manifests": manifests})
        assert begun.status_code == 202, begun.text
        applied = ended(begun.json()["name"])
        assert applied["state"] == "done", applied["error"]["message"]
        assert applied["result"]["protected"]
        fragment = client.get("/api/v1/status").json()["fragments"][0]["fragment"]
        begun = client.post(f"/api/v1/fragments/{fragment}/switchover", json={})
        switched = ended(begun.json()["name"])
        assert switched["state"] == "done", switched["error"]["message"]
        assert switched["result"]["done"]
        asked = [e for e in client.get("/api/v1/history").json()["history"] if e["kind"] == "asked"]
        assert {each["by"] for each in asked} == {"start@127.0.0.1"}

        with client.stream("GET", "/api/v1/streams/readings/tail?limit=1") as events:
            told = (line for line in events.iter_lines() if line.startswith("data: "))
            assert '"columns":{"sensor":' in next(told)
            text = (EXAMPLE / "readings.csv").read_text(encoding="utf-8")
            sent = client.post("/api/v1/streams/readings/send", json={"lines": text})
            assert sent.status_code == 200, sent.text
            assert sent.json()["sent"]["accepted"] == len(text.splitlines()) - 1
            assert any('"sensor":"roof"' in line for line in told)

        (web,) = [process for process in of_web() if process.pid not in before]
        os.kill(web.pid, signal.SIGKILL)
        wait_until(lambda: is_ready(context.api))
        assert client.get(f"/api/v1/operations/{switched['name']}").json() == switched
        last = str(asked[0]["sequence"] - 1)
        with client.stream("GET", "/api/v1/events", headers={"Last-Event-ID": last}) as events:
            lines = (line for line in events.iter_lines() if line.startswith("id: "))
            assert next(lines) == f"id: {asked[0]['sequence']}"
    ok(vivace, "down")
    assert {process.pid for process in of_web()} <= before


def is_ready(api: str) -> bool:
    try:
        return httpx.get(f"{api}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
