"""The client against a real site: batches enter once although responses are lost."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import vivace
from orchestrator.edges.http_server import Route, serve
from orchestrator.edges.listening import Endpoint
from orchestrator.edges.sinks import http as results
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live import confirmed_input
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.embedded.ports import free_port
from tests.conftest import PATIENCE_S, WaitUntil
from tests.integration.orchestrator.edges.sinks.test_http_results import Site as Exit
from tests.integration.orchestrator.edges.sources.test_http import TOKEN, Site, entered
from vivace import client as reading
from vivace import stream as module
from vivace.exchange import Patience, SiteAddresses, look_elsewhere
from vivace.rows import Rows

BATCH = {"number": [1, 2], "name": ["a", None]}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


@pytest.fixture
def opened(site: Site) -> LiveInput:
    return site.open(Http())


def connected(source: LiveInput, client: str | None = None) -> vivace.Stream:
    assert source.address is not None
    return vivace.site(source.address, client=client, patience_s=5).stream("north")


@pytest.mark.parametrize(
    "rows",
    [
        BATCH,
        [{"number": 1, "name": "a"}, {"number": 2, "name": None}],
        pa.RecordBatch.from_pydict(BATCH),
        pa.Table.from_pydict(BATCH),
    ],
)
def test_rows_of_every_kind(opened: LiveInput, rows: Rows) -> None:
    stream = connected(opened)
    assert stream.send(rows) == vivace.Sent(accepted=2)
    assert asyncio.run(stream.send_async(rows)) == vivace.Sent(accepted=2)
    assert entered(opened) == [1, 2, 1, 2]


def test_large_batches_go_in_pieces(opened: LiveInput, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 1000)
    sent = connected(opened).send({"number": list(range(1000)), "name": ["x"] * 1000})
    assert sent == vivace.Sent(accepted=1000)
    assert entered(opened) == list(range(1000))


def test_own_numbers_hold_when_the_program_starts_again(opened: LiveInput) -> None:
    assert connected(opened, "reader").send(BATCH, number=7) == vivace.Sent(accepted=2)
    again = connected(opened, "reader").send(BATCH, number=7)
    assert repr(again) == repr(vivace.Sent(repeated=1))
    assert connected(opened, "other").send(BATCH, number=7) == vivace.Sent(accepted=2)


def test_other_rows_under_a_number_are_refused(opened: LiveInput) -> None:
    assert connected(opened, "reader").send(BATCH, number=7) == vivace.Sent(accepted=2)
    # The same rows in other pieces, as after a start of the program.
    whole = pa.RecordBatch.from_pydict(BATCH)
    table = pa.Table.from_batches([whole.slice(0, 1), whole.slice(1)])
    assert connected(opened, "reader").send(table, number=7) == vivace.Sent(repeated=1)
    with pytest.raises(vivace.Refused, match="under client reader, number 7") as refused:
        connected(opened, "reader").send(whole.slice(1), number=7)
    assert refused.value.status == 422


def test_numbers_of_a_named_client_do_not_depend_on_its_clock(
    opened: LiveInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of the same name was started again, after its machine's clock was set back."""
    for now_ns in (10**18, 9 * 10**17):
        monkeypatch.setattr(time, "time_ns", lambda now_ns=now_ns: now_ns)
        assert connected(opened, client="c").send(BATCH) == vivace.Sent(accepted=2)
    assert entered(opened) == [1, 2, 1, 2]


def test_two_streams_of_one_site_do_not_take_each_other_for_repeated(opened: LiveInput) -> None:
    assert opened.address is not None
    site = vivace.site(opened.address)
    first, second = site.stream("north"), site.stream("north")
    for number in range(3):
        # As if the clock of one were ahead.
        assert first.send_body(b"number,name\n1,a\n", "text/csv", number=100 + number).accepted
        assert second.send_body(b"number,name\n2,a\n", "text/csv", number=number).accepted


