"""The schemas of the docs are those of the records."""

from __future__ import annotations

import json

from orchestrator.operations.table import OPERATIONS
from scripts.result_schemas import FOLDER, schemas, written


def test_schemas_are_current() -> None:
    there = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    told = {name: written(schema) for name, schema in schemas().items()}
    assert there == told, "run: python -m scripts.result_schemas"


def test_every_operation_has_one() -> None:
    for operation in OPERATIONS:
        schema = json.loads((FOLDER / f"{operation.name}.json").read_text(encoding="utf-8"))
        assert schema["description"] == operation.summary
