"""Scripts that have shells complete words."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.cli.completion import words
from orchestrator.cli.main import run
from orchestrator.cli.verbs import GROUPS, VERBS


def test_every_verb_is_completed_with_its_options() -> None:
    found = words()
    assert {*found} == {
        "", *VERBS, *GROUPS, *(f"{g} {v}" for g, verbs in GROUPS.items() for v in verbs),
    }  # fmt: skip
    following, kind = found["switchover"]
    assert {"--dry-run", "--wait", "--no-wait", "-o", "--json", "--context"} <= {*following}
    assert kind == "fragments"
    assert {"nodes", "fragments"} <= {*found["get"][0]}
    assert {"bash", "zsh", "fish"} <= {*found["completion"][0]}


COMPLETE = """
source {script}
vivace() {{ [[ "$*" == "get fragments -o name" ]] && echo proximity.alerts; }}
COMP_WORDS=(vivace {words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_vivace; echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("given", "completed"),
    [
        ("stat", "status"),
        ("drill re", "report"),
        ("get fr", "fragments"),
        ("status --js", "--json"),
        ("switchover prox", "proximity.alerts"),
        ("drill run --sim", "--simulate"),
    ],
)
def test_bash_completes(
    given: str, completed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["completion", "bash"]) == 0
    script = tmp_path / "vivace.bash"
    script.write_text(capsys.readouterr().out)
    told = COMPLETE.format(script=script, words=given)
    shown = subprocess.run(["bash", "-c", told], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == completed.split(), shown.stderr
