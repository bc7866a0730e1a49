"""The scenarios of `charts/vivace/ci`, the examples, and values that are drawn."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from orchestrator.manifest import load
from scripts.chart_docs import CHART
from tests.integration.charts.vivace.judging import judge
from tests.integration.charts.vivace.rendering import LONG_NAME, SCENARIOS, Rendered, render
from tests.platform.kinds import is_object, name_of
from tests.platform.tools import TOOLS, Tool

pytestmark = [pytest.mark.chart, pytest.mark.slow]

VERSIONS = ("1.28", "1.37")

FILES = (*SCENARIOS, *sorted((CHART / "examples").glob("*.yaml")))

GOLDEN = Path(__file__).parent / "golden"

IN_GOLDEN = ("default", "everything")
"""Without NetworkPolicies, of which `test_flows.py` computes what they admit."""

tools = pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
@tools
def test_each_scenario_is_taken_by_helm_and_by_kubernetes(
    file: Path, tool: Tool, tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(tool.helm), "lint", "--strict", str(CHART), "-f", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    judge(render(tmp_path, file, tool=tool), *VERSIONS)


def test_both_helms_make_the_same_and_so_do_two_renderings(tmp_path: Path) -> None:
    for file in SCENARIOS:
        made = [render(tmp_path, file, tool=tool).masked() for tool in (*TOOLS, TOOLS[0])]
        assert made[0] == made[1] == made[2], file.stem


@pytest.mark.parametrize("scenario", IN_GOLDEN)
def test_objects_are_those_of_the_golden_file(
    scenario: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = render(tmp_path, CHART / "ci" / f"{scenario}.yaml").masked()
    shown = [each for each in found if each["kind"] != "NetworkPolicy"]
    text = yaml.safe_dump_all(shown, sort_keys=True, width=100)
    golden = GOLDEN / f"{scenario}.yaml"
    if request.config.getoption("--refresh-golden"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, "utf-8")
    assert golden.read_text("utf-8") == text, "`--refresh-golden` writes it anew"


@pytest.mark.parametrize("scenario", ["default", "ha", "queries", "everything"])
def test_a_release_of_the_longest_name_has_names_that_fit(scenario: str, tmp_path: Path) -> None:
    found = render(tmp_path, CHART / "ci" / f"{scenario}.yaml", release=LONG_NAME)
    judge(found, "1.37")


def test_two_releases_in_a_namespace_share_no_name_and_no_pod(tmp_path: Path) -> None:
    one, other = (render(tmp_path, {}, release=LONG_NAME[:-1] + end) for end in "ab")
    names = [{(each["kind"], name_of(each)) for each in each.objects} for each in (one, other)]
    assert not names[0] & names[1]


@tools
def test_a_chart_that_has_it_as_a_part_may_leave_it_out(tool: Tool, tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    (parent / "charts").mkdir(parents=True)
    shutil.copytree(CHART, parent / "charts" / "vivace")
    part = {"name": "vivace", "version": "0.1.0", "condition": "vivace.enabled"}
    meta = {"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": [part]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(meta))
    values: dict[str, Any] = {"global": {"team": "streams"}, "vivace": {"enabled": True}}
    judge(render(tmp_path, values, chart=parent, tool=tool), "1.37")
    values["vivace"]["enabled"] = False
    assert not render(tmp_path, values, chart=parent, tool=tool).objects


_slugs = st.from_regex(r"[a-z][a-z0-9]{0,7}(-[a-z0-9]{1,4})?", fullmatch=True)


@st.composite
def _values(draw: st.DrawFn) -> dict[str, Any]:
    """Values that the chart takes."""
    names = draw(st.lists(_slugs, min_size=2, max_size=5, unique=True))
    cut = draw(st.integers(1, len(names)))
    applications: list[dict[str, Any]] = []
    zoned = draw(st.booleans())
    for i, name in enumerate(names[:cut]):
        counted = draw(st.integers(2 if cut == 1 else 1, 5))
        listed = [{"name": f"n{i}-{n}", "region": "Somewhere"} for n in range(counted)]
        applications.append(
            {"name": f"a-{name}", "nodes": draw(st.sampled_from([counted, listed]))}
        )
        if zoned:
            applications[-1]["zone"] = draw(st.sampled_from(["eu-1", "eu-2"]))
    sites: list[dict[str, Any]] = [
        {
            "name": f"s-{name}",
            "ports": [{"name": f"p{n}", "port": 8080 + n} for n in range(draw(st.integers(0, 2)))],
            "storage": {"enabled": draw(st.booleans())},
        }
        for name in names[cut:]
    ]
    return {
        "applications": applications,
        "sites": sites,
        "zookeeper": draw(
            st.one_of(
                st.fixed_dictionaries({
                    "replicas": st.sampled_from([1, 3, 5]),
                    "antiAffinity": st.sampled_from(["required", "preferred", "none"]),
                }),
                st.just({"external": "zk:2181"}),
            )
        ),
        "coordinators": {"replicas": draw(st.integers(1, 3))},
        "web": {
            "enabled": draw(st.booleans()),
            "replicas": draw(st.integers(1, 3)),
            "tls": {"existing": draw(st.sampled_from(["", "certificate"]))},
        },
        "secret": {"existing": draw(st.sampled_from(["", "mine"]))},
        "networkPolicies": {"enabled": draw(st.booleans())},
        "preflight": {"enabled": draw(st.booleans())},
        "turnSeconds": draw(st.integers(0, 900)),
        "turns": draw(st.integers(1, 9)),
    }  # fmt: skip


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=_values(), release=st.from_regex(r"[a-z]([a-z0-9-]{0,50}[a-z0-9])?", fullmatch=True))
def test_whatever_values_are_taken_make_a_release_that_keeps_to_all_rules(
    tmp_path: Path, values: dict[str, Any], release: str
) -> None:
    values["cluster"] = {"name": "plant"}
    judge(render(tmp_path, values, release=release), "1.37")


def _leaves(schema: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = schema.get("properties")
    if inner is None:
        return [path]
    return [leaf for name, each in inner.items() for leaf in _leaves(each, (*path, name))]


OTHERS: dict[str, Any] = {
    "image.digest": "sha256:" + "0" * 64, "image.pullPolicy": "Never", "bind": "[::]",
    "cluster.settings.scheduling": "fifo", "cluster.settings.admission": "off",
    "cluster.settings.cpu": {"function": "linear", "msPerCore": 1}, "cluster.name": "other",
    "zookeeper.replicas": 5, "zookeeper.antiAffinity": "none", "zookeeper.external": "zk:2181",
    "applications": [{"name": "other", "nodes": 3}], "sites": [{"name": "other"}],
    "web.service.type": "NodePort", "web.clients": [{"podSelector": {}}],
    "web.httpRoute.parentRefs": [{"name": "other"}],
    **{
        f"cluster.settings.{name}": "9 ms"
        for name in ("heartbeat", "suspectAfter", "ackInterval", "batch", "hop", "probeInterval")
    },
    "cluster.settings.memory": "9 GiB", "cluster.settings.stateRate": "9 MB/s",
    "cluster.settings.placement": {"method": "paper"}, "cluster.settings.state": {"folder": "/c"},
    "monitoring.serviceMonitor.interval": "1m",
    "networkPolicies.checkpoints": [{"ports": [{"port": 9000}]}],
    "cluster.settings.emulateCosts": True, "pods.env": [{"name": "OTHER"}],
    "pods.envFrom": [{"secretRef": {"name": "other"}}], "pods.tolerations": [{"key": "other"}],
    "pods.volumes": [{"name": "other", "emptyDir": {}}],
    "pods.volumeMounts": [{"name": "tmp", "mountPath": "/other"}],
    "pods.topologySpreadConstraints": [{"maxSkew": 3}],
    "pods.initContainers": [{"name": "other"}], "pods.sidecars": [{"name": "other"}],
    "queries.manifests": {"b.yaml": "kind: Stream"}, "queries.from": "beginning", "turns": 9,
    "networkPolicies.apiServer.ports": [1],
    "networkPolicies.dnsPorts": [53, 5353],
    "networkPolicies.apiServer.cidrs": ["10.0.0.1/32"], "extraObjects": [{"kind": "Other"}],
}  # fmt: skip
"""Another value than the default, where none follows from the default's type."""

