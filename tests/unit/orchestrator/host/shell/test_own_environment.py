"""What a host's own environment says wins over what its pool has told it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.host.shell.own_environment import in_its_environment
from orchestrator.records import FailureLabels, HostSpec, NodeKind


def spec(secret: str = "told") -> HostSpec:
    return HostSpec(
        cluster="c",
        node="one",
        kind=NodeKind.EXECUTOR,
        region="",
        labels=FailureLabels(application="app", domain="rack", zone="z1"),
        zookeeper="",
        secret=secret,
        advertise="pool.example",
    )


def test_its_labels_name_the_machine_and_zone_in_which_it_runs() -> None:
    found = in_its_environment(spec(), {}).labels
    assert found == FailureLabels(
        application="app", domain="rack", machine=socket.gethostname(), zone="z1"
    )
    own = in_its_environment(spec(), {"VIVACE_MACHINE": "m7", "VIVACE_ZONE": "z2"}).labels
    assert own == FailureLabels(application="app", domain="rack", machine="m7", zone="z2")


def test_its_address_and_port_win() -> None:
    told = in_its_environment(spec(), {})
    assert (told.advertise, told.port, told.secret) == ("pool.example", 0, "told")
    own = in_its_environment(spec(), {"VIVACE_ADVERTISE": "fd00::7", "VIVACE_PORT": "7400"})
    assert (own.advertise, own.port) == ("fd00::7", 7400)


def test_a_secret_that_was_not_told_lies_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("kept\n")
    assert in_its_environment(spec(""), {"VIVACE_SECRET_FILE": str(file)}).secret == "kept"
    with pytest.raises(InvalidInput, match=r"environment: VIVACE_SECRET_FILE: .*cannot be read"):
        in_its_environment(spec(""), {"VIVACE_SECRET_FILE": str(tmp_path / "none")})
    with pytest.raises(InvalidInput, match=r"environment: VIVACE_SECRET_FILE"):
        in_its_environment(spec(""), {})


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "9" * 5000, "٣"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(InvalidInput, match=r"environment: VIVACE_PORT: .* is no port"):
        in_its_environment(spec(), {"VIVACE_PORT": port})
