"""Lines over real connections: what enters, what is refused, and who has to wait."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.listening import Endpoint
from orchestrator.edges.sources import tcp
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.formats.row_form import Format
from orchestrator.edges.sources.live.live_input import JournaledInput, LiveInput
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.edges.sources.tcp import MOST_LINE_BYTES, Tcp
from orchestrator.records import SourceAssignment, SourceSpec
from streams.vectors.chunk import NO_WATERMARK
from tests.conftest import WaitUntil

TOKEN = "a-token-that-nobody-guesses"


class Site:
    """Opens the source as a host would, and asks it for what has entered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_us = 1_700_000_000_000_000
        self.rows: list[dict[str, object]] = []
        self.source: LiveInput | None = None

    def open(self, options: Tcp, *, started: bool = False) -> str:
        """Returns the address."""
        assigned = SourceAssignment(
            stream="north",
            columns={"number": "int", "name": "string"},
            source=SourceSpec(driver="tcp", guarantee=options.guarantee),
            start_at_us=1 if started else None,
        )
        clock = lambda: self.now_us  # noqa: E731
        source = options.open(assigned, SourceContext(folder=self.folder, clock_us=clock))
        assert isinstance(source, LiveInput)
        self.source = source
        assert source.address is not None
        return source.address

    def entered(self) -> list[object]:
        assert self.source is not None
        while (emitted := self.source.emit(0, self.now_us)) is not None:
            self.rows += emitted.rows.to_pylist()
        return [row["number"] for row in self.rows]

    def close(self) -> None:
        if self.source is not None:
            self.source.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def send(address: str, data: bytes) -> None:
    with connected(address) as connection:
        connection.sendall(data)


def send_on(connection: socket.socket, data: bytes) -> None:
    """Send for as long as the site reads, but no more than all its buffers could hold."""
    for _ in pieces_sent(connection, data):
        pass


def pieces_sent(connection: socket.socket, data: bytes) -> Iterator[int]:
    """How much has been sent each time."""
    sent = 0
    while sent < 200 * 2**20:
        piece = connection.send(data)
        sent += piece
        yield piece


def test_csv_without_header_as_nc_sends_it(site: Site, wait_until: WaitUntil) -> None:
    address = site.open(Tcp())
    script = 'import socket,sys; s=socket.create_connection(("127.0.0.1", int(sys.argv[1])))\n'
    script += "s.sendall(sys.stdin.buffer.read())"
    command = ["python3", "-c", script, address.rpartition(":")[2]]
    subprocess.run(command, input=b'1,a\n2,"b"\n\n3,\n', check=True, timeout=60)
    wait_until(lambda: site.entered() == [1, 2, 3])
    assert [row["name"] for row in site.rows] == ["a", "b", None]
    assert site.rows[0]["_ts"] == site.now_us // 1000


def test_json_with_event_time_and_lines_that_cannot_be_read(
    site: Site, wait_until: WaitUntil
) -> None:
    options = Tcp(format=Format.JSON, time_column="at", time_format="ms", slack_ms=10)
    address = site.open(options)
    lines = [
        b'{"at": 1000, "number": 1, "name": "a"}',
        b'{"at": 995, "number": 0}',
        b"nonsense",
        b'{"at": 1005, "number": "x"}',
        b'{"at": 99999999999999, "number": 7}',
        b'{"at": 1100, "number": 2}',
    ]
    send(address, b"\n".join(lines) + b"\n" + b'{"at": 1200, "num')
    wait_until(lambda: site.entered() == [0, 1])
    send(address, b'{"at": 1000, "number": 3}\n{"at": 1300, "number": 4}\n')
    wait_until(lambda: site.entered() == [0, 1, 2])
    assert site.source is not None
    status = site.source.status
    assert (status.malformed, status.ahead, status.late) == (3, 1, 1)
    written = [json.loads(line) for line in (site.folder / "north.rejected.jsonl").open()]
    assert [line["what"] for line in written if line["kind"] == "malformed"] == [
        "nonsense",
        '{"at": 1005, "number": "x"}',
        '{"at": 1200, "num',
    ]