WITH: dict[str, Any] = {
    "web.ingress": {"web": {"ingress": {"enabled": True, "host": "here"}}},
    "web.httpRoute": {"web": {"httpRoute": {"enabled": True, "parentRefs": [{"name": "here"}]}}},
    "queries": {"queries": {"manifests": {"a.yaml": "kind: Stream"}}},
    "queries.singleApplication": {
        "queries": {"manifests": {"a.yaml": "kind: Query"}},
        "applications": [{"name": "only", "nodes": 2}],
    },
    "monitoring.serviceMonitor": {
        "monitoring": {"serviceMonitor": {"enabled": True, "tokenSecret": "here"}}
    },
    "monitoring.rules": {"monitoring": {"rules": {"enabled": True}}},
    "monitoring.dashboard": {"monitoring": {"dashboard": {"enabled": True}}},
}
"""What must be there for the value to mean something; the longest beginning counts."""


OPAQUE = {
    "pods.env", "pods.envFrom", "pods.volumes", "pods.volumeMounts", "pods.tolerations",
    "pods.affinity", "pods.topologySpreadConstraints", "pods.initContainers", "pods.sidecars",
    "pods.securityContext", "web.clients", "web.httpRoute.parentRefs", "extraObjects",
    "cluster.settings.cpu", "cluster.settings.placement", "cluster.settings.state", "global",
    "networkPolicies.checkpoints",
}  # fmt: skip
"""What the platform alone knows; the chart passes it on."""

