"""Where the HTTP API is served, and to whom: certificates, other addresses, pages elsewhere."""

from __future__ import annotations

import http.client
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.deploy.config import ProcessConfig
from orchestrator.embedded.packages import source_root
from orchestrator.embedded.ports import free_port
from orchestrator.errors import InvalidInput, Unreachable
from orchestrator.health import Health
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.web import connections, events
from orchestrator.web.__main__ import serve
from tests.conftest import PATIENCE_S, WaitUntil
from tests.web_process import TOKEN
from vivace.api_client import ApiClient

ALLOWED = {"Authorization": f"Bearer {TOKEN}"}
PAGE = "https://wall.example"


class InMemory(ProcessConfig, frozen=True, kw_only=True):
    """A configuration whose store is in memory."""

    def open_store(self) -> Any:
        return MemoryServer().connect()


def configured(folder: Path, **given: Any) -> ProcessConfig:
    (folder / "token").write_text(TOKEN)
    return InMemory(
        file="vivace.yaml", cluster="c", zookeeper="none", secret="secret",
        token_file=folder / "token", **given,
    )  # fmt: skip


@contextmanager
def opened_at(config: ProcessConfig) -> Generator[None]:
    ended, health = threading.Event(), Health()
    thread = threading.Thread(target=serve, args=(config, ended.is_set, health))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_S)


def client(port: int, **given: Any) -> ApiClient:
    scheme = "https" if given else "http"
    return ApiClient(f"{scheme}://127.0.0.1:{port}", TOKEN, patience_s=PATIENCE_S, **given)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that vouches for itself, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on the PATH, which makes the certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", key, "-out", certificate,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def test_a_token_and_a_certificate_that_are_written_anew_take_the_place_of_the_former_ones(
    tmp_path: Path, wait_until: WaitUntil
) -> None:
    port = free_port()
    given, key = make_certificate(tmp_path)
    former, other = tmp_path / "former.pem", "another-token-" + TOKEN
    shutil.copy(given, former)
    config = configured(tmp_path, web=f"0.0.0.0:{port}", certificate=given, certificate_key=key)

    def allows(token: str, ca_file: Path) -> bool:
        trusting = ssl.create_default_context(cafile=str(ca_file))
        asked = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=trusting)
        try:
            asked.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            return asked.getresponse().status == http.HTTPStatus.OK
        except ssl.SSLError:
            return False

    with opened_at(config):
        assert "vivace" in client(port, ca_file=str(former)).text("/metrics")
        (tmp_path / "token").write_text("short")
        (tmp_path / "later").mkdir()
        renewed, renewed_key = make_certificate(tmp_path / "later")
        renewed_key.replace(key)
        renewed.replace(given)
        # The token cannot be used: all stays.
        assert allows(TOKEN, former)
        (tmp_path / "token").write_text(other)
        wait_until(lambda: allows(other, given))
        assert not allows(TOKEN, given)
        assert not allows(other, former)


