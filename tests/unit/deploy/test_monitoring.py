"""Alerts, dashboard and runbook: they name each other, and only metrics that there are.

What expressions mean can only be told by Prometheus' own `promtool`: without it on the path, those
tests are skipped, and say so.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.api.metric_samples import exposition_of
from orchestrator.results.status import StatusDocument

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
RUNBOOK = ROOT / "docs" / "operations" / "runbook.md"
PROMTOOL = shutil.which("promtool")

NOTHING = StatusDocument(
    cluster="c", problems=(), nodes=(), fragments=(), streams=(), outputs=(), history=()
)

_suffixes = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool on the path: expressions are not evaluated"
)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def dashboard_queries() -> list[str]:
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    variables = [
        each["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"
    ]
    targets = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    assert len(targets) > 20
    return variables + targets


def exposed() -> set[str]:
    """The names of all series that a cluster can have."""
    return {
        family.name + suffix
        for family in text_string_to_metric_families(exposition_of(NOTHING))
        for suffix in _suffixes[family.type]
    }


def named(text: str) -> set[str]:
    return set(re.findall(r"\bvivace_[a-z0-9_]+", text))


def promtool(*arguments: str) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_an_entry_in_the_runbook_and_every_entry_an_alert() -> None:
    entries = re.findall(r"^### (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    alerts = [rule["alert"] for rule in rules()]
    assert sorted(entries) == sorted(alerts)
    assert len(set(alerts)) == len(alerts)


def test_every_alert_says_how_urgent_it_is_and_leads_to_its_entry() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket")
        anchor = f"{RUNBOOK.relative_to(ROOT)}#{rule['alert'].lower()}"
        assert rule["annotations"].keys() == {"summary", "runbook"}
        assert rule["annotations"]["runbook"] == anchor


def test_alerts_and_dashboard_name_only_metrics_that_there_are() -> None:
    for query in [*(rule["expr"] for rule in rules()), *dashboard_queries()]:
        assert named(query), query
        assert named(query) <= exposed(), query


def test_an_alert_of_events_names_events_that_hosts_count() -> None:
    counters = "\n".join(each.read_text() for each in (ROOT / "orchestrator/host").rglob("*.py"))
    for query in [*(rule["expr"] for rule in rules()), *dashboard_queries()]:
        for events in re.findall(r'event=~?"([^"]*)"', query):
            for event in events.split("|"):
                assert f'counters["{event}"]' in counters


def test_every_alert_is_played_silent_and_firing() -> None:
    played = yaml.safe_load((MONITORING / "rules_test.yaml").read_text())["tests"]
    checks = [check for test in played for check in test["alert_rule_test"]]
    alerts = {rule["alert"] for rule in rules()}
    assert {check["alertname"] for check in checks if check.get("exp_alerts")} == alerts
    # The first test is a quiet cluster.
    quiet = played[0]["alert_rule_test"]
    assert {check["alertname"] for check in quiet} == alerts
    assert not any(check.get("exp_alerts") for check in quiet)
    fed = named(" ".join(each["series"] for each in played[0]["input_series"]))
    asked = named(" ".join(rule["expr"] for rule in rules()))
    # Nobody is missing there.
    assert asked - fed == {"vivace_host_missing"}


@needs_promtool
def test_promtool_takes_the_rules_and_their_tests() -> None:
    promtool("check", "rules", str(MONITORING / "alerts.yaml"))
    promtool("test", "rules", str(MONITORING / "rules_test.yaml"))


@needs_promtool
def test_promtool_takes_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    expressions = [
        query.replace("$__rate_interval", "5m")
        for query in dashboard_queries()
        if not query.startswith("label_values")
    ]
    written = [{"record": "x:y", "expr": each} for each in dict.fromkeys(expressions)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": written}]}))
    promtool("check", "rules", str(file))