HARD = (
    "1", "1e3", "on", "null", "~", "a: b", "  a", "a\nb", "- x", "{{ x }}", "*a",
    "Upper_Case", "-x", "x" * 70, "x" * 300, "'", '"', "\t", "é",
)  # fmt: skip
"""Texts that YAML, or Kubernetes, takes for something else, or not at all."""


def _admitted(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values in which this text stands wherever the schema lets it; and those for the store."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    validator: Any = Draft202012Validator(schema)
    every: dict[str, Any] = {
        # `queries.from` may name a savepoint.
        "cluster": {"settings": {"state": {"folder": "/checkpoints"}}},
        "monitoring": {
            each: {"enabled": True} for each in ("serviceMonitor", "rules", "dashboard")
        },
        "web": {
            "ingress": {"enabled": True, "host": "here"},
            "httpRoute": {"enabled": True, "parentRefs": [{"name": "here"}]},
        },
    }  # fmt: skip
    store: dict[str, Any] = {}
    for path in _leaves(schema):
        if ".".join(path) in OPAQUE or path[-1] in ("pod", "resources"):
            continue
        for value in (text, [text], {text: text}, {text: "here"}, {"here": text}):
            values = json.loads(json.dumps(defaults))
            _set(values, path, value)
            if not any(validator.iter_errors(values)):
                _set(store if path == ("zookeeper", "external") else every, path, value)
                break
    every["queries"]["manifests"] = {"a.yaml": text}
    return every, {**every, **store}


@pytest.mark.parametrize("text", HARD)
def test_a_text_that_the_schema_admits_arrives_as_it_is(text: str, tmp_path: Path) -> None:
    for values in _admitted(text):
        found = render(tmp_path, values)
        judge(found, "1.37")
        assert found.one("ConfigMap", "-queries")["data"] == {"a.yaml": text}


def test_queries_are_applied_from_the_files_of_the_values_and_no_others(tmp_path: Path) -> None:
    """An upgrade that has failed may have left others in the ConfigMap."""
    manifests = {"a.yaml": "kind: Stream", "b.yaml": "kind: Query"}
    job = render(tmp_path, {"queries": {"manifests": manifests}}).one("Job", "-apply")
    volumes = {each["name"]: each for each in job["spec"]["template"]["spec"]["volumes"]}
    mounted = volumes["manifests"]["configMap"]["items"]
    assert mounted == [{"key": file, "path": file} for file in manifests]


def test_queries_begin_from_where_the_values_say(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "cluster": {"settings": {"state": {"folder": "/checkpoints"}}},
        "queries": {"manifests": {"a.yaml": "kind: Query"}, "replace": ["warm"]},
    }
    for begin in ("now", "beginning", "before-upgrade"):
        values["queries"]["from"] = begin
        job = render(tmp_path, values).one("Job", "-apply")
        (container,) = job["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["apply", "--from", begin, "/etc/vivace-queries", "warm"]


def _restarting(one: Rendered, other: Rendered) -> set[str]:
    """Whoever has other pods in the other release; pods of Jobs are always others."""
    before, after = dict(one.pods()), dict(other.pods())
    assert before.keys() <= after.keys()
    return {owner for owner, pod in before.items() if pod != after[owner]} - {
        owner for owner in before if owner.startswith("Job ")
    }


MANY = [{"name": f"a{number}", "nodes": 1} for number in range(7)]

COORDINATORS = "Deployment r-vivace-coordinator"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"applications": MANY[:2]}, {"applications": MANY[:3]}),
        ({"sites": [{"name": "a"}]}, {"sites": [{"name": "a"}, {"name": "b"}]}),
        ({"applications": MANY[:6]}, {"applications": MANY[:7]}),
        ({"turns": 9, "applications": MANY, "sites": [{"name": "a"}]},
         {"turns": 9, "applications": MANY, "sites": [{"name": "b"}, {"name": "a"}]}),
    ],
)  # fmt: skip
def test_another_application_or_site_restarts_coordinators_and_nothing_else(
    before: dict[str, Any], after: dict[str, Any], tmp_path: Path
) -> None:
    """Coordinators tell the others which nodes and sites there are."""
    made = [render(tmp_path, values) for values in (before, after)]
    assert _restarting(*made) == {COORDINATORS}


