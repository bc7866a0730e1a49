"""Requests over real HTTP whose parts do not fit together."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live.live_input import LiveInput
from tests.integration.orchestrator.edges.sources.test_http import Site, accepted, entered, request

POST = b"POST /streams/north HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n"
BODY = b"number,name\n1,a"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


def connected(source: LiveInput) -> socket.socket:
    assert source.address is not None
    parts = urlsplit(source.address)
    assert parts.hostname is not None
    assert parts.port is not None
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def exchanged(source: LiveInput, sent: bytes) -> bytes:
    """All that comes back, when the client has sent what it has and ends its half."""
    with connected(source) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while part := connection.recv(4096):
            got += part
    return got


def test_a_chunk_that_is_longer_than_it_says_is_refused(site: Site) -> None:
    source = site.open(Http())
    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
    got = exchanged(source, POST + chunked % (len(BODY) - 4, BODY))
    assert got.startswith(b"HTTP/1.1 400")
    assert not entered(source)
    assert exchanged(source, POST + chunked % (len(BODY), BODY)).startswith(b"HTTP/1.1 200")


def test_the_body_of_a_get_is_no_further_request(site: Site) -> None:
    source = site.open(Http())
    hidden = POST + b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
    get = b"GET /streams/north HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(hidden)
    assert exchanged(source, get + hidden).count(b"HTTP/1.1 ") == 1
    assert not entered(source)


def test_a_body_that_is_cut_off_is_refused_and_counted(site: Site) -> None:
    source = site.open(Http())
    got = exchanged(source, POST + b"Content-Length: 100\r\n\r\n" + BODY)
    assert got.startswith(b"HTTP/1.1 400")
    assert b"ends before it is complete" in got
    assert source.status.malformed == 1


def test_what_follows_a_gzip_body_is_not_waited_for(site: Site) -> None:
    """It would be gathered, and counted nowhere."""
    source = site.open(Http())
    sent = gzip.compress(BODY) + b"z" * 2**20
    with connected(source) as connection:
        # Not all that it announces comes.
        head = POST + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (len(sent) + 1)
        connection.sendall(head + sent)
        got = connection.recv(4096)
    assert got.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("digits", ["9" * 30, str(2**63 - 1), "0" * 5000])
def test_zeros_get_no_number_round_its_bound(site: Site, digits: str) -> None:
    source = site.open(Http())
    number = "0" * 20 + digits
    status, said, _ = request(source, BODY, Vivace_Client="c", Vivace_Number=number)
    assert (status, said["error"]) == (400, "Vivace-Number is no whole number from 0 on")
    assert request(source, BODY)[1] == accepted(1)
    source.close()
    # Its journal can be read.
    site.open(Http())


def test_zeros_get_no_length_round_its_bound(site: Site) -> None:
    source = site.open(Http())
    got = exchanged(source, POST + b"Content-Length: %s99999999999\r\n\r\n" % (b"0" * 20))
    assert got.startswith(b"HTTP/1.1 413")
