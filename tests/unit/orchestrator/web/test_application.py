"""The routes of the HTTP API: who may ask, what it says, and how much may be asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from orchestrator.operations import table
from orchestrator.operations.operation import Manner, Operation
from orchestrator.operations.parameters import EventsParameters, Parameters, TailParameters
from orchestrator.operations.table import HISTORY, OPERATIONS, STATUS
from orchestrator.results.streams import TailBatch, TailEvent, TailRow
from orchestrator.web import limits, service
from orchestrator.web.application import MOST_BODY_BYTES
from orchestrator.web.openapi import PREFIX
from tests.conftest import PATIENCE_S
from tests.obedient_cluster import ObedientCluster
from tests.served_cluster import Served, served


@pytest.fixture(scope="module")
def here() -> Generator[Served]:
    with served(ObedientCluster()) as found:
        yield found


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUESTS_S", 1e9)


def routes(here: Served) -> list[tuple[str, str]]:
    """Method and path of each route of the OpenAPI document, and those beside it."""
    paths = here.client.get(f"{PREFIX}openapi.json").json()["paths"]
    found = [(method, path) for path, methods in paths.items() for method in methods]
    return [*found, ("get", "/metrics"), ("get", f"{PREFIX}openapi.json")]


def test_the_document_has_every_operation(here: Served) -> None:
    described = here.client.get(f"{PREFIX}openapi.json").json()
    assert described["openapi"] == "3.1.0"
    told = {(o.method.lower(), PREFIX + o.path) for o in OPERATIONS}
    assert {*routes(here)} >= told
    for operation in OPERATIONS:
        found = described["paths"][PREFIX + operation.path][operation.method.lower()]
        assert found["operationId"] == operation.name
        assert ("202" in found["responses"]) == (operation.manner is Manner.LONG)


def test_a_body_is_required_by_whoever_needs_something_of_it(here: Served) -> None:
    paths = here.client.get(f"{PREFIX}openapi.json").json()["paths"]
    bodies = {name: each["post"]["requestBody"] for name, each in paths.items() if "post" in each}
    assert not bodies[f"{PREFIX}nodes/{{node}}/cordon"]["required"]
    assert bodies[f"{PREFIX}fragments/{{fragment}}/move"]["required"]
    for path, body in bodies.items():
        fields = body["content"]["application/json"]["schema"]["required"]
        assert body["required"] == bool(fields), path


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic dXNlcjpwYXNz"])
def test_no_route_responds_without_a_token_that_is_known(here: Served, header: str) -> None:
    for method, path in routes(here):
        response = here.client.request(method, path, headers={"Authorization": header})
        assert response.status_code == 401, path
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert response.json()["error"]["type"] == "Unauthorized"


def test_anybody_may_ask_whether_it_works(here: Served) -> None:
    for path in ("/livez", "/readyz"):
        response = here.client.get(path, headers={"Authorization": ""})
        assert response.status_code in (200, 503)
        assert response.text in ("alive\n", "unready\n", "ready\n")
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_metrics_are_a_text(here: Served) -> None:
    response = here.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain")
    assert "vivace_host_up" in response.text


def test_a_result_that_has_not_changed_is_not_sent_again(here: Served) -> None:
    first = here.client.get(f"{PREFIX}drills")
    again = here.client.get(f"{PREFIX}drills", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert float(again.headers["Vivace-View-Age"]) >= 0


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("history?limit=none", "limit"),
        ("history?limit=0", "limit"),
        (f"history?limit=1{'0' * 30}", "limit"),
        ("history?limt=3", ""),
        ("history?limit=3&limit=4", "limit"),
    ],
)
def test_a_wrong_parameter_is_named(here: Served, path: str, field: str) -> None:
    response = here.client.get(PREFIX + path)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["file"], error["field"]) == ("InvalidInput", "request", field)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "is no JSON object"),
        (b"[]", "is no JSON object"),
        (b'{"dry_run":' + b"[" * 100_000, "is no JSON object"),
        (b'"\xff"', "is no JSON object"),
        (b'{"dry_run": "yes"}', "Expected `bool`, got `str`"),
        (b'{"node": "paris"}', "is in the path"),
        (b'{"drain": true}', "unknown field `drain`"),
    ],
)
def test_a_wrong_body_is_refused(here: Served, body: bytes, problem: str) -> None:
    response = here.client.post(f"{PREFIX}nodes/paris/cordon", content=body)
    assert response.status_code == 400
    assert problem in response.json()["error"]["message"]


def test_what_is_not_there_is_not_found(here: Served) -> None:
    for method, path in (
        ("GET", "nothing"),
        ("GET", "operations/none"),
        ("GET", "operations/none/events"),
        ("GET", "streams/none/tail"),
        ("POST", "nodes/none/cordon"),
        ("POST", "fragments/none/withdraw"),
    ):
        response = here.client.request(method, PREFIX + path)
        assert response.status_code == 404, path
        assert response.json()["error"]["message"]


def test_another_method_is_refused(here: Served) -> None:
    response = here.client.request("PATCH", f"{PREFIX}status")
    assert response.status_code == 405
    assert response.json()["error"]["type"] == "MethodNotAllowed"


def test_a_path_tells_all_of_its_methods(here: Served) -> None:
    paths = here.client.get(f"{PREFIX}openapi.json").json()["paths"]
    for path, methods in paths.items():
        response = here.client.options(path)
        assert response.status_code == 204
        allowed = {each.lower() for each in response.headers["Allow"].split(", ")}
        assert allowed == {*methods, "options"}, path


def test_a_body_that_is_too_large_is_refused(here: Served) -> None:
    response = here.client.post(f"{PREFIX}validate", content=b" " * (MOST_BODY_BYTES + 1))
    assert response.status_code == 413
    assert response.json()["error"]["message"]


def test_more_requests_than_fifty_a_second_are_refused(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REQUESTS_S", 5)
    asked = 0
    while (response := here.client.get(f"{PREFIX}drills")).status_code == 200:
        asked += 1
        assert asked < 1000, "no limit"
    assert response.status_code == 429
    assert response.headers["Retry-After"] == "1"
    assert asked >= 5


def test_reads_go_on_while_the_store_is_away(here: Served) -> None:
    before = here.ask(STATUS, STATUS.parameters()).json()
    here.cluster.server.go_away()
    try:
        response = here.ask(STATUS, STATUS.parameters())
        assert response.status_code == 200
        assert response.json()["nodes"] == before["nodes"]
        assert float(response.headers["Vivace-View-Age"]) > 0
        refused = here.client.post(f"{PREFIX}nodes/paris/cordon")
        assert refused.status_code == 503
        assert refused.headers["Retry-After"]
        assert refused.json()["error"]["type"] == "StoreUnavailable"
    finally:
        here.cluster.server.come_back()
    assert here.client.post(f"{PREFIX}nodes/paris/cordon").status_code == 200


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_no_input_of_a_stranger_is_a_bug(here: Served, operation: Operation[Any, Any]) -> None:
    if operation.manner is Manner.STREAM:
        return
    for value in ("x", "%00", "..", "é", "a" * 300):
        path = PREFIX + operation.path.format(**dict.fromkeys(operation.path_fields, value))
        response = here.client.request(operation.method, path)
        assert response.status_code < 500, (path, response.text)


def test_the_id_of_no_event_is_ignored(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[Parameters] = []

    async def stream(asked: Parameters, *_: object) -> AsyncGenerator[bytes]:
        followed.append(asked)
        return nothing()

    async def nothing() -> AsyncGenerator[bytes]:
        yield b""

    monkeypatch.setattr(here.service, "stream", stream)
    for last in ("x", "1" * 5000, "-2", "1.5", "7", "-1"):
        response = here.client.get(f"{PREFIX}events?after=3", headers={"Last-Event-ID": last})
        assert response.status_code == 200, last
    assert followed == [EventsParameters(after=number) for number in (3, 3, 3, 3, 7, -1)]


def test_a_stream_is_followed_from_the_last_tuple_that_came(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[str | None] = []

    def follow(
        _: object, asked: TailParameters, tell: Callable[[TailEvent], None], __: object
    ) -> None:
        followed.append(asked.after)
        row = TailRow(seq=8, timestamp_ms=0, values={})
        tell(TailEvent(batch=TailBatch(lost=0, rows=(row,), generation=3)))

    monkeypatch.setattr(service, "follow", follow)
    for last in ("", "x", "7", "3-7"):
        response = here.client.get(
            f"{PREFIX}streams/alerts/tail?after=2-5", headers={"Last-Event-ID": last}
        )
        assert "\nid: 3-8\n" in response.text
    assert followed == ["2-5", "2-5", "2-5", "3-7"]
    assert here.client.get(f"{PREFIX}streams/alerts/tail?after=x").status_code == 400


def test_a_stream_that_nobody_reads_is_counted_no_more(here: Served) -> None:
    async def permitted() -> bool:
        return True

    async def follow() -> None:
        events = await here.service.stream(EventsParameters(), permitted)
        assert here.service.streams.open == 1
        del events
        while here.service.streams.open:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(follow(), PATIENCE_S))


def test_who_waits_for_the_leader_holds_up_no_reader(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, waiting = threading.Event(), threading.Semaphore(0)
    carry_out = service.carry_out

    def stuck(operation: Operation[Any, Any], *given: Any) -> Any:
        if operation is not table.PREVIEW:
            return carry_out(operation, *given)
        waiting.release()
        assert go_on.wait(PATIENCE_S)
        return None

    monkeypatch.setattr(service, "carry_out", stuck)
    with ThreadPoolExecutor(limits.MOST_WAITING) as clients:
        asked = [
            clients.submit(here.client.post, f"{PREFIX}plan", json={"manifests": []})
            for _ in range(limits.THREADS)
        ]
        try:
            for _ in asked:
                assert waiting.acquire(timeout=PATIENCE_S)
            found = clients.submit(here.client.get, f"{PREFIX}history?limit=7")
            assert found.result(PATIENCE_S).status_code == 200
        finally:
            go_on.set()
        assert {each.result(PATIENCE_S).status_code for each in asked} == {200}


def test_the_history_is_limited(here: Served) -> None:
    found = here.ask(HISTORY, HISTORY.parameters(limit=1)).json()["history"]
    assert len(found) == 1