def test_lines_of_bytes_that_are_no_text_and_quotes_that_do_not_end(
    site: Site, wait_until: WaitUntil
) -> None:
    address = site.open(Tcp())
    send(address, b'1,a\n2,"b\n3,c\n4,\xff\n5\0,d\n9223372036854775808,e\n6,f\n')
    wait_until(lambda: site.entered() == [1, 3, 6])
    assert site.source is not None
    assert site.source.status.malformed == 4
    assert [row["name"] for row in site.rows] == ["a", "c", "f"]
    site.close()
    site.rows.clear()
    address = site.open(Tcp(format=Format.JSON, durable=Durability.NOTHING))
    send(address, b'{"number": 1}\n{"number": 2, "name": "\xff"}\n{"number": 3}\n')
    wait_until(lambda: site.entered() == [1, 3])


def test_empty_lines_may_come_before_the_header(site: Site, wait_until: WaitUntil) -> None:
    send(site.open(Tcp(header=True)), b"\n\r\nnumber,name\n1,a\n")
    wait_until(lambda: site.entered() == [1])


def test_header_names_the_columns(site: Site, wait_until: WaitUntil) -> None:
    address = site.open(Tcp(header=True))
    send(address, b"name,more,number\na,x,1\n")
    send(address, b"number,name\n2,b\n")
    wait_until(lambda: sorted(map(str, site.entered())) == ["1", "2"])


def test_acknowledged_lines_survive_the_site(site: Site, wait_until: WaitUntil) -> None:
    address = site.open(Tcp(acknowledge=True, time_column="number", time_format="ms"))
    with connected(address) as connection:
        responses = connection.makefile()
        connection.sendall(b"1,a\n2,b\n")
        assert responses.readline() == "2\n"
        connection.sendall(b"3,c\n")
        assert responses.readline() == "3\n"
    site.close()
    site.rows.clear()
    address = site.open(Tcp(time_column="number", time_format="ms"))
    assert isinstance(site.source, JournaledInput)
    site.source.seek(NO_WATERMARK)
    send(address, b"4,d\n5,e\n")
    wait_until(lambda: site.entered() == [1, 2, 3, 4])


def test_a_token_is_asked_for_and_never_written(site: Site, wait_until: WaitUntil) -> None:
    site.folder.mkdir()
    (site.folder / "token").write_text(TOKEN)
    address = site.open(Tcp(token_file=str(site.folder / "token")))
    for wrong in (b"1,a\n", b"token wrong\n2,b\n", b"token " + TOKEN[:-1].encode() + b"\n3,c\n"):
        with connected(address) as connection:
            connection.sendall(wrong)
            assert connection.recv(1) == b""
    send(address, b"token " + TOKEN.encode() + b"\n4,d\n")
    wait_until(lambda: site.entered() == [4])
    assert site.source is not None
    assert site.source.status.malformed == 3
    assert TOKEN[:8] not in (site.folder / "north.rejected.jsonl").read_text()


@pytest.mark.parametrize(
    "sent",
    [b"token " + TOKEN[:-1].encode(), b"x" * (MOST_LINE_BYTES + 2)],
    ids=["without an end", "too long"],
)
def test_what_comes_before_a_token_is_never_written(
    site: Site, wait_until: WaitUntil, sent: bytes
) -> None:
    site.folder.mkdir()
    (site.folder / "token").write_text(TOKEN)
    address = site.open(Tcp(token_file=str(site.folder / "token")))
    assert site.source is not None
    source = site.source
    with connected(address) as connection, contextlib.suppress(OSError):
        connection.sendall(sent)
    wait_until(lambda: source.status.malformed == 1)
    assert source.status.last_rejected == "a connection showed a wrong token, or none"
    (line,) = (site.folder / "north.rejected.jsonl").read_text().splitlines()
    assert json.loads(line)["what"] == ""


