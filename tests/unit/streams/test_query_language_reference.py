"""Every example of docs/query-language.md gives what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from streams.language import QueryError, parse
from streams.language.loops import with_loops
from streams.language.views import with_relations
from streams.plan.compiler import compile_statement
from tests.unit.streams.running import Columns, Row, output

text = Path(__file__, "../../../../docs/query-language.md").resolve().read_text(encoding="utf-8")
examples = re.findall(r"```example\n(.*?)```", text, flags=re.DOTALL)
header = re.compile(r"(\w+)\((.*)\)")


def value(word: str, kind: str) -> Any:
    if word == "NULL":
        return None
    if kind == "bool":
        return word == "TRUE"
    return {"int": int, "float": float, "string": str}[kind](word)


def row(line: str, columns: Columns) -> Row:
    timestamp, *words = line.split()
    return int(timestamp), *map(value, words, columns.values())


@pytest.mark.parametrize("example", examples)
def test_example(example: str) -> None:
    before, query, after = re.split(r"(REGISTER.*;)\n", example, maxsplit=1, flags=re.DOTALL)
    catalogue: dict[str, Columns] = {}
    inputs: dict[str, list[Row]] = {}
    stream = ""
    for line in before.splitlines():
        if (found := header.fullmatch(line)) is not None:
            stream = found[1]
            names, kinds = zip(*map(str.split, found[2].split(", ")), strict=True)
            catalogue[stream] = dict(zip(names, kinds, strict=True))
            inputs[stream] = []
        else:
            inputs[stream].append(row(line, catalogue[stream]))
    statements = with_relations(parse(query))
    *earlier, statement = with_loops(statements, [statements[-1].name])
    until = re.search(r"^until (\d+)$", after, flags=re.MULTILINE)
    end_ms = int(until[1]) if until else None
    for one in earlier:
        if not one.is_relation:
            program = compile_statement(one, catalogue)
            inputs[one.name] = output(program, inputs, end_ms)
            catalogue[one.name] = program.columns
    compiled = compile_statement(statement, catalogue)
    expected = [
        row(line.removeprefix("->"), compiled.columns)
        for line in after.splitlines()
        if line.startswith("->")
    ]
    assert expected
    assert output(compiled, inputs, end_ms) == expected


def test_example_of_an_error() -> None:
    (statement,) = parse("REGISTER QUERY q RSTREAM(SELECT hight FROM s [NOW]);")
    with pytest.raises(QueryError) as raised:
        compile_statement(statement, {"s": {"height": "float", "weight": "float"}})
    shown = "\n".join("    " + line for line in str(raised.value).split("\n"))
    assert shown in text


def test_there_are_examples() -> None:
    assert len(examples) == text.count("```example") >= 10
