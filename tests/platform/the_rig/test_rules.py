"""What the rig's API refuses, as Kubernetes does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.platform.access import Access
from tests.platform.api import Api, Sender, scaled
from tests.platform.kinds import BY_KIND, NAMESPACE, Object
from tests.platform.objects import ApiError, Objects
from tests.platform.patches import merge
from tests.platform.quantities import amount
from tests.platform.selectors import matches_fields, matches_labels

SENDER = Sender(user="admin", manager="test")

CONTAINER: Object = {"name": "c", "image": "i"}
TEMPLATE: Object = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}
SELECTOR: Object = {"matchLabels": {"app": "x"}}
DISK: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

SPECIFICATIONS: dict[str, Object] = {
    "Pod": {"containers": [CONTAINER]},
    "Deployment": {"selector": SELECTOR, "template": TEMPLATE},
    "StatefulSet": {"selector": SELECTOR, "serviceName": "x", "template": TEMPLATE},
    "Job": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}},
    "Service": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
    "PersistentVolumeClaim": DISK,
    "PodDisruptionBudget": {"selector": SELECTOR, "minAvailable": 1},
    "NetworkPolicy": {"podSelector": {}, "policyTypes": ["Ingress"]},
}


def an_object(kind: str, spec: Object | None = None, name: str = "x", **metadata: Any) -> Object:
    return {
        "apiVersion": BY_KIND[kind].api_version,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": merge(SPECIFICATIONS[kind], spec or {}),
    }


def in_container(**fields: Any) -> Object:
    return {"containers": [{**CONTAINER, **fields}]}


@pytest.fixture
def api() -> Api:
    made = Api(Objects())
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    made.create(NAMESPACE, "", space, SENDER)
    return made


def create(api: Api, given: Object) -> Object:
    return api.create(BY_KIND[given["kind"]], "default", given, SENDER)


@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_what_is_in_order_is_kept(api: Api, kind: str) -> None:
    made = create(api, an_object(kind))
    assert made["metadata"]["uid"]
    assert api.objects.get(BY_KIND[kind], "default", "x") == made


WRONG: list[tuple[Object, str]] = [
    (an_object("Pod", {"hostNetwrk": True}), "hostNetwrk"),
    (an_object("Pod", {"containers": [{**CONTAINER, "imge": "i"}]}), "imge"),
    (an_object("Deployment", {"replicas": "2"}), "spec.replicas: '2' is not of type"),
    (an_object("Pod", name="Upper"), "metadata.name"),
    (an_object("Service", name="1st"), "metadata.name"),
    (an_object("StatefulSet", name="a.b"), "metadata.name"),
    (an_object("Pod", labels={"app": "x" * 64}), "label of 63"),
    (an_object("Pod", labels={"app": "a/b"}), "metadata.labels"),
    (an_object("Deployment", {"selector": {"matchLabels": {"app": "y"}}}), "does not match"),
    (an_object("Deployment", {"strategy": {"type": "Once"}}), "strategy.type"),
    (
        an_object("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
        "may not be specified",
    ),
    (
        an_object(
            "Deployment", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}
        ),
        "may not be 0",
    ),
    (an_object("Job", {"template": {"spec": {"restartPolicy": "Always"}}}), "OnFailure or Never"),
    (an_object("Service", {"ports": [{"port": 1}, {"port": 2}]}), "ports.name: Required"),
    (an_object("Service", {"ports": [{"port": 70000}]}), "70000"),
    (an_object("Service", {"type": "Cluster"}), "spec.type"),
    (an_object("PodDisruptionBudget", {"maxUnavailable": 1}), "exactly one"),
    (an_object("PersistentVolumeClaim", {"accessModes": []}), "access mode"),
    (
        an_object("PersistentVolumeClaim", {"resources": {"requests": {"storage": "1 GB"}}}),
        "is no quantity",
    ),
    (an_object("NetworkPolicy", {"policyTypes": ["In"]}), "policyTypes"),
    (
        an_object("NetworkPolicy", {"ingress": [{"ports": [{"port": 1, "protocol": "tcp"}]}]}),
        "protocol",
    ),
    (an_object("Pod", in_container(name="C")), "name: Invalid"),
    (an_object("Pod", in_container(ports=[{"containerPort": 1, "name": "x" * 16}])), "15 char"),
    (an_object("Pod", in_container(ports=[{"containerPort": 0}])), "containerPort"),
    (
        an_object(
            "Pod", in_container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}})
        ),
        "less than or equal to cpu limit",
    ),
    (an_object("Pod", in_container(resources={"limits": {"memory": "1GB"}})), "is no quantity"),
    (
        an_object("Pod", in_container(volumeMounts=[{"name": "v", "mountPath": "/v"}])),
        "Not found: 'v'",
    ),
    (
        an_object("Pod", in_container(env=[{"name": "A", "value": "1", "valueFrom": {}}])),
        "valueFrom",
    ),
    (an_object("Pod", in_container(livenessProbe={"httpGet": {"port": "web"}})), "no port is nam"),
    (an_object("Pod", in_container(livenessProbe={"periodSeconds": 1})), "exactly one handler"),
    (an_object("Pod", {"serviceAccountName": "nobody"}), "error looking up service account"),
    (an_object("Pod", namespace="elsewhere"), "does not match the namespace"),
]


@pytest.mark.parametrize(("given", "problem"), WRONG, ids=[problem for _, problem in WRONG])
def test_what_is_wrong_is_refused_with_its_place(api: Api, given: Object, problem: str) -> None:
    with pytest.raises(ApiError, match=problem):
        create(api, copy.deepcopy(given))


FIXED: list[tuple[str, Object, str]] = [
    ("StatefulSet", {"serviceName": "y"}, "serviceName are forbidden"),
    ("Job", {"template": {"spec": {"containers": [{"name": "c", "image": "j"}]}}}, "template"),
    ("Service", {"clusterIP": "10.0.0.9"}, "clusterIP: field is immutable"),
    ("PersistentVolumeClaim", {"accessModes": ["ReadWriteMany"]}, "accessModes are forbidden"),
    ("PersistentVolumeClaim", {"resources": {"requests": {"storage": "1M"}}}, "less than prev"),
    ("Deployment", {"selector": {"matchLabels": {"a": "b"}}}, "selector: field is immutable"),
    ("Pod", in_container(command=["x"]), "may not change fields other than image"),
]


@pytest.mark.parametrize(("kind", "change", "problem"), FIXED)
def test_what_may_not_change_is_refused(api: Api, kind: str, change: Object, problem: str) -> None:
    create(api, an_object(kind))
    content = "application/merge-patch+json"
    with pytest.raises(ApiError, match=problem):
        api.patch(BY_KIND[kind], "default", "x", content, {"spec": change}, SENDER)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("StatefulSet", {"replicas": 3, "template": {"metadata": {"labels": {"b": "c"}}}}),
        ("PersistentVolumeClaim", {"resources": {"requests": {"storage": "2Gi"}}}),
        ("Pod", in_container(image="j", **dict.fromkeys((), ""))),
    ],
)
def test_what_may_change_does(api: Api, kind: str, change: Object) -> None:
    create(api, an_object(kind))
    content = "application/strategic-merge-patch+json"
    before = api.objects.get(BY_KIND[kind], "default", "x")
    found = api.patch(BY_KIND[kind], "default", "x", content, {"spec": change}, SENDER)
    assert found["spec"] != before["spec"]
    assert found["metadata"]["generation"] == 2


def test_a_status_changes_by_its_own_path_alone(api: Api) -> None:
    create(api, an_object("Deployment"))
    content = "application/merge-patch+json"
    change: Object = {"spec": {"replicas": 5}, "status": {"replicas": 9}}
    kind = BY_KIND["Deployment"]
    found = api.patch(kind, "default", "x", content, change, SENDER, "status")
    assert (found["spec"]["replicas"], found["status"]["replicas"]) == (1, 9)
    found = api.patch(kind, "default", "x", content, {**change, "status": {}}, SENDER)
    assert (found["spec"]["replicas"], found["status"]["replicas"]) == (5, 9)


def test_an_update_of_an_old_revision_is_a_conflict(api: Api) -> None:
    old = create(api, an_object("Service"))
    content = "application/merge-patch+json"
    change: Object = {"metadata": {"labels": {"a": "b"}}}
    api.patch(BY_KIND["Service"], "default", "x", content, change, SENDER)
    with pytest.raises(ApiError, match="has been modified"):
        api.update(BY_KIND["Service"], old, SENDER)


OPEN: list[tuple[Object, str]] = [
    ({}, "allowPrivilegeEscalation=false"),
    ({"allowPrivilegeEscalation": False}, 'capabilities.drop=["ALL"]'),
    ({"runAsUser": 0}, "must not set runAsUser=0"),
    ({"privileged": True}, "privileged"),
]

CLOSED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def test_a_restricted_namespace_takes_restricted_pods_alone(api: Api) -> None:
    def restrict(space: Object) -> None:
        space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"

    api.objects.change(NAMESPACE, "", "default", restrict)
    for context, problem in OPEN:
        with pytest.raises(ApiError) as refused:
            create(api, an_object("Pod", in_container(securityContext=context)))
        assert problem in str(refused.value)
    volume = {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}
    with pytest.raises(ApiError, match="hostPath"):
        create(api, an_object("Pod", in_container(securityContext=CLOSED) | volume))
    create(api, an_object("Pod", in_container(securityContext=CLOSED)))


def test_an_account_may_do_what_its_roles_say(api: Api) -> None:
    access = Access(api.objects)
    group = "rbac.authorization.k8s.io"
    rule: Object = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get"]}
    role: Object = {"metadata": {"name": "reader"}, "rules": [{**rule, "resourceNames": ["x"]}]}
    binding: Object = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "app"}],
    }
    for kind, given in (("Role", role), ("RoleBinding", binding)):
        create(api, {"apiVersion": f"{group}/v1", "kind": kind, **given})
    user = access.user(f"Bearer {access.token_of('default', 'app')}")
    pods = BY_KIND["Pod"]
    access.check(user, "get", pods, "", "default", "x")
    for verb, subresource, namespace, name in (
        ("get", "", "default", "y"), ("delete", "", "default", "x"),
        ("get", "log", "default", "x"), ("get", "", "other", "x"),
    ):  # fmt: skip
        with pytest.raises(ApiError, match="is forbidden"):
            access.check(user, verb, pods, subresource, namespace, name)
    with pytest.raises(ApiError, match="Unauthorized"):
        access.user("Bearer other")
    with pytest.raises(ApiError, match="system:anonymous"):
        access.check(access.user(""), "list", pods, "", "default", "")


def test_quantities() -> None:
    assert amount("1.5Gi") == 3 * 2**29
    assert amount("250m") * 4 == amount("1e0") == 1
    assert scaled("25%", 3, up=True) == 1
    assert scaled("25%", 3, up=False) == 0


def test_selectors() -> None:
    labels = {"app": "x", "tier": "front"}
    for selector in ("", "app=x", "app==x,tier!=back", "tier in (front, back)", "app,!gone"):
        assert matches_labels(labels, selector), selector
    for selector in ("app=y", "app!=x", "tier notin (front)", "!app", "gone"):
        assert not matches_labels(labels, selector), selector
    assert matches_fields({"metadata": {"name": "n"}, "spec": {}}, "metadata.name=n,spec.x!=1")
    assert not matches_fields({"metadata": {"name": "n"}}, "metadata.name=m")
