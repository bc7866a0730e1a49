"""A script that `spark-submit` starts writes and reads with the package that is shipped to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

# The fixture `shell` runs commands as they are written.
from tests.functional.test_http_example import ROOT, Shell, commands, shell

__all__ = ["shell"]

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def test_the_commands_of_the_page_as_written(shell: Shell) -> None:
    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^### With `spark-submit`\n(.*?)^##", page, re.MULTILINE | re.DOTALL)
    steps = commands(section)
    assert any("spark-submit --master" in command for command, _ in steps)
    for command, shown in steps:
        said = shell.patiently(command)
        assert not shown or said == shown, command
    assert not list(Path(shell.home).glob("*.json"))
