"""A stream that enters at two sites."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.control.observe.entering import EnteringStream
from orchestrator.errors import InvalidInput
from orchestrator.manifest import load
from orchestrator.manifest.changes import RunsOtherwise, in_words, refuse_change
from orchestrator.manifest.load import check_sites

REPLAY = (
    "{replay: {path: north.parquet, begin: '2021-10-07T12:00:00Z', end: '2021-10-07T13:00:00Z'}}"
)

STEADY = "idleAfter: off, maxAhead: off, timestamp: {column: at}"


def stream(sites: str, source: str = f"from: {REPLAY}", more: str = "") -> str:
    columns = "columns: {a: float}\nrate: 1 KB/s"
    return f"kind: Stream\nname: north\n{sites}\n{columns}\n{source}\n{more}"


def written(folder: Path, text: str) -> Path:
    file = folder / "stream.yaml"
    file.write_text(text)
    return file


def test_the_second_site_stands_by(tmp_path: Path) -> None:
    (found,) = load([written(tmp_path, stream("sites: [a, b]"))]).streams
    assert (found.record.site, found.record.standby) == ("a", "b")
    assert found.record.sites == ("a", "b")
    running = EnteringStream.of(found.record, 0, None).running
    taken_over = msgspec.structs.replace(running, primary="b", epoch=1)
    assert EnteringStream.of(found.record, 0, taken_over).sites == ("b", "a")
    assert in_words(found.record)["sites"] == "[a, b]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (stream("sites: [a]"), "sites: [a] does not name two sites"),
        (stream("sites: [a, a]"), "sites: [a, a] does not name two sites"),
        (stream("sites: [a, b, c]"), "sites: [a, b, c] does not name two sites"),
        (stream("site: a\nsites: [a, b]"), "site: 'a' is there beside `sites`"),
        (
            stream("sites: [a, b]", "from: {tcp: {timestamp: arrival, format: json}}"),
            "either site can bring in; `from: tcp`: what is sent to one site does not come to the "
            "other, unless with `durable: replicas`",
        ),
        (
            stream("sites: [a, b]", "from: {http: {durable: replicas, late: true}}"),
            "sites: [a, b] needs a source that either site can bring in; `from: http`: leave out "
            "`late` and `rejected`, whose streams are kept at one site. Or write `site: a`.",
        ),
        (
            stream("sites: [a, b]", "from: {kafka: {brokers: 'h:1', topic: t}}"),
            "`from: kafka`: it also needs `partitions`, the number of the topic's, `idleAfter",
        ),
        (
            stream("sites: [a, b]", f"from: {{folder: {{path: /in, {STEADY}}}}}"),
            "`from: folder`: it also needs `names` with numbers, such as `readings-######.csv`. Or",
        ),
        (
            stream("sites: [a, b]", "from: {folder: {path: /in, names: 'a-#.csv'}}"),
            "`from: folder`: it also needs `idleAfter: off`, `maxAhead: off`, a timestamp",
        ),
        (
            stream("sites: [a, b]", "from: {http: {late: true}}"),
            "Or write `site: a`; a site that is started again goes on after its journal.",
        ),
        (stream("sites: [a, b]", ""), "`from`: there is none"),
        (
            stream("sites: [a, b]", more="shed: {tuples: 1, per: 1 s}\n"),
            "sites: [a, b] needs the same tuples at both sites, and what is dropped depends on",
        ),
        (
            stream("sites: [a, b]", more="overdue: drop\n"),
            "when they come (`overdue: drop`). Remove `overdue: drop`, or write `site: …`.",
        ),
    ],
)
def test_what_two_sites_cannot_give_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load([written(tmp_path, text)])
    assert message in str(caught.value)
    assert "stream.yaml:3" in str(caught.value)


def test_a_site_that_does_not_exist_is_named(tmp_path: Path) -> None:
    streams = load([written(tmp_path, stream("sites: [a, c]"))]).streams
    with pytest.raises(InvalidInput, match="is no site") as caught:
        check_sites(streams, (), {"a", "b"}, "is no site")
    assert "Stream north: sites: 'c'" in str(caught.value)


def test_another_standby_is_a_change(tmp_path: Path) -> None:
    (before,) = load([written(tmp_path, stream("sites: [a, b]"))]).streams
    (after,) = load([written(tmp_path, stream("sites: [a, c]"))]).streams
    with pytest.raises(RunsOtherwise) as caught:
        refuse_change(after, before.record, "Delete it.")
    assert caught.value.running == "[a, b]"


def test_two_sites_read_numbered_files(tmp_path: Path) -> None:
    source = f"from: {{folder: {{path: /in, names: 'a-###.csv', {STEADY}}}}}"
    (found,) = load([written(tmp_path, stream("sites: [a, b]", source))]).streams
    assert found.record.standby == "b"
    for names, message in (
        ("a.csv", "does not name files by number"),
        ("a-##.txt", "is no kind of file"),
    ):
        with pytest.raises(InvalidInput, match=message):
            load([written(tmp_path, stream("site: a", source.replace("a-###.csv", names)))])


@pytest.mark.parametrize(
    "source",
    ["from: {http: {durable: replicas}}", "from: {tcp: {format: json, durable: replicas}}"],
)
def test_what_clients_send_enters_at_one_of_two_sites_at_a_time(
    tmp_path: Path, source: str
) -> None:
    (found,) = load([written(tmp_path, stream("sites: [a, b]", source))]).streams
    assert found.record.sites == ("a", "b")
    entering = EnteringStream.of(found.record, 0, None)
    assert entering.opened_at == ("a",)
    moved = msgspec.structs.replace(entering.running, primary="b")
    assert EnteringStream.of(found.record, 0, moved).opened_at == ("b",)
