"""Ctrl-C ends every verb that waits without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator import command
from orchestrator.cli import main
from orchestrator.cli.verbs import GROUPS, VERBS
from vivace import contexts
from vivace.api_client import ApiClient

EXAMPLE = "examples/aircraft"

WORDS = {
    "apply": f"-f {EXAMPLE}", "delete": "q", "switchover": "f", "move": "f primary n",
    "drain": "n", "cordon": "n", "uncordon": "n", "get": "nodes", "describe": "node n",
    "top": "--once", "logs": "n", "send": f"s {EXAMPLE}/query.yaml", "tail": "s", "verify": "q",
    "drill run": "hang", "operations cancel": "o", "explain": "f", "token revoke": "t",
    "pause": "q", "resume": "q",
    "savepoint show": "s", "savepoint delete": "s", "savepoint export": "s copy",
}  # fmt: skip
"""What verbs need to be given."""

ELSEWHERE = {
    "up", "down", "demo", "simulate", "validate", "size", "completion", "config list", "config use",
    "config add", "config remove", "bulk coordinates", "bulk place", "try",
    "render standalone", "render compose",
}  # fmt: skip
"""Verbs that wait for no API."""

WAITING = sorted(
    {*VERBS, *(f"{group} {name}" for group in GROUPS for name in GROUPS[group])} - ELSEWHERE
)


def interrupted(*_: object, **__: object) -> Iterator[Any]:
    raise KeyboardInterrupt


@pytest.mark.parametrize("verb", WAITING)
def test_a_verb_that_waits_for_the_api_ends_without_a_traceback(
    verb: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path))
    contexts.add("test", contexts.Context(api="http://127.0.0.1:1"), tmp_path)
    monkeypatch.setattr(ApiClient, "_sent", interrupted)
    monkeypatch.setattr(ApiClient, "_events", interrupted)
    status = main.run([*verb.split(), *WORDS.get(verb, "").split()])
    told = capsys.readouterr()
    assert status == (0 if verb == "tail" else 130), told.err
    assert "Traceback" not in told.out + told.err
    assert "error:" not in told.err


@pytest.mark.parametrize(
    ("verb", "where"),
    [
        (f"up -f {EXAMPLE}/cluster.yaml", "orchestrator.api.up"),
        ("down", "orchestrator.api.down"),
        (f"demo {EXAMPLE}", "orchestrator.api.Example.load"),
        ("simulate --seed 1", "orchestrator.api.play_seed"),
        (f"validate -f {EXAMPLE}", "orchestrator.api.load"),
    ],
)
def test_a_verb_that_waits_for_this_machine_ends_without_a_traceback(
    verb: str, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(where, interrupted)
    assert main.run(verb.split()) == 130
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err


def test_ctrl_c_before_the_command_line_is_there_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("orchestrator.cli.main.main", interrupted)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""
    assert "orchestrator.cli.main" in sys.modules
