"""Tokens of the HTTP API on every route, and who asked in the history."""

from __future__ import annotations

import io
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from rich.console import Console

from orchestrator.cli.render.history import events_table
from orchestrator.operations import table
from orchestrator.operations.operation import AccessRole
from orchestrator.operations.parameters import (
    AutomationParameters,
    CordonParameters,
    DeleteParameters,
    RevokeParameters,
    TokenParameters,
    VerifyParameters,
)
from orchestrator.operations.texts import NamedText
from orchestrator.records import AutomationMode, HistoryEvent
from orchestrator.results.status import EventDocument
from orchestrator.store.protocol import TOKENS
from orchestrator.web import limits, long_operations, service
from orchestrator.web.openapi import PREFIX
from tests.conftest import PATIENCE_S
from tests.obedient_cluster import ObedientCluster
from tests.served_cluster import Served, served


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Generator[Served]:
    monkeypatch.setattr(limits, "REQUESTS_S", 1e9)
    monkeypatch.setattr(service, "SHARED_S", 0.0)
    with served(ObedientCluster()) as found:
        yield found


def draw(here: Served, **asked: object) -> tuple[str, str]:
    """A new token's id, and the token."""
    given = msgspec.convert(asked, TokenParameters)
    found = here.ask(table.TOKEN_CREATE, given).json()
    return found["id"], found["token"]


def events(here: Served, kind: str) -> list[HistoryEvent]:
    return [each.event for each in here.cluster.store.history() if each.event.kind == kind]


def every_route(here: Served, token: str) -> dict[str, int]:
    """Operation → the status of a request with a token."""
    found: dict[str, int] = {}
    for operation in table.OPERATIONS:
        path = PREFIX + operation.path.format(**dict.fromkeys(operation.path_fields, "none"))
        header = {"Authorization": f"Bearer {token}"}
        if operation.name == table.EVENTS.name:
            # It has no end: a wrong parameter is enough to see who may ask.
            path += "?after=x"
        found[operation.name] = here.client.request(
            operation.method, path, headers=header
        ).status_code
    return found


def test_a_token_is_shown_once_and_kept_as_a_digest(here: Served) -> None:
    name, token = draw(here, note="for the wall")
    kept = msgspec.json.encode(here.cluster.store.list(TOKENS).records[name].record).decode()
    assert token not in kept
    listed = here.ask(table.TOKENS, table.TOKENS.parameters())
    assert token not in listed.text
    assert [each["note"] for each in listed.json()["tokens"]] == ["for the wall"]
    assert token not in "".join(each.event.detail for each in here.cluster.store.history())


def test_statements_that_would_run_with_the_rights_of_web_take_its_own_token(here: Served) -> None:
    sql = NamedText(file="mine.sql", text="CREATE VIEW alerts AS SELECT 1")
    given = VerifyParameters(query="proximity", sql=sql)
    token = draw(here, role="operate")[1]
    header = {"Authorization": f"Bearer {token}"}
    path = PREFIX + table.VERIFY.path.format(query="proximity")
    body = msgspec.to_builtins(given)
    del body["query"]
    refused = here.client.post(path, headers=header, json=body)
    assert refused.status_code == 403
    assert "`tokenFile`" in refused.json()["error"]["message"]
    del body["sql"]
    assert here.client.post(path, headers=header, json=body).status_code == 202
    assert here.ask(table.VERIFY, given).status_code == 200


def test_a_token_that_may_read_is_refused_where_it_would_operate(here: Served) -> None:
    statuses = every_route(here, draw(here, role="read")[1])
    for operation in table.OPERATIONS:
        is_refused = statuses[operation.name] == 403
        assert is_refused == (operation.role is AccessRole.OPERATE), operation.name
        assert statuses[operation.name] != 401


def test_a_token_that_was_revoked_permits_nothing(here: Served) -> None:
    name, token = draw(here, role="operate")
    assert set(every_route(here, token).values()).isdisjoint({401, 403})
    here.ask(table.TOKEN_REVOKE, RevokeParameters(token=name))
    assert set(every_route(here, token).values()) == {401}


