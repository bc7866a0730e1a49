"""The command without the packages of the cluster."""

from __future__ import annotations

import sys

import pytest

from orchestrator import command


def test_a_missing_package_is_named_with_the_extra_that_has_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "orchestrator.cli.main", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "the package typer is not installed" in told
    assert "pip install 'vivace[cluster]'" in told


def test_a_missing_module_of_ours_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orchestrator.cli.main", None)
    with pytest.raises(ModuleNotFoundError, match=r"orchestrator\.cli\.main"):
        command.main()
