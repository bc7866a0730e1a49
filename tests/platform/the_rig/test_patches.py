"""Patches of objects, as Kubernetes' clients send them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.platform.field_managers import apply, note_update
from tests.platform.kinds import Object
from tests.platform.objects import ApiError
from tests.platform.patches import json_patch, merge, strategic_merge


def pod(**containers: Object) -> Object:
    listed = [{"name": name, **fields} for name, fields in containers.items()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": listed},
    }


def containers(found: Object) -> dict[str, Object]:
    return {each["name"]: each for each in found["spec"]["containers"]}


def test_a_merge_patch_removes_what_is_null_and_replaces_lists() -> None:
    found = merge({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": [2, 3]})
    assert found == {"a": {"c": 2}, "d": [2, 3]}


def test_a_strategic_merge_patch_merges_lists_by_their_keys() -> None:
    found = pod(a={"image": "1", "env": [{"name": "X", "value": "1"}]}, b={"image": "1"})
    change: Object = {
        "spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}],
            "containers": [
                {"name": "a", "env": [{"name": "Y", "value": "2"}]},
                {"name": "b", "$patch": "delete"},
                {"name": "c", "image": "2"},
            ],
        }
    }
    patched = containers(strategic_merge(found, change))
    assert list(patched) == ["a", "c"]
    assert patched["a"]["image"] == "1"
    assert [each["name"] for each in patched["a"]["env"]] == ["X", "Y"]


def test_ports_of_the_same_number_and_another_protocol_are_merged_as_kubernetes_does() -> None:
    found = {"ports": [{"containerPort": 53, "protocol": "TCP"}]}
    change = {"ports": [{"containerPort": 53, "name": "dns"}]}
    assert strategic_merge(found, change)["ports"] == [
        {"containerPort": 53, "protocol": "TCP", "name": "dns"}
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"$patch": "replace", "b": 1}, {"b": 1}),
        ({"$retainKeys": ["b"], "b": 1}, {"b": 1}),
        ({"$deleteFromPrimitiveList/finalizers": ["x"]}, {"a": 1, "finalizers": ["y"]}),
        ({"finalizers": ["z", "x"]}, {"a": 1, "finalizers": ["x", "y", "z"]}),
    ],
)
def test_directives(change: Object, expected: Object) -> None:
    assert strategic_merge({"a": 1, "finalizers": ["x", "y"]}, change) == expected


def test_a_json_patch_is_carried_out_in_order() -> None:
    operations: list[Object] = [
        {"op": "test", "path": "/a/0", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "replace", "path": "/a/0", "value": 2},
        {"op": "remove", "path": "/b~1c"},
        {"op": "move", "from": "/d", "path": "/e"},
        {"op": "copy", "from": "/e", "path": "/f"},
    ]
    found = json_patch({"a": [1], "b/c": 1, "d": 4}, operations)
    assert found == {"a": [2, 3], "e": 4, "f": 4}
    with pytest.raises(ApiError, match="rejected"):
        json_patch({"a": [1]}, [{"op": "test", "path": "/a/0", "value": 9}])


def applied(found: Object | None, manager: str, given: Object, *, force: bool = False) -> Object:
    return apply(found, given, manager, force=force)


def test_two_managers_apply_different_fields_and_keep_what_is_the_others() -> None:
    found = applied(None, "one", pod(a={"image": "1"}))
    found = applied(found, "two", pod(a={"workingDir": "/"}, b={"image": "2"}))
    assert containers(found)["a"] == {"name": "a", "image": "1", "workingDir": "/"}
    found = applied(found, "two", pod(b={"image": "2"}))
    assert containers(found)["a"] == {"name": "a", "image": "1"}
    found = applied(found, "two", pod())
    assert list(containers(found)) == ["a"]


def test_a_field_of_another_manager_is_a_conflict_unless_forced() -> None:
    found = applied(None, "one", pod(a={"image": "1"}))
    with pytest.raises(ApiError, match=r'conflict with "one": \.spec\.containers') as refused:
        applied(found, "two", pod(a={"image": "2"}))
    assert refused.value.code == 409
    applied(found, "two", pod(a={"image": "1"}))
    found = applied(found, "two", pod(a={"image": "2"}), force=True)
    assert containers(found)["a"]["image"] == "2"
    # It is no longer the first one's, who leaves it alone and has it stay.
    found = applied(found, "one", pod())
    assert containers(found)["a"]["image"] == "2"


def test_a_field_that_somebody_has_updated_is_theirs() -> None:
    found = applied(None, "one", pod(a={"image": "1"}))
    changed: Any = strategic_merge(found, pod(a={"image": "3"}))
    note_update(found, changed, "editor")
    with pytest.raises(ApiError, match='conflict with "editor"'):
        applied(changed, "one", pod(a={"image": "1"}))


def test_applying_the_same_again_changes_nothing() -> None:
    found = applied(None, "one", pod(a={"image": "1", "env": [{"name": "X", "value": ""}]}))
    given = pod(a={"image": "1", "env": [{"name": "X", "value": ""}]})
    assert applied(found, "one", given) == found
