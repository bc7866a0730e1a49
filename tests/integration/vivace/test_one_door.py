"""What the HTTP API responds is byte for byte what the command line prints with `--json`."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator.cli.main import run
from orchestrator.operations.parameters import ManifestParameters
from orchestrator.operations.table import OPERATIONS, VALIDATE
from orchestrator.operations.texts import read_sources
from orchestrator.results.operations import OperationStatus
from tests.json_schema import wrong
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.printed_verbs import listening, schema_of
from tests.served_cluster import TOKEN, served
from vivace import api_client, contexts
from vivace.server_events import ServerEvent

pytestmark = pytest.mark.slow

EXAMPLE = "examples/aircraft"

VERBS = (
    "status", "get nodes", "get queries", "get streams", "get fragments", "get outputs",
    "describe query proximity", "describe node nowhere", "topology", "logs nowhere",
    "explain alerts", "explain -f EXAMPLE",
    "history", "history -n 1", "metrics", "plan", "plan -f EXAMPLE",
    "apply -f EXAMPLE --dry-run", "apply -f EXAMPLE", "switchover alerts --dry-run",
    "switchover proximity.alerts", "switchover nothing", "move alerts primary zurich --dry-run",
    "move alerts primary nowhere", "move alerts --abort", "drain paris --dry-run", "drain paris",
    "drain nowhere", "cordon paris", "cordon lyon --dry-run", "cordon nowhere", "uncordon paris",
    "drill list", "drill report", "drill run nothing", "drill run nothing --times 2",
    "drill run hang --simulate --target nothing",
    "rebalance", "moves", "undo nothing --dry-run", "get proposals",
    "automation", "automation apply --moves-an-hour 5", "automation --pause --for 2h",
    "automation --resume", "pause proximity", "pause nothing", "resume proximity",
    "whatif --without lyon", "whatif --without nowhere",
    "verify proximity", "verify nothing", "send north EXAMPLE/cluster.yaml", "tail nothing",
    "operations cancel nothing", "maintenance show", "maintenance break",
    "savepoint list", "savepoint create", "savepoint show nothing", "savepoint delete nothing",
    "token create --role operate --days 2", "token list", "token revoke nothing",
    "delete proximity", "delete nothing", "delete -f EXAMPLE",
)  # fmt: skip


def test_every_verb_is_compared() -> None:
    told = {each.verb.partition(" --")[0] for each in OPERATIONS} - {
        "",
        "validate",
        "apply PLAN",
        "automation MODE",
    }
    assert [verb for verb in told if not any(each.startswith(verb) for each in VERBS)] == []


class Wire:
    """What comes from the API while a command runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.last = b""
        check, events = api_client.ApiClient.check, api_client.server_events

        def checked(
            client: api_client.ApiClient, response: http.client.HTTPResponse, body: bytes
        ) -> None:
            self.last = body
            check(client, response, body)

        def followed(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
            for event in events(lines):
                if event.name != "progress":
                    self.last = self._ended(event)
                yield event

        monkeypatch.setattr(api_client.ApiClient, "check", checked)
        monkeypatch.setattr(api_client, "server_events", followed)

    def _ended(self, event: ServerEvent) -> bytes:
        status = msgspec.json.decode(event.data, type=OperationStatus)
        if event.name == "done":
            return bytes(status.result)
        return b'{"error":' + bytes(status.error) + b"}"


@pytest.mark.parametrize("words", VERBS)
def test_what_is_printed_is_what_came(
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path))
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    with served(cluster) as opened, listening(opened.client) as address:
        contexts.add_local("air", contexts.Context(api=address), TOKEN, tmp_path)
        wire = Wire(monkeypatch)
        status = run([*words.replace("EXAMPLE", EXAMPLE).split(), "--json"])
    printed = capsys.readouterr()
    assert printed.out.encode() == wire.last + b"\n", printed.err
    assert status in (0, 2, 3)
    document = json.loads(printed.out)
    is_error = isinstance(document, dict) and "error" in document
    assert not wrong(document, "error" if is_error else schema_of(words))


def test_what_is_validated_here_is_what_the_api_says(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ManifestParameters(manifests=read_sources([Path(EXAMPLE)]), folder=str(Path.cwd()))
    with served(ObedientCluster()) as opened:
        found = opened.ask(VALIDATE, asked).content
    assert run(["validate", "-f", EXAMPLE, "--json"]) == 0
    assert capsys.readouterr().out.encode() == found + b"\n"
