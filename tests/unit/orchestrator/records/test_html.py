"""Records as tables of a notebook."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import get_args, get_origin

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.operations.table import OPERATIONS
from orchestrator.records.html import MOST_ROWS, html
from orchestrator.results.drills import DrillDocument
from orchestrator.results.metrics import MetricsDocument, Sample


class _Texts(HTMLParser):
    """The texts of a page, and its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(st.text(min_size=1))
def test_what_streams_and_manifests_name_is_text(text: str) -> None:
    page = _Texts()
    page.feed(html(DrillDocument(name=text, what="<script>")))
    page.close()
    assert page.tags == {"table", "tr", "th", "td"}
    assert text in "".join(page.texts)


def test_records_of_a_list_are_rows_and_not_all_of_many() -> None:
    many = tuple(Sample(name=f"m{n}", labels={}, value=float(n)) for n in range(MOST_ROWS + 5))
    shown = html(MetricsDocument(metrics=many))
    assert shown.count("<tr>") == 1 + 1 + MOST_ROWS
    assert "and 5 more" in shown


def test_results_of_operations_are_tables_in_notebooks() -> None:
    results = [each.result for each in OPERATIONS]
    # Of a list, its records are.
    records = [get_args(each)[0] if get_origin(each) is tuple else each for each in results]
    assert [each.__name__ for each in records if not hasattr(each, "_repr_html_")] == []
