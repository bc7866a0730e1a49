"""The address that peers are told."""

from __future__ import annotations

import socket

import pytest

from orchestrator.host.shell.addresses import ANY_ADDRESS, advertised_address, on_this_machine
from orchestrator.records import MACHINE, HostSpec, NodeKind


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


def test_a_failure_domain_names_the_machine_on_which_the_host_runs() -> None:
    spec = HostSpec(
        cluster="c",
        node="one",
        kind=NodeKind.EXECUTOR,
        region="",
        domain=f"app@{MACHINE}/rack",
        zookeeper="",
        secret="",
    )
    assert on_this_machine(spec).domain == f"app@{socket.gethostname()}/rack"
