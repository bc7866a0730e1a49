"""Batches over real HTTP: what enters once, what is refused, and with which status."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyarrow import ipc

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.listening import Endpoint
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live import confirmed_input
from orchestrator.edges.sources.live.ingestion import Full
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.records import SourceAssignment, SourceSpec

TOKEN = "a-token-that-nobody-guesses"
NOW_US = 1_700_000_000_000_000
ARROW = "application/vnd.apache.arrow.stream"


class Site:
    """Opens sources as a host would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[LiveInput] = []

    def open(
        self,
        options: Http,
        *,
        stream: str = "north",
        buffer_bytes: int = 2**23,
        waiting_bytes: int = 2**28,
    ) -> LiveInput:
        assigned = SourceAssignment(
            stream=stream,
            columns={"number": "int", "name": "string"},
            source=SourceSpec(driver="http", guarantee=options.guarantee),
            start_at_us=None,
        )
        context = SourceContext(
            folder=self.folder,
            clock_us=lambda: NOW_US,
            buffer_bytes=buffer_bytes,
            waiting_bytes=waiting_bytes,
        )
        source = options.open(assigned, context)
        assert isinstance(source, LiveInput)
        self._opened.append(source)
        return source

    def close(self) -> None:
        for source in self._opened:
            source.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


def request(
    source: LiveInput, body: bytes | Iterator[bytes] | None, **headers: str
) -> tuple[int, dict[str, Any], http.client.HTTPResponse]:
    """POST, or GET without a body; status and document."""
    assert source.address is not None
    parts = urlsplit(source.address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    target = parts._replace(scheme="", netloc="").geturl()
    connection.request("GET" if body is None else "POST", target, body, named)
    response = connection.getresponse()
    document = json.loads(response.read())
    connection.close()
    return response.status, document, response


def entered(source: LiveInput) -> list[object]:
    rows: list[object] = []
    while (emitted := source.emit(0, NOW_US)) is not None:
        rows += emitted.rows.column(1).to_pylist()
    return rows


def accepted(count: int) -> dict[str, object]:
    return {"accepted": count, "late": 0, "ahead": 0, "repeated": False}


def arrow(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    writer = ipc.new_stream(
        sink, table.schema, options=ipc.IpcWriteOptions(compression=compression)
    )
    writer.write_table(table)
    writer.close()
    return sink.getvalue()


TABLE = pa.Table.from_pydict({"name": ["x", "y"], "number": [5, 6]})


def test_three_forms_enter_with_their_type_or_without(site: Site) -> None:
    source = site.open(Http())
    bodies: list[tuple[bytes, str]] = [
        (b"name,number\na,1\n", "text/csv"),
        (b"2,b\n", "text/csv; header=absent"),
        (b'{"number": 3}\n', "application/x-ndjson"),
        (arrow(TABLE), ARROW),
    ]
    for body, kind in bodies:
        assert request(source, body, Content_Type=kind)[0] == 200
    assert entered(source) == [1, 2, 3, 5, 6]
    untold = "application/x-www-form-urlencoded"
    for body, _ in (bodies[0], *bodies[2:]):
        assert request(source, body, Content_Type=untold)[0] == 200
    assert entered(source) == [1, 3, 5, 6]


def test_bodies_in_chunks_and_compressed_ones(site: Site) -> None:
    source = site.open(Http())
    assert request(source, iter([b"number,name\n1", b",a\n2,b\n"]))[1] == accepted(2)
    body = gzip.compress(b"number,name\n3,c\n")
    assert request(source, body, Content_Encoding="gzip")[1] == accepted(1)
    assert entered(source) == [1, 2, 3]


def test_a_batch_that_comes_again_does_not_enter_twice_also_after_a_restart(site: Site) -> None:
    source = site.open(Http())
    body = b"number,name\n1,a\n"
    again = {**accepted(0), "repeated": True}
    assert request(source, body, Idempotency_Key="k")[1] == accepted(1)
    assert request(source, body, Idempotency_Key="k")[1] == again
    assert request(source, body, Vivace_Client="c", Vivace_Number="7")[1] == accepted(1)
    source.close()
    source = site.open(Http())
    assert request(source, body, Idempotency_Key="k")[1] == again
    assert request(source, body, Vivace_Client="c", Vivace_Number="7")[1] == again
    assert request(source, body, Vivace_Client="c", Vivace_Number="8")[1] == accepted(1)
    assert source.status.repeated == 2


def test_other_rows_under_a_known_key_are_refused_and_counted_also_after_a_restart(
    site: Site,
) -> None:
    source = site.open(Http())
    rows, others = b"number,name\n1,a\n", b"number,name\n1,b\n"
    keys = ({"Idempotency_Key": "k"}, {"Vivace_Client": "c", "Vivace_Number": "7"})
    for key in keys:
        assert request(source, rows, **key)[1] == accepted(1)
    for _ in range(2):
        for key in keys:
            status, document, _ = request(source, others, **key)
            assert status == 422
            assert "other rows entered before under" in document["error"]
            # The same rows are the same batch, however they are written.
            again = {**accepted(0), "repeated": True}
            assert request(source, b'{"name": "a", "number": 1}', **key)[1] == again
        assert (source.status.malformed, source.status.repeated) == (2, 2)
        source.close()
        source = site.open(Http())
    # So is one that a client that began its numbers again sends under an earlier number.
    assert request(source, others, Vivace_Client="c", Vivace_Number="8")[1] == accepted(1)
    assert request(source, others, Vivace_Client="c", Vivace_Number="7")[0] == 422
    assert request(source, rows, Vivace_Client="c", Vivace_Number="7")[1]["repeated"]


def test_other_rows_are_refused_where_consumers_keep_them(site: Site) -> None:
    source = site.open(Http(durable=Durability.NOTHING))
    assert request(source, b"number,name\n", Idempotency_Key="k")[1] == accepted(0)
    assert request(source, b"number,name\n1,a\n", Idempotency_Key="k")[0] == 422
    assert request(source, b"number,name\n", Idempotency_Key="k")[1]["repeated"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "problem"),
    [
        (b"number,name\nx,a\n", {}, 400, "nothing entered: line 2: column number: 'x' is no int"),
        (b"number\n1\n", {}, 400, "column name is missing"),
        (b"", {}, 400, "the body is empty"),
        (b"{nonsense", {}, 400, "no JSON: Missing a name"),
        (arrow(TABLE, "zstd"), {}, 400, "compressed"),
        (arrow(TABLE)[:100], {}, 400, "."),
        (b"<a/>", {"Content_Type": "text/xml"}, 415, "Content-Type 'text/xml' is unknown"),
        (b"", {"Content_Encoding": "br"}, 415, "use gzip"),
        (b"x" * 20, {"Content_Encoding": "gzip"}, 400, "no gzip"),
        (
            gzip.compress(b"number,name\n", mtime=0)[:-9],
            {"Content_Encoding": "gzip"},
            400,
            "incomplete",
        ),
        (gzip.compress(b"", mtime=0) * 2, {"Content_Encoding": "gzip"}, 400, "something follows"),
        (b"1" * 1001, {}, 413, "larger than 1000 bytes"),
        (zlib.compress(bytes(10**7), 9, 31), {"Content_Encoding": "gzip"}, 413, "larger than"),
        (b"", {"Vivace_Client": "c"}, 400, "belong together"),
        (b"", {"Vivace_Client": "c", "Vivace_Number": "-1"}, 400, "whole number"),
        (b"", {"Idempotency_Key": "k" * 129}, 400, "printable"),
    ],
)
def test_what_is_refused_leaves_the_source_as_it_was(
    site: Site, body: bytes, headers: dict[str, str], status: int, problem: str
) -> None:
    most = 10**6 if headers.get("Content_Encoding") == "gzip" and len(body) > 1000 else 1000
    source = site.open(Http(largest_bytes=most))
    found, document, _ = request(source, body, **headers)
    assert found == status
    with pytest.raises(ValueError, match=problem):
        raise ValueError(document["error"])
    assert source.status.malformed == 1
    assert source.status.last_rejected == document["error"]
    assert request(source, b"number,name\n1,a\n")[1] == accepted(1)
    assert entered(source) == [1]
    assert source.status.malformed == 1


def test_bombs_that_come_in_chunks(site: Site) -> None:
    """The parts are small, and so is each until it is decompressed."""
    source = site.open(Http(largest_bytes=10**6))
    packed = zlib.compress(b"number,name\n" + b"1,a\n" * 10**7, 9, 31)
    assert len(packed) < 10**6
    parts = (packed[begin : begin + 1000] for begin in range(0, len(packed), 1000))
    status, document, _ = request(source, parts, Content_Encoding="gzip")
    assert (status, document["error"]) == (413, "the body is larger than 1000000 bytes")
    twice = (gzip.compress(zlib.compress(bytes(10**8), 9, 31), mtime=0) for _ in range(1))
    assert request(source, twice, Content_Encoding="gzip")[0] == 400
    members = gzip.compress(b"number,name\n1,a\n", mtime=0) * 3
    assert request(source, iter([members]), Content_Encoding="gzip")[0] == 400
    assert request(source, b"number,name\n1,a\n")[1] == accepted(1)
    assert entered(source) == [1]


def test_what_cannot_be_read_can_be_inspected_and_stops_nothing(site: Site) -> None:
    body = arrow(TABLE)
    offsets = struct.pack("<ii", 0, 1)
    lying = body.replace(offsets, struct.pack("<ii", 0, 2**30))
    assert lying != body
    source = site.open(Http())
    bad = (
        b'{"number": 1, "name": "\xff"}',
        b'{"number": 9223372036854775808, "name": "a"}',
        b"number,name\n1\0,a\n",
        lying,
        b"\xff\xff\xff\xff\xff\xff\xff\x7f" + body[8:],
        body[:-16],
    )
    for each in bad:
        status, document, _ = request(source, each)
        assert status == 400, each
        assert document["error"].startswith("nothing entered: ")
    assert source.status.malformed == len(bad)
    written = (site.folder / "north.rejected.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in written] == ["malformed"] * len(bad)
    assert all(json.loads(line)["reason"] for line in written)
    assert request(source, body)[0] == 200


def test_chunks_without_end_and_requests_that_are_none(site: Site) -> None:
    source = site.open(Http(largest_bytes=1000))
    assert request(source, (b"1" * 100 for _ in range(100)))[0] == 413
    assert source.address is not None
    host, port = urlsplit(source.address).netloc.split(":")
    head = b"POST /streams/north HTTP/1.1\r\nHost: x\r\n"
    for rest in (
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 99999999999999999999999\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"Transfer-Encoding: gzip\r\n\r\n",
        b"\r\n",
        b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        b"\x00\xff\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head + rest)
            assert connection.recv(100).split(b" ")[1][:1] in (b"4", b"5")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"POST http://[x/streams/north HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    assert request(source, b"number,name\n1,a\n")[1] == accepted(1)


def test_unknown_stream_wrong_token_wrong_method(site: Site) -> None:
    site.folder.mkdir()
    (site.folder / "token").write_text(TOKEN)
    open_source = site.open(Http())
    source = site.open(Http(token_file=str(site.folder / "token")), stream="south")
    assert open_source.address is not None
    assert source.address is not None
    # Both are served at the same address.
    assert urlsplit(open_source.address).netloc == urlsplit(source.address).netloc
    body = b"number,name\n1,a\n"
    for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {TOKEN}"}):
        assert request(source, body, **wrong)[0] == 401
        assert request(source, None, **wrong)[0] == 401
    assert source.status.malformed == 3
    said = [
        request(source, None, Authorization=given)[1]["error"] for given in ("Bearer ", "Bearer x")
    ]
    assert said == ["a token is needed: Authorization: Bearer …", "the token is not the stream's"]
    assert "number" not in (site.folder / "south.rejected.jsonl").read_text()
    assert request(source, body, Authorization=f"Bearer {TOKEN}")[1] == accepted(1)
    source.address = source.address.replace("south", "east")
    assert request(source, body)[0] == 404
    source.address = source.address.replace("streams/east", "..%2f..")
    assert request(source, body)[0] == 404
    assert request(open_source, None)[1]["malformed"] == 0


def test_an_input_tells_its_state_to_whom_accepts_json(site: Site) -> None:
    source = site.open(Http())
    for accept in ("*/*", "text/html, */*;q=0.8", "application/*"):
        assert request(source, None, Accept=accept)[0] == 200
    status, document, _ = request(source, None, Accept="text/event-stream")
    problem = "north is an input, which has no results: its state comes as application/json, not as"
    assert (status, document["error"]) == (406, f"{problem} text/event-stream")
    assert source.status.malformed == 0


def test_a_client_may_say_what_it_accepts_in_several_lines(site: Site) -> None:
    """They are one list (RFC 9110, 5.3)."""
    source = site.open(Http())
    assert source.address is not None
    connection = http.client.HTTPConnection(urlsplit(source.address).netloc, timeout=60)
    connection.putrequest("GET", "/streams/north")
    connection.putheader("Accept", "application/json")
    connection.putheader("Accept", "text/html")
    connection.endheaders()
    assert connection.getresponse().status == 200
    connection.close()


def test_an_input_takes_no_parameters(site: Site) -> None:
    source = site.open(Http())
    address, problem = source.address, "an input has no parameter 'header'; it has none"
    source.address = f"{address}?header=absent"
    for body in (b"number,name\n1,a\n", None):
        status, document, _ = request(source, body)
        assert (status, document["error"]) == (400, problem)
    assert source.status.malformed == 1
    assert not entered(source)


def test_a_full_buffer_says_when_to_come_again(site: Site) -> None:
    source = site.open(Http(), buffer_bytes=5000)
    body = b"number,name\n" + b"1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" * 50
    statuses = [request(source, body)[0] for _ in range(5)]
    assert statuses[0] == 200
    status, document, response = request(source, body)
    assert (status, response.headers["Retry-After"]) == (429, "1")
    assert "consumers do not follow" in document["error"]
    assert len(entered(source)) == 50 * statuses.count(200)
    assert request(source, body)[0] == 200


def test_clients_that_send_slowly_hold_up_nobody(site: Site) -> None:
    source = site.open(Http())
    assert source.address is not None
    host, port = urlsplit(source.address).netloc.split(":")
    head = b"POST /streams/north HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n1"
    slow = [socket.create_connection((host, int(port)), timeout=60) for _ in range(10)]
    for connection in slow:
        connection.sendall(head)
    for _ in range(20):
        assert request(source, b"number,name\n1,a\n")[0] == 200
    for connection in slow:
        connection.close()


def test_slow_clients_of_some_streams_lock_out_no_other_stream_of_the_address(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.edges.http_server.HELD_BYTES", 8 * 2**20)
    slow: list[socket.socket] = []
    addresses: set[str] = set()
    for stream in ("north", "south", "east"):
        source = site.open(Http(), stream=stream)
        assert source.address is not None
        address = urlsplit(source.address).netloc
        addresses.add(address)
        host, port = address.split(":")
        head = f"POST /streams/{stream} HTTP/1.1\r\nHost: x\r\nContent-Length: {2**21}\r\n\r\n"
        assert request(source, b"number,name\n1,a\n")[0] == 200
        while request(source, b"number,name\n1,a\n")[0] == 200:
            slow.append(socket.create_connection((host, int(port)), timeout=60))
            slow[-1].sendall(head.encode() + b"1" * 2**20)
    assert len(addresses) == 1
    for connection in slow:
        connection.close()


def test_slow_clients_of_a_stream_leave_room_for_the_largest_body_of_another(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        listen = Endpoint(host="127.0.0.1", port=server.getsockname()[1])
    site.open(Http(listen=listen), stream="slow")
    other = site.open(Http(listen=listen, largest_bytes=2**25), stream="other")
    slow = socket.create_connection((listen.host, listen.port))
    slow.sendall(b"POST /streams/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n")
    slow.sendall(b'{"number": 1, "name": "' + b"x" * 2**20)
    time.sleep(0.5)
    body = b'{"number": 1, "name": "' + b"x" * 1000 + b'"}\n'
    body = body * ((2**25 - 1000) // len(body))
    status, document, _ = request(other, body)
    slow.close()
    assert status == 200, document


def test_a_large_body_that_is_refused_gets_its_response(site: Site) -> None:
    source = site.open(Http(largest_bytes=1000))
    for _ in range(5):
        assert request(source, b"1" * 5_000_000)[0] == 413


@pytest.mark.parametrize(
    ("begins", "status", "problem"),
    [
        ("PUT /streams/north HTTP/1.1", 405, "streams take GET and POST, not PUT"),
        ("no request", 400, "Bad HTTP"),
        ("GET /streams/north HTTP/9.1", 505, "Invalid HTTP version"),
        ("GET " + "x" * 70_000, 414, "Too Long"),
    ],
)
def test_what_no_stream_takes_is_refused_with_a_document(
    site: Site, begins: str, status: int, problem: str
) -> None:
    address = site.open(Http()).address
    assert address is not None
    to = urlsplit(address)
    assert to.hostname is not None
    assert to.port is not None
    with socket.create_connection((to.hostname, to.port), timeout=60) as connection:
        connection.sendall(f"{begins}\r\nHost: {to.netloc}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Content-Type: application/json" in head
    assert (b"Allow: GET, POST" in head) == (status == 405)
    assert problem in json.loads(body)["error"]


def test_a_head_request_is_refused_without_a_body(site: Site) -> None:
    address = site.open(Http()).address
    assert address is not None
    to = urlsplit(address)
    connection = http.client.HTTPConnection(to.netloc, timeout=60)
    connection.request("HEAD", to.path)
    response = connection.getresponse()
    assert (response.status, response.headers["Allow"]) == (405, "GET, POST")
    assert connection.sock is None or connection.sock.recv(10) == b""
    connection.close()


def test_a_source_that_has_failed_is_unavailable(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = site.open(Http())

    def full(_: object, __: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("orchestrator.edges.sources.live.journal.Journal.append", full)
    status, document, response = request(source, b"number,name\n1,a\n")
    assert (status, response.headers["Retry-After"]) == (503, "1")
    assert "No space left" in document["error"]


def test_a_name_that_is_served_already_is_refused(site: Site) -> None:
    site.open(Http(durable=Http().durable))
    with pytest.raises(DriverError, match="another process"):
        site.open(Http())


def test_a_batch_that_is_repeated_in_vain_is_not_kept_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers that do not follow have it sent again and again."""
    monkeypatch.setattr(confirmed_input, "PATIENCE_S", 0.05)
    source = site.open(Http(durable=Durability.REPLICAS, time_column="number", time_format="ms"))
    count, held, size_bytes = 4000, list[int](), 0
    for _ in range(12):
        # As the body of a request that is parsed: each has memory of its own.
        times = [NOW_US // 1000] * count
        columns = [pa.array(times), pa.array(times), pa.array(["x" * 1000] * count)]
        rows = pa.RecordBatch.from_arrays(columns, schema=source.schema)
        with pytest.raises(Full):
            source.push(rows, client="client c", number=1, waits=False)
        source.emit(0, NOW_US)
        size_bytes = rows.nbytes
        del rows, columns
        held.append(pa.default_memory_pool().bytes_allocated())
    assert held[-1] - held[0] < 4 * size_bytes
