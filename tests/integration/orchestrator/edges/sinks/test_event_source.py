"""Readers of results that come again as browsers do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.orchestrator.edges.sinks.test_http_results import Site, events, identities


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.sink.close()


def test_an_event_source_that_began_after_a_tuple_gets_none_again(site: Site) -> None:
    site.deliver(7, 0, 6)
    assert events(site.sink, 3, "?after=7-1") == identities(7, 2, 3, 4)
    # The connection breaks. By the standard, an EventSource asks for the same address again, and
    # says in `Last-Event-ID` which event it had last.
    site.restart()
    assert events(site.sink, 1, "?after=7-1", Last_Event_ID="7-4") == identities(7, 5)
