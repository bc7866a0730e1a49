"""Asks a running cluster's HTTP API for whatever its OpenAPI document permits, and does not permit.

schemathesis makes the requests of it, with a token of each role: first with names of its own, then
with those of the example that runs. A response with another status than the document's, of another
type, with another body, or with a 5xx other than 503 (there is too much to do, docs/api.md) is an
error. So is a route that responds without a token. Streams of events do not end, and are left out.

`make fuzz-api MINUTES=5`, or `python -m scripts.fuzz_api MINUTES`. uv fetches schemathesis from the
package index; the product never imports it. The exit status is 1 if something was found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from orchestrator.operations.operation import Manner
from orchestrator.operations.table import OPERATIONS

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "http"
CLUSTER = "http"
ROLES = ("read", "operate")

TOOL = "schemathesis==4.32.5"

UNCHECKED = "negative_data_rejection,positive_data_acceptance,ensure_resource_availability"
"""That what is wrong is refused and all else is taken: the document does not say what exists. That
what was made can be found: the tool takes a token for its id."""

REQUEST_S = 70
"""Longer than the API takes for any request."""

CHECKS = """\
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""

NAMES = """\
[parameters]
"path.fragment" = "hot"
"path.node" = "one"
"path.query" = "heat"
"path.stream" = "readings"
"path.drill" = "switchover"
"""


def main(arguments: list[str]) -> int:
    """Start a cluster, and ask; the exit status."""
    seconds = int(float(arguments[0]) * 60) if arguments else 300
    with tempfile.TemporaryDirectory(prefix="vivace-fuzz-") as made:
        folder = Path(made)
        os.environ["VIVACE_HOME"] = str(folder / "home")
        vivace("up", "-f", str(EXAMPLE / "cluster.yaml"), "--data", str(folder / "data"))
        try:
            vivace("apply", "-f", str(EXAMPLE))
            context = folder / "home" / "contexts" / f"{CLUSTER}.json"
            api = json.loads(context.read_text("utf-8"))["api"]
            found = [
                role
                for role in ROLES
                for names in ("", NAMES)
                if not asked(folder, api, drawn(role), CHECKS + names, seconds // 2)
            ]
            vivace("status")
        finally:
            vivace("down")
    return 1 if found else 0


def vivace(*words: str) -> str:
    """Run the command, which succeeds; what it prints."""
    command = [sys.executable, "-m", "orchestrator.cli.main", *words]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def drawn(role: str) -> str:
    """A token of a role."""
    return json.loads(vivace("token", "create", "--role", role, "--json"))["token"]


def asked(folder: Path, api: str, token: str, settings: str, seconds: int) -> bool:
    """Ask for so long; whether nothing was found."""
    file = folder / "schemathesis.toml"
    file.write_text(settings, encoding="utf-8")
    endless = [each.name for each in OPERATIONS if each.manner is Manner.STREAM]
    command = [
        str(Path(sys.executable).parent / "uv"), "tool", "run", "--from", TOOL, "st",
        "--config-file", str(file), "run", f"{api}/api/v1/openapi.json", "--url", api,
        "--header", f"Authorization: Bearer {token}", "--no-color", "--warnings", "off",
        "--max-time", str(seconds), "--request-timeout", str(REQUEST_S), "--rate-limit", "40/s",
        "--exclude-checks", UNCHECKED, "--continue-on-failure",
    ]  # fmt: skip
    command += [word for name in endless for word in ("--exclude-operation-id", name)]
    return subprocess.run(command, cwd=folder, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
