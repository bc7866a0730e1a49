"""Writes the table of values in the chart's README, and its `values.schema.json`.

Both come from `charts/vivace/values.yaml`: `python -m scripts.chart_docs` rewrites them, and a unit
test fails until that is done. A value has a comment above it; lines of the comment that begin with
`@` are annotations, which say what the value may be where its default does not tell:

    @type T     string, integer, boolean, array or object; the default may then be null
    @enum A, B  one of these
    @min, @max  bounds of a number
    @ref NAME   a definition of `scripts.chart_schema`

Refused are: a value without a comment, a value that no template reads, and a template that reads a
value which is not there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.chart_schema import DEFINITIONS, ROOT_PROPERTIES
from scripts.marked_tables import with_table

CHART = Path(__file__).resolve().parent.parent / "charts" / "vivace"

README, SCHEMA = CHART / "README.md", CHART / "values.schema.json"

_annotation = re.compile(r"@(?P<name>\w+)\s*(?P<text>.*)")
_read = re.compile(r"\.Values((?:\.[A-Za-z]\w*)*)")
_types = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object"}


class ChartError(Exception):
    """Values, comments and templates do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartValue:
    """A value, or a group of values.

    Attributes
    ----------
    path
        Names from the top.
    default
        As it stands in the file.
    annotations
        Name → text.
    inner
        Of a group, what is in it.
    """

    path: tuple[str, ...]
    default: Any
    about: str
    annotations: Mapping[str, str]
    inner: tuple[ChartValue, ...]

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def leaves(self) -> Iterator[ChartValue]:
        """The values in it."""
        if not self.inner:
            yield self
        for each in self.inner:
            yield from each.leaves()


def read_values(text: str) -> tuple[ChartValue, ...]:
    """The values of a file, with their comments.

    Raises
    ------
    ChartError
        One has no comment.
    """
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    return _group(node, yaml.safe_load(text), text.splitlines(), ())


def _group(
    node: yaml.MappingNode, values: Mapping[str, Any], lines: list[str], path: tuple[str, ...]
) -> tuple[ChartValue, ...]:
    found: list[ChartValue] = []
    for key, value in node.value:
        place = (*path, key.value)
        about, annotations = _comment(lines, key.start_mark.line)
        if not about:
            raise ChartError(f"{'.'.join(place)}: has no comment")
        default = values[key.value]
        opaque = annotations.keys() & {"ref", "type"} or not default
        inner = isinstance(value, yaml.MappingNode) and not opaque
        found.append(
            ChartValue(
                path=place,
                default=default,
                about=about,
                annotations=annotations,
                inner=_group(value, default, lines, place) if inner else (),
            )
        )
    return tuple(found)


def _comment(lines: list[str], line: int) -> tuple[str, dict[str, str]]:
    """The comment that stands directly above a line: its text, and its annotations."""
    begin = line
    while begin and lines[begin - 1].lstrip().startswith("#"):
        begin -= 1
    texts = [each.lstrip().removeprefix("#").strip() for each in lines[begin:line]]
    annotations = {
        found["name"]: found["text"] for text in texts if (found := _annotation.fullmatch(text))
    }
    return " ".join(text for text in texts if not _annotation.fullmatch(text)), annotations


def schema(values: tuple[ChartValue, ...]) -> dict[str, Any]:
    """The schema of the values, strict at every level that the chart itself defines."""
    (pods,) = [value for value in values if value.name == "pods"]
    pod: dict[str, Any] = {"description": pods.about, **_object(pods.inner)}
    # What a component's own `pod` leaves out, it has from `pods`.
    fields: dict[str, dict[str, Any]] = pod["properties"]
    for field in fields.values():
        field.pop("required", None)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart vivace",
        **_there(values),
        **_object(values, ROOT_PROPERTIES),
        "definitions": {**DEFINITIONS, "pod": pod},
    }


