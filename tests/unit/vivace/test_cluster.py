"""A cluster in Python has every operation of the table, with all its parameters."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from orchestrator.errors import InvalidInput
from orchestrator.operations import parameters
from orchestrator.operations.table import OPERATIONS
from orchestrator.records import PlanFile
from vivace import cluster

TREE = ast.parse(Path(cluster.__file__).read_text(encoding="utf-8"))

ELSEWHERE = {
    "operation-events": "`ApiClient.run` follows a long operation",
    "send": "what `stream` returns sends to the site itself",
    "stream": "what `stream` returns asks the status where it enters",
}
"""Operations without a method of their own, and what does instead."""

NOT_PASSED = {("TailParameters", "after"): "the client goes on by itself where it was"}


def name_behind(module: str, node: ast.AST) -> str:
    """The name that stands behind the module's, if it is meant."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == module:
        return node.attr
    return ""


PASSED = [
    (kind, {keyword.arg for keyword in node.keywords})
    for node in ast.walk(TREE)
    if isinstance(node, ast.Call) and (kind := name_behind("asked", node.func))
]
"""Which parameters are given with which values, wherever some are made."""


def test_every_operation_has_a_method() -> None:
    called = {name_behind("table", node).replace("_", "-").lower() for node in ast.walk(TREE)} - {
        ""
    }
    assert called | {*ELSEWHERE} == {each.name for each in OPERATIONS}
    assert called.isdisjoint(ELSEWHERE)


@pytest.mark.parametrize(("kind", "names"), PASSED, ids=[kind for kind, _ in PASSED])
def test_methods_pass_all_parameters(kind: str, names: set[str]) -> None:
    fields = msgspec.structs.fields(getattr(parameters, kind))
    left_out = {name for one, name in NOT_PASSED if one == kind}
    assert names | left_out == {each.name for each in fields}


@pytest.mark.parametrize("named", ["plan", "query.yaml:3"])
def test_an_error_of_a_plan_names_its_file(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = PlanFile(cluster="c", cluster_id="1", moves=(), basis={})
    file = tmp_path / "moves.json"
    file.write_bytes(msgspec.json.encode(plan))

    def refuse(*_: object) -> NoReturn:
        raise InvalidInput(named, "digest", "x", "was changed", "Plan again.")

    monkeypatch.setattr(cluster.ClusterClient, "run", refuse)
    client = object.__new__(cluster.ClusterClient)
    for given in (file, plan):
        with pytest.raises(InvalidInput) as caught:
            client.apply_plan(given)
        is_meant = named == "plan" and given is file
        assert caught.value.file == (str(file) if is_meant else named)
