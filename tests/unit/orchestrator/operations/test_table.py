"""The table of operations: names, paths and parameters go together."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from orchestrator.operations.operation import AccessRole, Operation
from orchestrator.operations.table import OPERATIONS

HEAVY = ("kazoo", "lark", "numba", "numpy", "psutil", "pyarrow", "pyspark", "scipy", "yaml", "zmq")
"""What a client of the HTTP API need not import: each takes longer than a request."""


TOLD_TO_OPERATORS = ("tokens", "logs", "records")
"""What a GET tells only to those who may change the cluster."""


def named(operation: Operation[Any, Any]) -> str:
    return operation.name


def test_a_client_imports_no_code_of_the_cluster() -> None:
    told = "import sys, orchestrator.operations.table; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in shown.stdout.split()}
    assert imported.isdisjoint(HEAVY)
    assert "orchestrator.api" not in shown.stdout.split()


def test_names_and_routes_are_unique() -> None:
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS)
    assert len({(each.method, each.path) for each in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_fields_in_a_path_are_parameters_that_must_be_given(
    operation: Operation[Any, Any],
) -> None:
    fields = {each.encode_name: each for each in msgspec.structs.fields(operation.parameters)}
    for name in operation.path_fields:
        assert fields[name].required
        assert fields[name].type is str


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_reading_is_all_that_a_get_does(operation: Operation[Any, Any]) -> None:
    reads = operation.method == "GET" and operation.name not in TOLD_TO_OPERATORS
    assert (operation.role is AccessRole.READ) == reads
    assert not (reads and operation.changes)


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_results_have_a_schema(operation: Operation[Any, Any]) -> None:
    schemas, _ = msgspec.json.schema_components([operation.parameters, operation.result])
    assert len(schemas) == 2