def test_a_line_within_which_a_connection_is_reset_is_counted(
    site: Site, wait_until: WaitUntil
) -> None:
    address = site.open(Tcp())
    assert site.source is not None
    source = site.source
    with connected(address) as connection:
        connection.sendall(b"1,a\n2,b")
        wait_until(lambda: site.entered() == [1])
        # Closing resets it then.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: source.status.malformed == 1)
    assert source.status.last_rejected == "line 2: the connection ended within this line"


def test_lines_before_those_that_end_a_connection_enter(site: Site, wait_until: WaitUntil) -> None:
    address = site.open(Tcp())
    with connected(address) as connection, contextlib.suppress(OSError):
        connection.sendall(b"1,a\n2,b\n" + b"x\n" * 2000)
        connection.recv(1)
    wait_until(lambda: site.entered() == [1, 2])
    assert site.source is not None
    assert site.source.status.malformed == 1000


def test_a_line_without_end_and_a_connection_too_many_end(
    site: Site, wait_until: WaitUntil
) -> None:
    address = site.open(Tcp(connections=1))
    with connected(address) as connection:
        connection.sendall(b"1,a\n")
        wait_until(lambda: site.entered() == [1])
        with connected(address) as other:
            assert other.recv(1) == b""
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            send_on(connection, b"x" * MOST_LINE_BYTES)
    assert site.source is not None
    assert site.source.status.malformed == 2


def test_a_client_of_another_form_is_disconnected(site: Site, wait_until: WaitUntil) -> None:
    address = site.open(Tcp(format=Format.JSON))
    with connected(address) as connection, pytest.raises(OSError, match=r"reset|Broken pipe"):
        send_on(connection, b"no json\n" * 1000)
    send(address, b'{"number": 1}\n')
    wait_until(lambda: site.entered() == [1])
    assert site.source is not None
    assert "1000 lines" in str(site.source.status.last_rejected)


def test_whoever_sends_more_than_the_host_takes_waits(site: Site, wait_until: WaitUntil) -> None:
    address = site.open(Tcp())
    line = b"7," + b"x" * 1000 + b"\n"
    with connected(address) as connection:
        connection.settimeout(1.0)
        pieces: list[int] = []
        with pytest.raises(TimeoutError):
            pieces.extend(pieces_sent(connection, line * 100))
        wait_until(lambda: len(site.entered()) == sum(pieces) // len(line))


def test_an_address_in_use_is_named(site: Site) -> None:
    port = int(site.open(Tcp()).rpartition(":")[2])
    assigned = SourceAssignment(stream="s", columns={"n": "int"}, source=None, start_at_us=None)
    with pytest.raises(DriverError, match=f"cannot listen at 127.0.0.1:{port}: .*in use"):
        Tcp(listen=Endpoint(port=port)).open(assigned, SourceContext(folder=site.folder))


def test_a_connection_that_ends_by_a_fault_of_its_site_is_counted(
    site: Site, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = site.open(Tcp())
    assert site.source is not None

    def fault(*_: object, **_others: object) -> None:
        raise ZeroDivisionError("made up")

    with monkeypatch.context() as patched:
        patched.setattr(site.source, "push", fault)
        with connected(address) as connection:
            connection.sendall(b"1,a\n")
            assert connection.recv(1) == b""
    assert site.source.status.malformed == 1
    assert "ZeroDivisionError: made up" in str(site.source.status.last_rejected)
    send(address, b"2,b\n")
    wait_until(lambda: site.entered() == [2])


def test_a_token_that_comes_byte_by_byte_holds_no_connection(
    site: Site, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "TOKEN_TIMEOUT_S", 0.3)
    site.folder.mkdir()
    (site.folder / "token").write_text(TOKEN)
    host, port = site.open(Tcp(token_file=str(site.folder / "token"))).rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as slow:

        def drip() -> bool:
            try:
                slow.sendall(b"x")
            except OSError:
                return True
            return False

        wait_until(drip)
