"""README and schema of the chart, made from its values."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.documents.units import UnitError, duration_ms, memory_bytes, rate_bytes_s
from scripts import chart_docs
from scripts.chart_docs import ChartError, check_templates, read_values, schema, table
from scripts.chart_schema import DEFINITIONS

VALUES = """\
# What is first.
# @min 1
replicas: 2

# A group.
group:
  # A choice
  # of two.
  # @enum a, b, null
  choice: null
"""


def test_files_are_up_to_date() -> None:
    for path, text in chart_docs.generated().items():
        assert path.read_text("utf-8") == text, "run `python -m scripts.chart_docs`"


def test_comments_annotations_and_defaults_become_table_and_schema() -> None:
    values = read_values(VALUES)
    assert table(values).splitlines()[2:] == [
        "| `replicas` | `2` | What is first. |",
        "| **`group`** | | A group. |",
        "| `group.choice` | `null` | A choice of two. One of a, b. |",
    ]
    with_pods = read_values(f"{VALUES}\n# Pods.\npods: {{}}\n")
    properties = schema(with_pods)["properties"]
    assert properties["replicas"] == {
        "description": "What is first.", "type": "integer", "minimum": 1
    }  # fmt: skip
    assert properties["group"]["additionalProperties"] is False
    assert properties["group"]["properties"]["choice"]["enum"] == ["a", "b", None]


def test_a_value_without_a_comment_is_refused() -> None:
    with pytest.raises(ChartError, match=r"^group\.other: has no comment$"):
        read_values(VALUES + "  other: 1\n")


def test_a_value_that_no_template_reads_is_refused() -> None:
    with pytest.raises(ChartError, match=r"^group\.choice: no template reads it$"):
        check_templates(read_values(VALUES), {"a.yaml": "{{ .Values.replicas }}"})


def test_a_template_that_reads_no_value_is_refused() -> None:
    text = "{{ .Values.replicas }} {{ $.Values.group.chioce }}"
    with pytest.raises(ChartError, match=r"^a\.yaml: reads \.Values\.group\.chioce, which is not"):
        check_templates(read_values(VALUES), {"a.yaml": text})


def test_an_annotation_that_names_no_definition_is_refused() -> None:
    values = read_values("# Pods.\npods: {}\n# A name.\n# @ref nmaes\nnames: []\n")
    with pytest.raises(ChartError, match="no definition is named 'nmaes'"):
        schema(values)


@given(
    number=st.sampled_from(["0", "1", "25", "1.5", "1_000", "2e3", "1.5e-2"]),
    unit=st.sampled_from(
        ["us", "µs", "ms", "s", "min", "h", "d", "B", "KB", "MiB", "GB", "k", "m"]
    ),
    per=st.sampled_from(["", "/s"]),
    space=st.sampled_from(["", " "]),
)
def test_the_chart_takes_the_quantities_that_manifests_take(
    number: str, unit: str, per: str, space: str
) -> None:
    text = f"{number}{space}{unit}{per}"
    for name, read in (("duration", duration_ms), ("size", memory_bytes), ("rate", rate_bytes_s)):
        taken = True
        try:
            read(text)
        except UnitError:
            taken = False
        assert (re.search(DEFINITIONS[name]["pattern"], text) is not None) == taken, (name, text)
