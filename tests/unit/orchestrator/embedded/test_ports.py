"""Ports for servers are those that no outgoing connection can take meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from orchestrator.embedded import ports
from orchestrator.embedded.ports import LEAST_PORT, LOOPBACK, free_ports, is_free


def test_ports_are_free_different_and_below_those_of_the_system() -> None:
    numbering = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first_of_system = int(numbering.read_text().split()[0]) if numbering.exists() else 49_152
    chosen = free_ports(50)
    assert len(set(chosen)) == 50
    assert all(is_free(port) for port in chosen)
    if first_of_system >= 2 * LEAST_PORT:
        assert all(LEAST_PORT <= port < first_of_system for port in chosen)


@pytest.mark.parametrize("says", ["1024 65535", "", "many", None])
def test_a_system_that_says_nothing_useful_still_gives_ports(
    says: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbering = tmp_path / "range"
    if says is not None:
        numbering.write_text(says)
    monkeypatch.setattr(ports, "_numbering", numbering)
    assert len(free_ports(3)) == 3


def test_a_port_in_use_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, port))
        monkeypatch.setattr(ports, "LEAST_PORT", port - 20)
        monkeypatch.setattr(ports, "_first_of_system", lambda: port + 20)
        assert port not in free_ports(30)