def _object(
    values: tuple[ChartValue, ...], more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    properties = {**{value.path[-1]: _of(value) for value in values}, **(more or {})}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _there(values: tuple[ChartValue, ...]) -> dict[str, Any]:
    """What a null would remove, and templates count on."""
    needed = [value for value in values if value.default is not None]
    return {
        "required": [
            value.path[-1] for value in needed if value.annotations.get("ref") != "resources"
        ]
    }


def _of(value: ChartValue) -> dict[str, Any]:
    if value.inner:
        inner = {**_there(value.inner), **_object(value.inner)}
        return {"description": value.about, **inner}
    annotations = value.annotations
    if "ref" in annotations:
        if annotations["ref"] not in {*DEFINITIONS, "pod"}:
            raise ChartError(f"{value.name}: no definition is named {annotations['ref']!r}")
        return {
            "description": value.about,
            "allOf": [{"$ref": f"#/definitions/{annotations['ref']}"}],
        }
    if "enum" in annotations:
        # As Helm reads them: `on` is a text in YAML 1.2 and a truth in 1.1, so quote neither.
        choices = [
            yaml.safe_load(each) if each[0].isdigit() else each for each in _split(annotations)
        ]
        known: dict[Any, Any] = {"null": None, "true": True, "false": False}
        return {"description": value.about, "enum": [known.get(each, each) for each in choices]}
    kind = annotations.get("type") or _types[type(value.default)]
    found: dict[str, Any] = {
        "description": value.about,
        "type": [kind, "null"] if value.default is None else kind,
    }
    bounds = {"min": "minimum", "max": "maximum"}
    return found | {
        bounds[annotation]: int(annotations[annotation])
        for annotation in bounds
        if annotation in annotations
    }


def _split(annotations: Mapping[str, str]) -> list[str]:
    return [each.strip() for each in annotations["enum"].split(",")]


def table(values: tuple[ChartValue, ...]) -> str:
    """The rows of the README: groups in bold, values with their defaults."""
    rows = ["| value | default | meaning |", "| --- | --- | --- |"]

    def add(value: ChartValue) -> None:
        default = "" if value.inner else f"`{_shown(value.default)}`"
        choices = value.annotations.get("enum", "").replace(", null", "")
        about = value.about + (f" One of {choices}." if choices else "")
        name = f"**`{value.name}`**" if value.inner else f"`{value.name}`"
        rows.append(f"| {name} | {default} | {about} |".replace(" |  | ", " | | "))
        for each in value.inner:
            add(each)

    for value in values:
        add(value)
    return "\n".join(rows) + "\n"


def _shown(default: Any) -> str:
    return json.dumps(default, ensure_ascii=False).replace("|", "\\|")


def check_templates(values: tuple[ChartValue, ...], templates: Mapping[str, str]) -> None:
    """Refuse values and templates that do not fit.

    Raises
    ------
    ChartError
        A value is read nowhere, or one is read that there is not.
    """
    there = {leaf.path for value in values for leaf in value.leaves()}
    read = {
        tuple(match[1].split(".")[1:]): name
        for name, text in templates.items()
        for match in _read.finditer(text)
    }
    for path, name in read.items():
        if not any(_along(path, each) for each in there):
            raise ChartError(f"{name}: reads .Values.{'.'.join(path)}, which is not there")
    for path in sorted(there):
        if not any(each and _along(each, path) for each in read):
            raise ChartError(f"{'.'.join(path)}: no template reads it")


def _along(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one of two paths begins with the other."""
    short = min(len(one), len(other))
    return one[:short] == other[:short]


def templates(chart: Path = CHART) -> dict[str, str]:
    """All templates: their path, and their text."""
    files = sorted((chart / "templates").rglob("*.*"))
    return {str(file.relative_to(chart)): file.read_text("utf-8") for file in files}


def generated() -> dict[Path, str]:
    """The files as they should be.

    Raises
    ------
    ChartError
        Values, comments and templates do not fit.
    """
    values = read_values((CHART / "values.yaml").read_text("utf-8"))
    check_templates(values, templates())
    return {
        README: with_table(README.read_text("utf-8"), "values", table(values)),
        SCHEMA: json.dumps(schema(values), indent=1, ensure_ascii=False) + "\n",
    }


def main() -> int:
    """Bring both files up to date."""
    try:
        files = generated()
    except ChartError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for path, text in files.items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
