"""Wrong values: helm fails with the path and the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.charts.vivace.rendering import Refused, render
from tests.platform.tools import TOOLS, Tool

pytestmark = [pytest.mark.chart, pytest.mark.slow]

QUERY = "{a.yaml: 'kind: Query'}"

WRONG = [
    # What the schema refuses: the value, what is named, and the reason.
    ("replicas: 3", "replicas", "not allowed"),
    ("image: {tga: x}", "image", "tga"),
    ("image: {pullPolicy: Sometimes}", "image/pullPolicy", "one of"),
    ("image: {digest: sha256:12}", "image/digest", "pattern"),
    ("cluster: {name: My_Cluster}", "cluster/name", "pattern"),
    ("cluster: {settings: {heartbeats: 1 s}}", "cluster/settings", "heartbeats"),
    ("cluster: {settings: {heartbeat: soon}}", "cluster/settings/heartbeat", "pattern"),
    ("cluster: {settings: {memory: 256}}", "cluster/settings/memory", "string"),
    ("cluster: {settings: {memory: 256 s}}", "cluster/settings/memory", "pattern"),
    ("cluster: {settings: {stateRate: 20 MB}}", "cluster/settings/stateRate", "pattern"),
    ("cluster: {settings: {batch: 10}}", "cluster/settings/batch", "string"),
    ("cluster: {settings: {scheduling: lifo}}", "cluster/settings/scheduling", "one of"),
    ("zookeeper: {replicas: 2}", "zookeeper/replicas", "one of"),
    ("zookeeper: {replicas: 7}", "zookeeper/replicas", "one of"),
    ("zookeeper: {heap: 256Mi}", "zookeeper/heap", "pattern"),
    ("zookeeper: {antiAffinity: never}", "zookeeper/antiAffinity", "one of"),
    ("zookeeper: {storage: {size: big}}", "zookeeper/storage/size", ""),
    ("coordinators: {replicas: 0}", "coordinators/replicas", "minimum"),
    ("coordinators: {replicas: two}", "coordinators/replicas", "integer"),
    ("coordinators: {pod: {tolerations: {}}}", "coordinators/pod/tolerations", "array"),
    ("coordinators: {pod: {toleration: []}}", "coordinators/pod", "toleration"),
    ("coordinators: {resources: {limit: {}}}", "coordinators/resources", "limit"),
    ("applications: []", "applications", "minItems"),
    ("applications: [{name: one}]", "applications/0", "nodes"),
    ("applications: [{name: one, nodes: 0}]", "applications/0/nodes", ""),
    ("applications: [{name: One, nodes: 2}]", "applications/0/name", "pattern"),
    ("applications: [{name: one, nodes: 2, zone: 'a b'}]", "applications/0/zone", "pattern"),
    ("executors: {memory: 1Gi}", "executors/memory", "pattern"),
    ("executors: {graceSeconds: 5}", "executors/graceSeconds", "minimum"),
    ("sites: [{name: edge, ports: [{name: p, port: 70000}]}]", "sites/0/ports/0/port", "maximum"),
    ("sites: [{name: edge, ports: [{name: LONG, port: 80}]}]", "sites/0/ports/0/name", "pattern"),
    ("web: {service: {type: ExternalName}}", "web/service/type", "one of"),
    ("queries: {replace: [a, a]}", "queries/replace", "equal"),
    ("queries: {from: Before}", "queries/from", "pattern"),
    ("queries: {from: ''}", "queries/from", "pattern"),
    ("turns: 0", "turns", "minimum"),
    ("pods: {labels: {a: 1}}", "pods/labels/a", "string"),
    ("networkPolicies: {apiServer: {cidrs: []}}", "networkPolicies/apiServer/cidrs", "minItems"),
    ("networkPolicies: {apiServer: {cidrs: [here]}}", "apiServer/cidrs/0", "pattern"),
    ("secret: {existing: My_Secret}", "secret/existing", "pattern"),
    ("web: {token: {key: a b}}", "web/token/key", "pattern"),
    ("pods: {labels: {a b: c}}", "pods/labels", "a b"),
    ("pods: {labels: {a: b c}}", "pods/labels/a", "pattern"),
    ("zookeeper: {external: 'zk:2181:2182'}", "zookeeper/external", "pattern"),
    ("coordinators: null", "", "coordinators"),
    ("jobs: {pod: null}", "jobs", "pod"),
    ("pods: {sidecars: null}", "pods", "sidecars"),
    ("networkPolicies: {apiServer: {ports: [0]}}", "networkPolicies/apiServer/ports/0", "minimum"),
]

ACROSS = [
    # Conditions across values: a sentence of the chart's own.
    ("executors: {memory: 479m}", "executors.memory: 479m is less than Spark needs"),
    ("executors: {memory: 491519k}", "executors.memory: 491519k is less than Spark needs"),
    ("image: {tag: latest}", "image.tag: `latest` names another image each day"),
    (
        "applications: [{name: one, nodes: 2}, {name: one, nodes: 1}]",
        'applications[1].name: "one" is there twice',
    ),
    (
        "applications: [{name: a, nodes: [{name: x}]}, {name: b, nodes: [{name: x}]}]",
        'applications[1].nodes: the node "x" is there twice',
    ),
    ("applications: [{name: one, nodes: 1}]", "applications: there is one node, but a query needs"),
    (
        "applications: [{name: a, nodes: 2, zone: z}, {name: b, nodes: 2}]",
        "applications: some have a zone and some have none",
    ),
    (
        "sites: [{name: application-1-1}]",
        'sites[0].name: "application-1-1" is the name of another site or node',
    ),
    (
        "sites: [{name: a, ports: [{name: p, port: 80}, {name: q, port: 80}]}]",
        "sites[0].ports: the port 80 is there twice",
    ),
    (
        "sites: [{name: a, ports: [{name: p, port: 9600}]}]",
        "sites[0].ports: the port 9600 is the host's own",
    ),
    (
        "sites: [{name: a, ports: [{name: p, port: 80}, {name: p, port: 81}]}]",
        'sites[0].ports: the name "p" is there twice, or the host\'s own',
    ),
    (
        "sites: [{name: a, ports: [{name: link, port: 80}]}]",
        'sites[0].ports: the name "link" is there twice, or the host\'s own',
    ),
    ("queries: {manifests: {a/b.yaml: 'kind: Query'}}", "queries.manifests[a/b.yaml]: is no name"),
    ("queries: {manifests: {query: 'kind: Query'}}", "queries.manifests[query]: is no name of"),
    (
        "queries: {manifests: {a.yaml: 'kind: Cluster'}}",
        "queries.manifests[a.yaml]: has a manifest of kind Cluster",
    ),
    (
        f"{{applications: [{{name: one, nodes: 2}}], queries: {{manifests: {QUERY}}}}}",
        "applications: there is one, and no query keeps its recovery bound when its driver dies",
    ),
    (f"{{web: {{enabled: false}}, queries: {{manifests: {QUERY}}}}}", "web.enabled: queries.manif"),
    (
        "queries: {from: before}",
        'queries.from: "before" is looked for in the folder of checkpoints, and there is none',
    ),
    ("web: {enabled: false, ingress: {enabled: true}}", "web.enabled: an Ingress or HTTPRoute"),
    ("web: {ingress: {enabled: true}}", "web.ingress.host: is empty"),
    ("web: {httpRoute: {enabled: true}}", "web.httpRoute.parentRefs: is empty"),
    (
        "{web: {enabled: false}, monitoring: {serviceMonitor: {enabled: true}}}",
        "monitoring.serviceMonitor.enabled: metrics come from the HTTP API",
    ),
]


def refused(folder: Path, values: str, tool: Tool = TOOLS[-1], **options: Any) -> str:
    with pytest.raises(Refused) as found:
        render(folder, yaml.safe_load(values), tool=tool, **options)
    return str(found.value)


@pytest.mark.parametrize(("values", "path", "reason"), WRONG)
def test_a_value_that_cannot_be_is_refused_with_its_path(
    values: str, path: str, reason: str, tmp_path: Path
) -> None:
    said = refused(tmp_path, values)
    assert path in said
    assert reason in said


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
@pytest.mark.parametrize(("values", "sentence"), ACROSS)
def test_values_that_do_not_fit_each_other_are_refused_with_a_sentence(
    values: str, sentence: str, tool: Tool, tmp_path: Path
) -> None:
    assert sentence in refused(tmp_path, values, tool)


def test_the_older_helm_refuses_with_the_path_too(tmp_path: Path) -> None:
    said = refused(tmp_path, "zookeeper: {replicas: 2}", TOOLS[0])
    assert "zookeeper.replicas" in said


def test_a_release_whose_name_is_no_clusters_must_name_one(tmp_path: Path) -> None:
    said = refused(tmp_path, "{}", release="my.release")
    assert 'cluster.name: the release\'s name "my.release" is no name of a cluster' in said
    render(tmp_path, {"cluster": {"name": "mine"}}, release="my.release")


def test_a_release_whose_name_is_no_services_must_give_another_beginning(tmp_path: Path) -> None:
    said = refused(tmp_path, "{}", release="3rd")
    assert 'fullnameOverride: the release\'s name "3rd-vivace" begins with a digit' in said
    render(tmp_path, {"fullnameOverride": "third"}, release="3rd")


def test_platforms_that_are_too_old_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="kubeVersion"):
        render(tmp_path, {}, "--kube-version", "1.27.0")