def test_a_lost_response_lets_nothing_enter_twice(
    opened: LiveInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    respond = http.client.HTTPConnection.getresponse
    calls = itertools.count()

    def lossy(self: http.client.HTTPConnection) -> http.client.HTTPResponse:
        response = respond(self)
        if next(calls) % 2 == 0:
            response.read()
            raise ConnectionResetError("the connection broke")
        return response

    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", lossy)
    stream = connected(opened)
    for _ in range(3):
        assert stream.send(BATCH) == vivace.Sent(repeated=1)
    assert entered(opened) == [1, 2] * 3


def test_a_full_site_is_waited_for(site: Site) -> None:
    source = site.open(Http(), buffer_bytes=2000)
    stream = connected(source)
    done = threading.Event()

    def send() -> None:
        for _ in range(20):
            stream.send({"number": list(range(50)), "name": ["x" * 20] * 50})
        done.set()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    count = 0
    while not done.wait(0.01):
        count += len(entered(source))
    assert count + len(entered(source)) == 1000


def test_what_can_never_enter_is_refused(site: Site, opened: LiveInput) -> None:
    stream = connected(opened)
    with pytest.raises(vivace.Refused, match="column number"):
        stream.send({"number": ["x"], "name": ["a"]})
    with pytest.raises(vivace.Refused, match="column name is missing"):
        stream.send({"number": [1]})
    (site.folder / "token").write_text(TOKEN)
    locked = site.open(Http(token_file=str(site.folder / "token")), stream="south")
    assert locked.address is not None
    with pytest.raises(vivace.Refused, match="token"):
        vivace.site(locked.address).stream("south").send(BATCH)
    sent = vivace.site(locked.address, token=TOKEN).stream("south").send(BATCH)
    assert sent == vivace.Sent(accepted=2)


def test_rows_may_leave_columns_out_also_the_first_one(opened: LiveInput) -> None:
    rows = [{"number": 1}, {"name": "b", "number": 2}, {}]
    assert connected(opened).send(rows) == vivace.Sent(accepted=3)
    emitted = opened.emit(0, 2**60)
    assert emitted is not None
    assert emitted.rows.column("number").to_pylist() == [1, 2, None]
    assert emitted.rows.column("name").to_pylist() == [None, "b", None]


@pytest.mark.parametrize(
    "rows",
    [
        [{"number": 2**63, "name": "a"}],
        [{"number": 1, "name": "\ud800"}],
        [{"number": 1, "name": "a"}, {"number": "x", "name": "a"}],
        {"number": [1, 2], "name": ["a"]},
    ],
    ids=["too large", "no text", "mixed", "ragged"],
)
def test_rows_that_no_batch_can_hold_are_refused(opened: LiveInput, rows: Rows) -> None:
    stream = connected(opened)
    with pytest.raises(vivace.Refused, match="nothing was sent: "):
        stream.send(rows)
    assert stream.send(BATCH) == vivace.Sent(accepted=2)


def test_a_site_that_stays_away_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    site = vivace.site(f"http://127.0.0.1:{port}", patience_s=0.0)
    with pytest.raises(vivace.Unavailable, match="refused"):
        site.stream("north").send(BATCH)
    with pytest.raises(vivace.Unavailable, match="refused"):
        next(site.results("alerts"))
    with pytest.raises(ValueError, match="no address"):
        vivace.site("127.0.0.1:80")


def address(source: LiveInput) -> str:
    assert source.address is not None
    return source.address


def test_of_two_sites_the_one_is_sent_to_that_has_the_stream(tmp_path: Path) -> None:
    first, second = Site(tmp_path / "first"), Site(tmp_path / "second")
    here, there = first.open(Http()), second.open(Http(), stream="south")
    stream = vivace.site(address(there), address(here), patience_s=5).stream("north")
    assert stream.send(BATCH) == vivace.Sent(accepted=2)
    # It is killed, and the other one brings the stream in.
    first.close()
    port = int(address(there).split(":")[2].split("/")[0])
    second.close()
    both = Site(tmp_path / "both")
    listen = Endpoint(port=port)
    other, opened = both.open(Http(listen=listen), stream="south"), both.open(Http(listen=listen))
    assert stream.send(BATCH) == vivace.Sent(accepted=2)
    assert (entered(other), entered(opened)) == ([], [1, 2])
    both.close()
    with pytest.raises(vivace.Unavailable, match=r"http://.* or http://.* was away or full"):
        vivace.site(address(here), address(there), patience_s=0.1).stream("north").send(BATCH)


def test_an_address_that_is_found_is_found_again_when_the_site_is_started_again(
    tmp_path: Path,
) -> None:
    addresses: list[str] = []

    def find() -> str:
        if not addresses:
            raise ConnectionError("it is not open yet")
        return addresses[-1]

    hasty = vivace.site(find, patience_s=0.0)
    for ask in (lambda: hasty.stream("north").send(BATCH), lambda: next(hasty.results("north"))):
        with pytest.raises(vivace.Unavailable, match=r"the site was away .* it is not open yet"):
            ask()
    stream = vivace.site(find, patience_s=5).stream("north")
    first, second = Site(tmp_path / "first"), Site(tmp_path / "second")
    addresses.append(address(first.open(Http())))
    assert stream.send(BATCH) == vivace.Sent(accepted=2)
    started_again = second.open(Http(listen=Endpoint(port=free_port())))
    addresses.append(address(started_again))
    first.close()
    assert stream.send(BATCH) == vivace.Sent(accepted=2)
    assert entered(started_again) == [1, 2]
    second.close()


def test_a_stream_that_neither_site_has_is_said_to_be_missing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    source = site.open(Http(), stream="south")
    two = vivace.site(address(source), address(source), patience_s=0.1)
    for ask in (lambda: two.stream("north").send(BATCH), lambda: next(two.results("north"))):
        with pytest.raises(vivace.Unavailable, match="no stream is at"):
            ask()
    with pytest.raises(vivace.Refused, match="no stream is at"):
        vivace.site(address(source)).stream("north").send(BATCH)
    with pytest.raises(vivace.Refused, match="column number"):
        two.stream("south").send({"number": ["x"], "name": ["a"]})
    site.close()


def test_a_site_that_nobody_reads_from_any_more_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lives, and has not heard that another one brings the stream in: it is full for ever."""
    monkeypatch.setattr(confirmed_input, "PATIENCE_S", 0.05)
    cut_off, other = Site(tmp_path / "cut off"), Site(tmp_path / "other")
    full = cut_off.open(Http(durable=Durability.REPLICAS))
    opened = other.open(Http(listen=Endpoint(port=free_port())))
    stream = vivace.site(address(full), address(opened), patience_s=5).stream("north")
    assert stream.send(BATCH) == vivace.Sent(accepted=2)
    assert entered(opened) == [1, 2]
    cut_off.close()
    other.close()


def test_patience_grows_and_ends() -> None:
    slept: list[float] = []
    took_s = 0.0
    waiting = Patience("http://site", 2.0, slept.append, lambda: sum(slept) + took_s)
    for _ in range(5):
        waiting.failed(ConnectionError("gone"))
    # A request that waits for its response counts.
    took_s = 0.5
    with pytest.raises(vivace.Unavailable, match="http://site was away or full for 2 s: gone"):
        waiting.failed(ConnectionError("gone"))
    assert slept == [0.05, 0.1, 0.2, 0.4, 0.8]
    waiting.succeeded()
    waiting.failed(ConnectionError("gone"))
    assert slept[-1] == 0.05


def test_threads_that_share_a_stream_do_not_wait_for_each_others_patience(
    opened: LiveInput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread's own patience has begun when it waits for another one's batch."""
    stream, begun = connected(opened), threading.Event()

    def patience(place: str, patience_s: float) -> Patience:
        begun.set()
        return Patience(place, patience_s)

    monkeypatch.setattr(module, "Patience", patience)
    thread = threading.Thread(target=stream.send, args=(BATCH,))
    with stream._lock:  # pyright: ignore[reportPrivateUsage]
        thread.start()
        assert begun.wait(PATIENCE_S)
    thread.join()
    assert entered(opened) == [1, 2]


def test_the_time_that_a_reader_takes_for_a_batch_is_not_the_sites(tmp_path: Path) -> None:
    end = Exit(tmp_path / "exit")
    end.deliver(7, 0, 3)
    results = vivace.site(end.sink.address, patience_s=0.3).results("alerts")
    assert next(results).column("_seq").to_pylist() == [0, 1, 2]
    time.sleep(0.4)
    port = int(end.sink.address.split(":")[2].split("/")[0])
    end.sink.close()
    end.open(port)
    end.deliver(7, 3, 2)
    assert next(results).column("_seq").to_pylist() == [3, 4]
    end.sink.close()


@pytest.mark.parametrize("status", [404, 429, 502, 503, 504])
def test_a_site_that_does_not_have_it_is_left(status: int) -> None:
    two = SiteAddresses(["http://a:1", "http://b:1"], token=None, patience_s=1.0)
    with pytest.raises(ConnectionError):
        look_elsewhere(two, "alerts", status, b"")
    for place, said in (
        (two, 401),
        (SiteAddresses(["http://a:1"], token=None, patience_s=1.0), status),
    ):
        with pytest.raises(vivace.Refused):
            look_elsewhere(place, "alerts", said, b"")


def test_results_go_on_after_a_restart_of_the_site(tmp_path: Path) -> None:
    end = Exit(tmp_path / "exit")
    end.deliver(7, 0, 3)
    results = vivace.site(end.sink.address, patience_s=30).results("alerts")
    assert next(results).column("_seq").to_pylist() == [0, 1, 2]
    place = end.sink.address
    end.sink.close()
    port = int(place.split(":")[2].split("/")[0])
    end.open(port)
    end.deliver(7, 3, 2)
    assert next(results).column("_seq").to_pylist() == [3, 4]
    site = vivace.site(place)
    assert next(site.results("alerts", after=(7, 3))).column("number").to_pylist() == [7004]

    async def first() -> list[int]:
        async for batch in site.results_async("alerts", begin=2):
            return batch.column("_seq").to_pylist()
        return []

    assert asyncio.run(first())[0] == 2
    with pytest.raises(vivace.Refused, match="no stream"):
        next(site.results("other"))
    end.sink.close()


def test_a_reader_that_begins_now_misses_nothing_if_the_site_restarts_before_its_first_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    monkeypatch.setattr(results, "KEEP_ALIVE_S", 0.05)
    alive: list[bool] = []
    succeeded = Patience.succeeded

    def noted(patience: Patience) -> None:
        alive.append(True)
        succeeded(patience)

    monkeypatch.setattr(Patience, "succeeded", noted)
    site = Exit(tmp_path / "exit")
    site.deliver(7, 0, 2)
    parts = urlsplit(site.sink.address)
    found: list[int] = []

    def read() -> None:
        for batch in vivace.site(f"http://{parts.netloc}").results("alerts", begin="now"):
            found.extend(batch.column("_seq").to_pylist())
            if found[-1] == 5:
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    # It begins with one, and has another with each sign of life.
    wait_until(lambda: len(alive) > 1)
    site.sink.close()
    site.open(parts.port or 0)
    site.deliver(7, 2, 2)
    site.deliver(7, 4, 2)
    reader.join(PATIENCE_S)
    assert found == [2, 3, 4, 5]
    site.sink.close()


def test_a_reader_waits_for_a_site_that_has_yet_to_open_its_stream_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """A site that has just started opens one stream after the other."""
    absent: list[int] = []

    def noted(place: SiteAddresses, stream: str, status: int, document: bytes) -> NoReturn:
        absent.append(status)
        look_elsewhere(place, stream, status, document)

    monkeypatch.setattr(reading, "look_elsewhere", noted)
    site = Exit(tmp_path / "exit")
    site.deliver(7, 0, 2)
    parts = urlsplit(site.sink.address)
    found: list[int] = []

    def read() -> None:
        for batch in vivace.site(f"http://{parts.netloc}").results("alerts"):
            found.extend(batch.column("_seq").to_pylist())
            if found[-1] == 3:
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    wait_until(lambda: found == [0, 1])
    site.sink.close()
    here = Endpoint(host=str(parts.hostname), port=parts.port or 0)
    _, end = serve(here, "other", Route(token=None, get=lambda _: {}))
    wait_until(lambda: bool(absent))
    site.open(parts.port or 0)
    site.deliver(7, 2, 2)
    reader.join(PATIENCE_S)
    assert found == [0, 1, 2, 3]
    site.sink.close()
    end()


def test_who_knows_a_stream_waits_until_a_site_that_has_just_started_opens_it(
    tmp_path: Path, wait_until: WaitUntil
) -> None:
    """A program that goes on where it was, and one that asks again how far results have come."""
    site = Exit(tmp_path / "exit")
    site.deliver(7, 0, 2)
    parts = urlsplit(site.sink.address)
    known = vivace.site(f"http://{parts.netloc}")
    known.describe("alerts")
    site.sink.close()
    here = Endpoint(host=str(parts.hostname), port=parts.port or 0)
    _, end = serve(here, "other", Route(token=None, get=lambda _: {}))
    with pytest.raises(vivace.Refused, match="no stream"):
        vivace.site(f"http://{parts.netloc}").describe("alerts")
    begun = vivace.site(f"http://{parts.netloc}")
    waiting = {
        "described": lambda: known.describe("alerts")["generations"],
        "after": lambda: next(begun.results("alerts", after=(7, 0))).column("_seq").to_pylist(),
        "part": lambda: next(begun.results("alerts", begin=(7, 1))).column("_seq").to_pylist(),
    }
    found: dict[str, object] = {}

    def ask(name: str) -> None:
        found[name] = waiting[name]()

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in waiting]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    assert all(thread.is_alive() for thread in threads)
    site.open(parts.port or 0)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == {"described": [[7, 2]], "after": [1], "part": [1]}
    site.sink.close()
    end()


