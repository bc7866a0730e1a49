"""The options of live sources, as manifests say them, and the errors that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.edges import sources
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.listening import Endpoint, read_token, same_token
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.formats.row_form import Format
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.edges.sources.tcp import Tcp
from orchestrator.errors import InvalidInput
from orchestrator.manifest import load
from orchestrator.records import Guarantee, Shed, SourceAssignment, SourceSpec
from streams.vectors.chunk import Position

STREAM = """
kind: Stream
name: north
site: here
columns: {number: int}
rate: 1 KB/s
from:
  tcp: %s
"""


def driver(folder: Path, options: str) -> Tcp:
    file = folder / "stream.yaml"
    file.write_text(STREAM % options)
    (stream,) = load([file]).streams
    assert stream.record.source is not None
    assert stream.record.source.guarantee is not Guarantee.ONCE
    found = sources.restore(stream.record.source)
    assert isinstance(found, Tcp)
    return found


def test_options(tmp_path: Path) -> None:
    made = driver(
        tmp_path,
        "{listen: 9000, format: json, timestamp: {column: at, format: us}, slack: 200 ms, "
        "idleAfter: off, maxAhead: 1 h, durable: no, retain: 1 GiB, advance: 1 s}",
    )
    assert made == Tcp(
        listen=Endpoint(port=9000),
        format=Format.JSON,
        time_column="at",
        time_format="us",
        slack_ms=200,
        idle_after_ms=None,
        max_ahead_ms=3_600_000,
        durable=Durability.NOTHING,
        retain_bytes=2**30,
        advance_ms=1000.0,
    )
    assert not made.guarantee.resumable
    assert not driver(tmp_path, "{durable: replicas}").guarantee.resumable
    plain = driver(tmp_path, "{}")
    assert plain == Tcp()
    assert plain.guarantee.resumable


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{listen: 0.0.0.0:9000}", "from.tcp.listen: '0.0.0.0:9000' can be reached from other"),
        ("{listen: 70000}", "from.tcp.listen: 70000 is no address"),
        ("{listen: here}", "is no address to listen at"),
        ("{timestamp: later}", "from.tcp.timestamp: 'later' is unknown"),
        ("{timestamp: {format: ms}}", "from.tcp.timestamp.column: is missing"),
        ("{timestamp: {column: at, format: min}}", "format: 'min' is no format of a timestamp"),
        (
            "{timestamp: {column: at, format: '%G-%V'}}",
            "format: '%G-%V' has %G, by which no timestamp",
        ),
        ("{slack: 3}", "from.tcp.slack"),
        ("{durable: disk}", "from.tcp.durable: 'disk' is unknown"),
        (
            "{durable: replicas, timestamp: {column: at}, idleAfter: off}",
            "from.tcp.durable: 'replicas' needs an end of each timestamp",
        ),
        ("{retain: 1m}", "from.tcp.retain: '1m' is too little for a journal"),
        ("{format: arrow}", "from.tcp.format: 'arrow' is unknown"),
        ("{format: json, header: true}", "from.tcp.header: true is for CSV only"),
        ("{port: 9000}", "is an unknown field"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        driver(tmp_path, options)
    assert message in str(caught.value)
    assert "stream.yaml:8" in str(caught.value)


def test_only_clients_that_send_can_wait_for_replicas(tmp_path: Path) -> None:
    file = tmp_path / "stream.yaml"
    file.write_text((STREAM % "{path: /in, durable: replicas}").replace("tcp", "folder"))
    with pytest.raises(InvalidInput, match="is for sources that clients push into"):
        load([file])


def test_a_load_shedder_excludes_a_journal_aloud(tmp_path: Path) -> None:
    file = tmp_path / "stream.yaml"
    shed = "shed: {tuples: 1, per: 1 s}\n"
    file.write_text(STREAM % "{}" + shed)
    with pytest.raises(InvalidInput, match="shed: cannot stand beside a source with a journal"):
        load([file])
    file.write_text(STREAM % "{durable: no}" + shed)
    load([file])


def test_other_machines_reach_it_with_a_token(tmp_path: Path) -> None:
    made = driver(tmp_path, "{listen: '[::]:9000', tokenFile: secret}")
    assert made.listen == Endpoint(host="::", port=9000)
    assert not made.listen.is_local
    assert made.token_file == str(tmp_path / "secret")
    with pytest.raises(DriverError, match="cannot be read"):
        read_token(made.token_file)
    (tmp_path / "secret").write_text("short\n")
    with pytest.raises(DriverError, match="fewer than 16") as caught:
        read_token(made.token_file)
    assert "short" not in str(caught.value)
    (tmp_path / "secret").write_text("long-enough-to-be-a-token\n")
    token = read_token(made.token_file)
    assert token is not None
    assert same_token("long-enough-to-be-a-token", token)
    assert not same_token("long-enough-to-be-a-tokex", token)


def assigned(*, start_at_us: int | None = None, shed: Shed | None = None) -> SourceAssignment:
    return SourceAssignment(
        stream="north",
        columns={"number": "int"},
        source=SourceSpec(driver="tcp", guarantee=Guarantee.JOURNALED),
        start_at_us=start_at_us,
        shed=shed,
        generation=3,
    )


def test_a_journal_that_is_gone_is_said_and_not_begun_anew(tmp_path: Path) -> None:
    context = SourceContext(folder=tmp_path)
    opened = Tcp().input(assigned(), context)
    assert opened.resumes
    opened.close()
    Tcp().input(assigned(start_at_us=1), context).close()
    for file in (tmp_path / "journal" / "north" / "3").iterdir():
        file.unlink()
    (tmp_path / "journal" / "north" / "3").rmdir()
    with pytest.raises(DriverError, match="is gone, and consumers rely on its numbers"):
        Tcp().input(assigned(start_at_us=1), context)


def test_former_lives_of_a_stream_are_removed(tmp_path: Path) -> None:
    former = tmp_path / "journal" / "north" / "2"
    former.mkdir(parents=True)
    (former / "000000000000.journal").write_bytes(b"x")
    opened = Tcp().input(assigned(), SourceContext(folder=tmp_path))
    assert opened.emit(0, 0) is None or opened.status.address is None
    opened.close()
    assert not former.exists()


def test_without_a_journal_a_source_does_not_resume(tmp_path: Path) -> None:
    shed = Shed(tuples=1, per_ms=1.0)
    for opened in (
        Tcp().input(assigned(shed=shed), SourceContext(folder=tmp_path)),
        Tcp(durable=Durability.NOTHING).input(assigned(), SourceContext()),
    ):
        assert not opened.resumes
        opened.close()
    with pytest.raises(DriverError, match="no folder for the stream's journal"):
        Tcp().input(assigned(), SourceContext())
    assert Position() == Position()