def test_with_a_certificate_the_api_is_served_to_other_machines_in_secret(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    port = free_port()
    given, key = certificate
    config = configured(tmp_path, web=f"0.0.0.0:{port}", certificate=given, certificate_key=key)
    with opened_at(config):
        trusting = client(port, ca_file=str(given))
        assert "vivace" in trusting.text("/metrics")
        with pytest.raises(ssl.SSLCertVerificationError):
            http.client.HTTPSConnection("127.0.0.1", port).connect()
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        plain.request("GET", "/metrics", headers=ALLOWED)
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()


def test_a_certificate_whose_key_stands_in_the_same_file(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_text("".join(each.read_text() for each in certificate))
    port = free_port()
    with opened_at(configured(tmp_path, web=f"0.0.0.0:{port}", certificate=both)):
        assert client(port, ca_file=str(certificate[0])).text("/livez")


@pytest.mark.parametrize("fault", ["absent", "no certificate", "no key", "key of another"])
def test_a_certificate_that_cannot_be_used_is_named(
    fault: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    given, key = certificate
    wrong = tmp_path / "wrong.pem"
    if fault != "absent":
        wrong.write_text("wrong")
    if fault == "key of another":
        subprocess.run(
            ["openssl", "genrsa", "-out", wrong, "2048"], check=True, capture_output=True
        )
    pair = {
        "absent": (wrong, key),
        "no certificate": (wrong, key),
        "no key": (given, None),
        "key of another": (given, wrong),
    }[fault]
    port = free_port()
    config = configured(tmp_path, web=f"{port}", certificate=pair[0], certificate_key=pair[1])
    with pytest.raises(InvalidInput) as raised:
        serve(config, lambda: True, Health())
    assert (raised.value.file, raised.value.field) == ("vivace.yaml", "certificate")
    assert raised.value.value == str(pair[0])
    assert raised.value.exit_status == 2


def test_a_key_without_a_certificate_is_refused(tmp_path: Path) -> None:
    config = configured(tmp_path, web=str(free_port()), certificate_key=tmp_path / "key.pem")
    with pytest.raises(InvalidInput, match="certificateKey"):
        serve(config, lambda: True, Health())


def test_what_is_insecure_is_served_if_that_is_wanted(tmp_path: Path) -> None:
    port = free_port()
    with opened_at(configured(tmp_path, web=f"0.0.0.0:{port}", insecure_http=True)):
        assert "vivace" in client(port).text("/metrics")


@pytest.mark.slow
def test_another_address_is_refused_with_status_2(tmp_path: Path) -> None:
    configured(tmp_path)
    (tmp_path / "secret").write_text("secret")
    file = tmp_path / "vivace.yaml"
    file.write_text(
        "cluster: c\nzookeeper: 127.0.0.1:1\nsecretFile: secret\ntokenFile: token\n"
        "web: 0.0.0.0:8650\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.web", "--config", str(file)],
        capture_output=True, text=True, timeout=PATIENCE_S, cwd=source_root(), check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "web: '0.0.0.0:8650' can be reached from other machines" in done.stderr
    assert "insecureHttp: true" in done.stderr


def test_an_address_that_is_taken_is_unreachable(tmp_path: Path) -> None:
    port = free_port()
    config = configured(tmp_path, web=str(port))
    with opened_at(config):
        assert client(port).text("/livez")
        with pytest.raises(Unreachable, match="VIVACE_WEB"):
            serve(config, lambda: True, Health())


def asked(port: int, method: str, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=named)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_pages_that_are_named_may_read_and_ask(tmp_path: Path) -> None:
    port = free_port()
    with opened_at(configured(tmp_path, web=str(port), cors_allow=(PAGE,))):
        assert client(port).text("/livez")
        for page, allowed in ((PAGE, PAGE), ("https://other.example", None)):
            found = asked(port, "GET", "/api/v1/drills", Origin=page, **ALLOWED)
            assert found.status == 200
            assert found.headers["Access-Control-Allow-Origin"] == allowed
        found = asked(port, "GET", "/api/v1/drills", Origin=PAGE, **ALLOWED)
        exposed = {e.strip() for e in found.headers["Access-Control-Expose-Headers"].split(",")}
        assert exposed >= {"ETag", "Location", "Retry-After", "Vivace-View-Age"}
        assert found.headers["Access-Control-Allow-Credentials"] is None
        # Errors have to be readable, too.
        refused = asked(port, "GET", "/api/v1/drills", Origin=PAGE)
        assert refused.status == 401
        assert refused.headers["Access-Control-Allow-Origin"] == PAGE
        wanted = "authorization,content-type,if-none-match,last-event-id"
        first = asked(
            port, "OPTIONS", "/api/v1/tokens", Origin=PAGE,
            Access_Control_Request_Method="POST", Access_Control_Request_Headers=wanted,
        )  # fmt: skip
        assert first.status in (200, 204)
        permitted = first.headers["Access-Control-Allow-Headers"].lower().replace(" ", "")
        assert {*wanted.split(",")} <= {*permitted.split(",")}
        assert "POST" in first.headers["Access-Control-Allow-Methods"].replace("*", "POST")


def test_no_page_elsewhere_may_read_unless_it_is_named(tmp_path: Path) -> None:
    port = free_port()
    with opened_at(configured(tmp_path, web=str(port))):
        assert client(port).text("/livez")
        found = asked(port, "GET", "/api/v1/drills", Origin=PAGE, **ALLOWED)
        assert found.headers["Access-Control-Allow-Origin"] is None


def test_a_connection_on_which_nothing_is_asked_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.1)
    port = free_port()
    with opened_at(configured(tmp_path, web=f"127.0.0.1:{port}")):
        assert client(port).text("/livez")
        for said in (
            b"",
            b"GET /livez HTTP/1.1\r\nHost: c\r\nX-Slow: ",
            b"GET /livez HTTP/1.1\r\n",
        ):
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as idle:
                idle.sendall(said)
                assert idle.recv(1) == b""
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as used:
            used.sendall(b"GET /livez HTTP/1.1\r\nHost: c\r\n\r\n")
            assert b"alive" in b"".join(iter(lambda: used.recv(4096), b""))


def test_what_is_followed_is_no_idle_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.01)
    monkeypatch.setattr(events, "QUIET_S", 0.1)
    port = free_port()
    with opened_at(configured(tmp_path, web=f"127.0.0.1:{port}")):
        assert client(port).text("/livez")
        following = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        following.request("GET", "/api/v1/events", headers=ALLOWED)
        response = following.getresponse()
        lines = [response.readline() for _ in range(6)]
    assert lines == [b"id: -1\n", b"\n", b": \n", b"\n", b": \n", b"\n"]


def test_more_connections_than_may_be_are_not_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    port = free_port()
    with opened_at(configured(tmp_path, web=f"127.0.0.1:{port}")), ExitStack() as stack:
        assert client(port).text("/livez")
        opened = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(4)]
        for each in opened:
            stack.enter_context(each)
        ended = set[socket.socket]()
        while len(ended) < 2:
            ended |= {*select.select([each for each in opened if each not in ended], [], [])[0]}
        assert {each.recv(1) for each in ended} == {b""}
        opened[0].sendall(b"GET /livez HTTP/1.1\r\nHost: c\r\n\r\n")
        assert opened[0].recv(8) == b"HTTP/1.1"
