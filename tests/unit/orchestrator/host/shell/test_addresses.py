"""The address that peers are told."""

from __future__ import annotations

import pytest

from orchestrator.host.shell.addresses import advertised_address, endpoint

ANY_ADDRESS = "0.0.0.0"


@pytest.mark.parametrize(
    ("bind", "advertise", "told"),
    [
        ("127.0.0.2", "", "127.0.0.2"),
        ("127.0.0.2", "10.0.0.9", "10.0.0.9"),
        (ANY_ADDRESS, "host.example", "host.example"),
        (ANY_ADDRESS, "", "127.0.0.1"),
    ],
)
def test_told_is_what_is_named_or_bound_or_leads_to_zookeeper(
    bind: str, advertise: str, told: str
) -> None:
    """The way to a loopback address begins at one, whatever the machine's name stands for."""
    assert advertised_address(bind, advertise, "127.0.0.1:2181/team") == told


def test_a_server_without_a_way_is_passed_over() -> None:
    """Such as a name that is not known."""
    servers = "no.such.host.invalid:2181,127.0.0.1:2181"
    assert advertised_address(ANY_ADDRESS, "", servers) == "127.0.0.1"


@pytest.mark.parametrize("bind", ["::", "[::]"])
def test_a_host_that_listens_on_ipv6_tells_such_an_address(bind: str) -> None:
    assert advertised_address(bind, "", "[::1]:2181") == "::1"


def test_an_ipv6_address_has_brackets_in_an_endpoint() -> None:
    assert endpoint("::1", 9) == endpoint("[::1]", "9") == "tcp://[::1]:9"
    assert endpoint("10.0.0.9", 9) == "tcp://10.0.0.9:9"