def test_a_token_that_has_expired_permits_nothing(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, token = draw(here, role="operate", days=1)
    found = here.cluster.store.list(TOKENS).records[name]
    over = msgspec.structs.replace(found.record, expires_us=0)
    here.cluster.store.update(TOKENS.key(name), over, found.version)
    assert here.client.get(f"{PREFIX}drills").status_code == 200
    here.service.view.attend()
    assert set(every_route(here, token).values()) == {401}


def test_tokens_hold_while_the_store_is_away(here: Served) -> None:
    _, token = draw(here)
    here.service.view.attend()
    here.cluster.server.go_away()
    header = {"Authorization": f"Bearer {token}"}
    assert here.client.get(f"{PREFIX}drills", headers=header).status_code == 200
    here.cluster.server.come_back()


def test_the_history_says_who_asked(here: Served) -> None:
    name, token = draw(here, role="operate")
    header = {"Authorization": f"Bearer {token}"}
    here.ask(table.CORDON, CordonParameters(node="paris"), **header)
    asked = events(here, "asked")[-1]
    assert (asked.subject, asked.detail) == ("cordon", "node paris")
    assert asked.by == f"{name}@testclient"
    assert events(here, "cordoned")[-1].by == asked.by
    here.ask(table.AUTOMATION_SET, AutomationParameters(mode=AutomationMode.APPLY), **header)
    assert events(here, "asked")[-1].detail == "mode apply"


def test_what_is_not_begun_is_not_told(here: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_operations, "MOST_RUNNING", 0)
    asked = DeleteParameters(names=("proximity",))
    path = PREFIX + table.DELETE.path
    header = {"Authorization": f"Bearer {draw(here, role='operate')[1]}"}
    before = events(here, "asked")
    busy = here.client.request(
        table.DELETE.method, path, headers=header, json=msgspec.to_builtins(asked)
    )
    assert busy.status_code == 503
    assert events(here, "asked") == before


def test_what_changes_nothing_is_not_told(here: Served) -> None:
    before = len(here.cluster.store.history())
    here.ask(table.CORDON, CordonParameters(node="paris", dry_run=True))
    here.ask(table.STATUS, table.STATUS.parameters())
    assert len(here.cluster.store.history()) == before


def test_refused_changes_are_told_now_and_then(here: Served) -> None:
    _, token = draw(here, role="read")
    path = f"{PREFIX}nodes/paris/cordon"
    for header in (f"Bearer {token}", "Bearer wrong", ""):
        assert here.client.post(path, headers={"Authorization": header}).status_code in (401, 403)
    told = events(here, "refused")
    assert len(told) == 1
    assert told[0].subject == "cordon"
    assert "permits only to read" in told[0].detail


def test_strangers_push_nothing_out_of_the_history(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "REFUSALS_EVERY_S", 0.0)
    path = f"{PREFIX}nodes/paris/cordon"
    for _ in range(5):
        here.client.post(path, headers={"Authorization": ""})
    assert len(events(here, "refused")) == 1
    here.ask(table.CORDON, CordonParameters(node="paris"))
    here.client.post(path, headers={"Authorization": ""})
    assert [each.detail.partition("; ")[2] for each in events(here, "refused")] == [
        "", "4 more before",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("one\ntoken revoked", r"note 'one\ntoken revoked'"),
        ("\x1b[2J", r"note '\x1b[2J'"),
        ("wall [/]", "note wall [/]"),
    ],
)
def test_what_a_client_writes_is_one_line_of_the_history(
    here: Served, note: str, told: str
) -> None:
    draw(here, note=note)
    asked = events(here, "asked")[-1]
    assert asked.detail.endswith(told)
    document = EventDocument(
        sequence=1, at_us=0, kind=asked.kind, subject=asked.subject, detail=asked.detail
    )
    shown = io.StringIO()
    Console(width=200, file=shown).print(events_table([document]))
    assert told in shown.getvalue()


def test_a_long_parameter_is_cut_in_the_history(here: Served) -> None:
    asked = DeleteParameters(names=tuple(f"query-{number}" for number in range(10_000)))
    here.ask(table.DELETE, asked)
    assert len(events(here, "asked")[-1].detail) < 300


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_who_follows_something_is_told_no_more_without_a_token(here: Served, how: str) -> None:
    name, token = draw(here)
    header = {"Authorization": f"Bearer {token}"}
    with ThreadPoolExecutor(1) as clients:
        following = clients.submit(here.client.get, f"{PREFIX}events", headers=header)
        deadline = time.monotonic() + PATIENCE_S
        while not here.service.streams.open:
            assert time.monotonic() < deadline
        found = here.cluster.store.list(TOKENS).records[name]
        if how == "revoked":
            here.cluster.store.delete(TOKENS.key(name), found.version)
        else:
            over = msgspec.structs.replace(found.record, expires_us=0)
            here.cluster.store.update(TOKENS.key(name), over, found.version)
        assert following.result(PATIENCE_S).status_code == 200
    assert not here.service.streams.open


def test_an_unknown_token_cannot_be_revoked(here: Served) -> None:
    response = here.ask(table.TOKEN_REVOKE, RevokeParameters(token="t-none"))
    assert response.status_code == 404
