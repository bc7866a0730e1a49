"""The client of a cluster's API against a server that breaks off, is busy, or refuses."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import vivace
from orchestrator.errors import InvalidInput, Refused, Unreachable, VivaceError, error_report
from orchestrator.operations import table
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import ApplyParameters, SwitchoverParameters, TailParameters
from orchestrator.progress import Progress
from orchestrator.results.drills import DrillDocument
from orchestrator.results.moves import CordonDocument, MovesDocument
from orchestrator.results.status import EventDocument
from orchestrator.results.streams import TailBatch, TailEvent, TailRow
from tests.fake_api import FakeApi, served
from vivace import api_client
from vivace.server_events import ServerEvent, server_events

MOVED = MovesDocument(name="1", moves=(), done=True)


def drills_only(operation: Operation[Any, Any], _: object, __: Progress) -> object:
    assert operation is table.DRILLS
    return (DrillDocument(name="hang", what="stops"),)


def client(api: FakeApi, token: str | None = None) -> vivace.ClusterClient:
    return vivace.connect(api.address, token)


def raising(error: Exception) -> Any:
    def carry(*_: object) -> object:
        raise error

    return carry


def test_a_result_is_a_record() -> None:
    with served(drills_only, token="t") as api:
        assert client(api, "t").drills() == (DrillDocument(name="hang", what="stops"),)


def test_a_wrong_token_is_refused() -> None:
    with served(drills_only, token="t") as api:
        for token in ("other", None):
            with pytest.raises(VivaceError, match="the token is unknown"):
                client(api, token).drills()


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("command line", "NODE", "x", "is no node", "Did you mean y?"),
        Refused("query q", "deadline", "1 ms", "is short", "", {"least_ms": 2.5}, ("paris",)),
        Unreachable("ZooKeeper", "127.0.0.1:1", "did not answer", "Wait."),
        VivaceError("something else"),
    ],
)
@pytest.mark.parametrize("is_long", [False, True])
def test_errors_are_those_of_the_operation(error: VivaceError, is_long: bool) -> None:
    with served(raising(error)) as api, pytest.raises(type(error)) as raised:
        client(api).switchover("f") if is_long else client(api).cordon("n")
    assert str(raised.value) == str(error)
    assert raised.value.exit_status == error.exit_status
    told, original = (msgspec.json.encode(error_report(e).document) for e in (raised.value, error))
    assert told == original


def test_a_bug_of_the_api_has_status_1() -> None:
    with served(raising(ZeroDivisionError("oh"))) as api, pytest.raises(VivaceError) as raised:
        client(api).cordon("n")
    assert raised.value.exit_status == 1
    assert "ZeroDivisionError: oh; this is a bug" in str(raised.value)


def progress_of(operation: Operation[Any, Any], _: object, on_progress: Progress) -> object:
    assert operation is table.SWITCHOVER
    for number in range(3):
        on_progress("moving", str(number))
    return MOVED


@pytest.mark.parametrize("breaks", [[], [0], [1, 0, 2]])
def test_a_long_operation_is_followed_to_its_result_through_broken_connections(
    breaks: list[int],
) -> None:
    told: list[tuple[str, str]] = []
    with served(progress_of, break_after=breaks) as api:
        asked = SwitchoverParameters(fragment="f")
        assert client(api).run(
            table.SWITCHOVER, asked, lambda step, detail: told.append((step, detail))
        ) == MOVED  # fmt: skip
    assert [name for name, _ in api.asked].count("switchover") == 1
    assert told[-3:] == [("moving", "0"), ("moving", "1"), ("moving", "2")]


def test_whoever_leaves_a_long_operation_is_told_that_it_goes_on() -> None:
    def leave(*_: str) -> None:
        raise KeyboardInterrupt

    with served(progress_of) as api, pytest.raises(KeyboardInterrupt) as left:
        client(api).run(table.SWITCHOVER, SwitchoverParameters(fragment="f"), leave)
    (note,) = left.value.__notes__
    assert re.fullmatch(r"operation \S+ goes on in the cluster", note)


def tuples(_: object, asked: object, __: Progress) -> object:
    assert isinstance(asked, TailParameters)
    rows = [TailRow(seq=n, timestamp_ms=n, values={"a": n}) for n in range(6)][: asked.limit]
    batches = [TailBatch(lost=0, rows=tuple(rows[at : at + 2])) for at in (0, 2, 4)]
    return [TailEvent(columns={"a": "int"}), *(TailEvent(batch=b) for b in batches if b.rows)]


@pytest.mark.parametrize("breaks", [[], [0, 2, 3]])
def test_a_followed_stream_gives_each_tuple_once_through_broken_connections(
    breaks: list[int],
) -> None:
    with served(tuples, break_after=breaks, ids=True) as api:
        found = [*client(api).tail("s", 5)]
    assert [each.columns for each in found if each.columns] == [{"a": "int"}]
    rows = [row.seq for each in found if each.batch for row in each.batch.rows]
    assert rows == [0, 1, 2, 3, 4]
    if breaks:
        assert api.last_ids == [None, None, "1", "4"]


def test_a_client_that_was_told_only_where_it_is_resumes_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    happened = EventDocument(sequence=8, at_us=0, kind="took over", subject="q", detail="")
    lines = [[b"id: 7\n", b"\n"], [b"data: " + msgspec.json.encode(happened) + b"\n", b"\n"]]
    asked: list[str | None] = []

    def events(_: object, __: object, last: str | None) -> Iterator[ServerEvent]:
        asked.append(last)
        return server_events(lines.pop(0))

    monkeypatch.setattr(api_client.ApiClient, "_events", events)
    assert next(vivace.connect("http://nowhere").events()) == happened
    assert asked == [None, "7"]


def test_what_only_reads_is_asked_again_and_what_writes_is_not() -> None:
    with served(None) as api:
        hasty = vivace.connect(api.address, patience_s=0.1)
        for ask in (hasty.drills, lambda: hasty.cordon("n")):
            with pytest.raises(Unreachable):
                ask()
        names = [name for name, _ in api.asked]
    assert names.count("drills") > 1
    assert names.count("cordon") == 1


def test_whoever_asks_too_often_waits() -> None:
    with served(drills_only, busy=2) as api:
        assert len(client(api).drills()) == 1


def test_an_api_that_is_away_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(Unreachable) as away:
        vivace.connect(address, patience_s=0.05).status()
    assert str(away.value).startswith(f"The cluster's HTTP API at {address} does not answer (")


def test_a_server_that_is_none_of_ours_is_said_to_be() -> None:
    with served(drills_only, texts={"/api/v1/drills": "<html>"}) as api:
        api.texts = {}
        api.carry = raising(VivaceError("x"))
        with pytest.raises(VivaceError, match="x"):
            client(api).drills()


def test_how_old_the_view_is_is_known() -> None:
    with served(drills_only, headers={api_client.VIEW_AGE: "12.5"}) as api:
        opened = client(api)
        opened.drills()
    assert opened.view_age_s == 12.5


def test_names_are_quoted() -> None:
    def carry(_: object, asked: Any, __: Progress) -> object:
        return {"cordon": CordonDocument(node=asked.node, cordoned=True, changed=True, replicas=())}

    with served(carry) as api:
        assert client(api).cordon("a%b c?").node == "a%b c?"


def test_manifests_go_as_texts_with_the_names_of_their_files(tmp_path: Path) -> None:
    (tmp_path / "q.yaml").write_text("kind: Query\n")
    with served(raising(VivaceError("x"))) as api:
        with pytest.raises(VivaceError, match="x"):
            client(api).apply(tmp_path)
        ((name, asked),) = [each for each in api.asked if each[0] == "apply"]
    assert isinstance(asked, ApplyParameters)
    (source,) = asked.manifests
    assert (name, source.path) == ("apply", str(tmp_path))
    assert [(f.file, f.text) for f in source.files] == [(f"{tmp_path}/q.yaml", "kind: Query\n")]


@pytest.mark.parametrize("address", ["127.0.0.1:80", "ftp://x", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        vivace.connect(address)