def test_more_processes_than_turns_make_all_of_them_restart(tmp_path: Path) -> None:
    """The last one would not have the time."""
    made = [render(tmp_path, {"applications": MANY[:n], "turns": 2}) for n in (2, 3)]
    grace = {
        pod["spec"]["terminationGracePeriodSeconds"]
        for owner, pod in made[1].pods()
        if owner.startswith(("Deployment r-vivace-driver", "StatefulSet r-vivace-site"))
    }
    assert grace == {4 * 300 + 10}
    assert _restarting(*made) == {
        COORDINATORS, "Deployment r-vivace-driver-a0", "Deployment r-vivace-driver-a1",
        "StatefulSet r-vivace-site-edge",
    }  # fmt: skip


def test_large_numbers_are_written_in_full(tmp_path: Path) -> None:
    values = {
        **{part: {"deadlineSeconds": 2_000_000} for part in ("tests", "preflight")},
        "queries": {"deadlineSeconds": 2_000_000, "manifests": {"a.yaml": "kind: Stream"}},
        "turnSeconds": 1_000_000,
        "executors": {"graceSeconds": 1_000_000},
    }
    found = render(tmp_path, values)
    judge(found, "1.37")
    assert {each["spec"]["activeDeadlineSeconds"] for each in found.of("Job")} == {2_000_000}


def test_a_namespace_and_a_cluster_may_have_numbers_for_names(tmp_path: Path) -> None:
    applications = [{"name": "1", "nodes": [{"name": "2"}], "zone": "3"}]
    applications += [{"name": "on", "nodes": [{"name": "null"}], "zone": "no"}]
    values = {
        "cluster": {"name": "1e3"}, "applications": applications,
        "sites": [{"name": "7", "region": "8", "ports": [{"name": "on", "port": 80}]}],
    }  # fmt: skip
    found = render(tmp_path, values, namespace="2024")
    judge(found, "1.37")
    file = tmp_path / "cluster.yaml"
    file.write_text(found.one("ConfigMap", "-cluster")["data"]["cluster.yaml"])
    cluster = load([file]).cluster
    assert cluster is not None
    assert cluster.name == "1e3"


def _other(path: tuple[str, ...], default: Any) -> Any:
    name = ".".join(path)
    if name in OTHERS:
        return OTHERS[name]
    match default:
        case bool():
            return not default
        case int():
            return default + 1
        case dict():
            return {"limits": {"cpu": 9}} if path[-1] == "resources" else {"other": "9"}
        case list():
            return ["other"]
        case _:
            return {"memory": "9g", "heap": "9g", "overhead": "9g"}.get(
                path[-1], "9Gi" if path[-1] in ("size", "request", "limit") else "other"
            )


def _set(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        values = values.setdefault(step, {})
    values[path[-1]] = value


def _changed(path: tuple[str, ...], defaults: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values without and with another one at a path."""
    default = defaults
    for step in path:
        default = default[step]
    name = ".".join(path)
    needed = max((key for key in WITH if f"{name}.".startswith(f"{key}.")), key=len, default="")
    before = json.loads(json.dumps(WITH.get(needed, {})))
    if name == "queries.singleApplication":
        _set(before, path, True)
    after = json.loads(json.dumps(before))
    given: Any = before
    for step in path:
        given = given.get(step, {}) if is_object(given) else {}
    if path[-1] == "pod":
        _set(after, (*path, "priorityClassName"), "other")
    else:
        _set(after, path, _other(path, default if given == {} else given))
    return before, after


def test_every_value_makes_a_difference(tmp_path: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    made: dict[str, Rendered] = {}

    def rendered(values: dict[str, Any]) -> tuple[Any, ...]:
        key = json.dumps(values, sort_keys=True)
        if key not in made:
            made[key] = render(tmp_path, values)
        return made[key].masked()

    for path in _leaves(schema):
        if path[0] in ("global", "enabled") or path == ("queries", "singleApplication"):
            continue
        before, after = _changed(path, defaults)
        assert rendered(before) != rendered(after), ".".join(path)
