"""What a client accepts, by its header `Accept`."""

from __future__ import annotations

import pytest

from orchestrator.edges.http_server import HttpError, StreamRequest

EVENTS, ARROW = "text/event-stream", "application/vnd.apache.arrow.stream"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, EVENTS),
        ("", EVENTS),
        ("*/*", EVENTS),
        ("text/html, application/xml;q=0.9, */*;q=0.8", EVENTS),
        ("*/*, application/vnd.apache.arrow.stream", ARROW),
        ("Application/*", ARROW),
        ("text/event-stream;q=0.5, application/vnd.apache.arrow.stream;v=1; q=0.6", ARROW),
        ("text/event-stream; Q=0, */*;q=.2", ARROW),
        ("text/event-stream; q=much", EVENTS),
        ("application/json", None),
        ("*/*;q=0", None),
        ("text", None),
    ],
)
def test_the_type_that_a_client_prefers(accept: str | None, kind: str | None) -> None:
    headers = {} if accept is None else {"accept": accept}
    request = StreamRequest(headers=headers, query={})
    if kind is not None:
        assert request.preferred("results come", EVENTS, ARROW) == kind
        return
    with pytest.raises(HttpError, match=f"results come as {EVENTS} or {ARROW}, not as ") as refused:
        request.preferred("results come", EVENTS, ARROW)
    assert refused.value.status == 406