def test_an_input_has_no_results(opened: LiveInput) -> None:
    """The site tells of it in JSON, which no reader of Arrow can read, however often it asks."""
    parts = urlsplit(address(opened))
    name = parts.path.rpartition("/")[2]
    with pytest.raises(vivace.Refused, match=f"{name} is an input") as refused:
        next(vivace.site(f"http://{parts.netloc}").results(name))
    assert refused.value.status == 406
    with pytest.raises(vivace.Refused, match="an input has no parameter 'describe'"):
        vivace.site(f"http://{parts.netloc}").describe(name)


@pytest.mark.parametrize("rows", [{"number": 1, "name": "a"}, None, "a,b", [1]])
def test_what_is_no_rows_is_refused_in_words(opened: LiveInput, rows: Any) -> None:
    with pytest.raises(vivace.Refused, match="rows are a list of dicts"):
        connected(opened).send(rows)


class Frame:
    """Offers its rows as a DataFrame of pandas or Polars does."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_a_data_frame_enters_whatever_its_layout(opened: LiveInput) -> None:
    numbers = pa.array([Decimal("1.0"), None, Decimal("3.0")], pa.decimal128(3, 1))
    names = pa.array(["a", None, "a"]).cast(pa.dictionary(pa.int32(), pa.string_view()))
    frame = Frame(pa.table({"more": [1, 2, 3], "number": numbers, "name": names}))
    assert connected(opened).send(frame).accepted == 3
    emitted = opened.emit(0, 2**60)
    assert emitted is not None
    assert emitted.rows.column("number").to_pylist() == [1, None, 3]
    assert emitted.rows.column("name").to_pylist() == ["a", None, "a"]
    assert (opened.status.ignored, opened.status.last_ignored) == (3, "more")


@pytest.mark.parametrize("rows", [3, 100_000])
def test_a_row_is_named_by_its_number_among_all_that_are_sent(
    opened: LiveInput, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 2**16)
    numbers = [float(number) for number in range(rows)]
    numbers[-1] += 0.5
    with pytest.raises(vivace.Refused, match=f"row {rows}: column number: {numbers[-1]} is no int"):
        connected(opened).send({"number": numbers, "name": ["a"] * rows})


@pytest.mark.parametrize(
    ("column", "cast"),
    [
        (pa.array([date(2026, 7, 2)]), r"date32\[day\]; cast it to int64"),
        (pa.array(["1"]), "string; cast it to int64"),
        (pa.array([[1]]), "list<.*>; cast it to int64"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_cast(
    opened: LiveInput, column: pa.Array, cast: str
) -> None:
    with pytest.raises(vivace.Refused, match=f"column number is of type {cast}"):
        connected(opened).send(pa.table({"number": column, "name": ["a"]}))
