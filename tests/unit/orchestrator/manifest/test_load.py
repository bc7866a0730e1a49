from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.edges.sources import recorded
from orchestrator.errors import InvalidInput
from orchestrator.manifest import Manifests, ZooKeeperManifest, cluster_record, load
from orchestrator.records import (
    ClusterRecord,
    DriverSpec,
    Estimate,
    Late,
    OnError,
    Overdue,
    Partial,
    Scheme,
    Shed,
    Standby,
)
from placement.methods import Method
from streams.scheduling.run_queue import Policy
from topology.cpu import DEFAULT_SCALING, Linear, PiecewiseLinear, Power, Queueing, Scaling

TEXT = """\
kind: Cluster
name: aircraft
nodes: [France Central, {name: second, region: UK South}]
sites: [{name: receiver, region: UK South}]
latencies: latency.csv
executorMemory: 600m
heartbeat: 20 ms
---
kind: Stream
name: north
site: receiver
columns: {z: string, a: float}
rate: 150 KB/s
---
kind: Query
name: proximity
deadline: 300 ms
recovery: 0.5 s
outputs: {alerts: receiver}
estimates: {alerts: {selectivity: 0.5, cost: 10 us}}
statements: |
  REGISTER QUERY alerts
    RSTREAM(SELECT * FROM north [NOW]);
"""
LATENCIES = ",France Central,UK South,Far\nFrance Central,2,10,\nUK South,12,,\nFar,,,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "all.yaml").write_text(TEXT)
    (tmp_path / "latency.csv").write_text(LATENCIES)
    return tmp_path


def read(folder: Path) -> ClusterRecord:
    cluster = load([folder]).cluster
    assert cluster is not None
    return cluster_record(cluster)


def refused(folder: Path, old: str, new: str) -> str:
    assert old in TEXT
    (folder / "all.yaml").write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InvalidInput) as caught:
        read(folder)
    return str(caught.value).removeprefix(f"{folder}/")


def test_columns_have_names_that_statements_quote(folder: Path) -> None:
    names = 'user-id: string, "@timestamp": float, group: int, größe in m: bool'
    (folder / "all.yaml").write_text(TEXT.replace("z: string, a: float", names))
    (stream,) = load([folder]).streams
    assert list(stream.record.columns) == ["user-id", "@timestamp", "group", "größe in m"]


def test_manifests_become_records(folder: Path) -> None:
    found = load([folder])
    assert found.cluster is not None
    assert [(n.name, n.region) for n in found.cluster.nodes] == [
        ("france-central", "France Central"),
        ("second", "UK South"),
    ]
    assert found.cluster.executor_memory_bytes == 600 * 2**20
    assert found.cluster.coordinators == 1
    assert found.cluster.zookeeper == ZooKeeperManifest(servers=1)
    (stream,) = found.streams
    assert list(stream.record.columns) == ["z", "a"]
    assert stream.record.rate_bytes_s == 150_000
    (query,) = found.queries
    assert (query.record.deadline_ms, query.record.recovery_bound_ms) == (300, 500)
    assert query.record.estimates == {"alerts": Estimate(selectivity=0.5, cost_us=10)}
    assert TEXT.splitlines()[query.statements_line - 1].strip() == "REGISTER QUERY alerts"


def test_cluster_record_has_one_way_delays_and_the_manifests_intervals(folder: Path) -> None:
    record = read(folder)
    assert record.delays_ms["France Central"] == {"France Central": 1.0, "UK South": 5.5}
    assert (record.heartbeat_ms, record.suspect_after_ms) == (20.0, 150.0)


def changed(folder: Path, *changes: tuple[str, str]) -> Manifests:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "all.yaml").write_text(text)
    return load([folder])


def test_how_hosts_work_is_read(folder: Path) -> None:
    default = read(folder)
    assert (default.scheduling, default.emulate_costs) == (Policy.EDF, False)
    assert default.state_rate_bytes_s is None
    more = "scheduling: fifo\nemulateCosts: true\nhop: 0 ms\nbatch: 0 ms\nstateRate: 5 MB/s"
    changed(folder, ("heartbeat: 20 ms", more))
    found = read(folder)
    assert (found.scheduling, found.emulate_costs) == (Policy.FIFO, True)
    assert (found.hop_overhead_ms, found.batch_ms) == (0.0, 0.0)
    assert found.state_rate_bytes_s == 5e6


def test_nodes_may_share_a_domain(folder: Path) -> None:
    cluster = changed(folder, ("{name: second,", "{name: second, domain: rack-1,")).cluster
    assert cluster is not None
    assert [node.domain for node in cluster.nodes] == ["", "rack-1"]


def test_what_becomes_of_overdue_tuples_is_read(folder: Path) -> None:
    kept = load([folder])
    assert {each.record.overdue for each in (*kept.streams, *kept.queries)} == {Overdue.KEEP}
    found = changed(
        folder,
        ("rate: 150 KB/s", "rate: 150 KB/s\noverdue: drop"),
        ("recovery:", "overdue: drop\nrecovery:"),
    )
    assert {each.record.overdue for each in (*found.streams, *found.queries)} == {Overdue.DROP}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "rate: 150 KB/s",
            "rate: 1 B/s\noverdue: maybe",
            "overdue: 'maybe' is unknown. Known: drop, keep.",
        ),
        ("recovery:", "overdue: 5 s\nrecovery:", "overdue: '5 s' is unknown. Known: drop, keep."),
    ],
)
def test_overdue_is_kept_or_dropped(folder: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        changed(folder, (before, after))
    assert message in str(caught.value)


def test_what_was_promised_to_be_kept_is_not_dropped_as_overdue(tmp_path: Path) -> None:
    file = tmp_path / "stream.yaml"
    text = "kind: Stream\nname: s\nsite: a\ncolumns: {n: int}\nrate: 1 KB/s\noverdue: drop\n"
    file.write_text(text + "from: {http: {durable: machine}}\n")
    with pytest.raises(InvalidInput) as caught:
        load([file])
    assert "stream.yaml:6: Stream s: overdue: 'drop' cannot stand beside a source with a" in str(
        caught.value
    )
    file.write_text(text + "from: {http: {durable: no}}\n")
    (stream,) = load([file]).streams
    assert not stream.record.resumes


def test_an_output_says_what_becomes_of_late_results(folder: Path) -> None:
    (query,) = load([folder]).queries
    assert query.record.late == {}
    text = "{site: receiver, late: %s}"
    (query,) = changed(folder, ("alerts: receiver", f"alerts: {text % 'drop'}")).queries
    assert query.record.late == {"alerts": Late.DROP}
    with pytest.raises(InvalidInput) as caught:
        changed(folder, ("alerts: receiver", f"alerts: {text % 'never'}"))
    assert "outputs.alerts.late: 'never' is unknown. Known: drop, keep." in str(caught.value)


def test_what_a_stream_sheds_is_read(folder: Path) -> None:
    (stream,) = load([folder]).streams
    assert (stream.record.burst, stream.record.shed) == (None, None)
    more = "rate: 150 KB/s\nburst: 12\nshed: {tuples: 30, per: 600 ms, value: -abs(a)}"
    (stream,) = changed(folder, ("rate: 150 KB/s", more)).streams
    assert stream.record.burst == 12
    assert stream.record.shed == Shed(tuples=30, per_ms=600.0, value="-abs(a)")
    shed = "rate: 150 KB/s\nshed: {tuples: 30, per: 1 us}"
    (stream,) = changed(folder, ("rate: 150 KB/s", shed)).streams
    assert stream.record.shed == Shed(tuples=30, per_ms=0.001, value=None)


def test_outputs_may_have_deadlines_and_fragments_nodes_of_their_own(folder: Path) -> None:
    (query,) = load([folder]).queries
    assert (query.record.deadlines_ms, query.record.primaries) == ({}, {})
    (query,) = changed(
        folder,
        (
            "{alerts: receiver}",
            "{alerts: {site: receiver, deadline: 30 ms}, more: {site: receiver}, plain: receiver}",
        ),
        ("estimates: {", "primaries: {alerts: [second, france-central]}\nestimates: {"),
    ).queries
    record = query.record
    assert record.outputs == dict.fromkeys(("alerts", "more", "plain"), "receiver")
    assert record.deadlines_ms == {"alerts": 30.0}
    assert [record.deadline_of(name) for name in record.outputs] == [30.0, 300.0, 300.0]
    assert record.primaries == {"alerts": ("second", "france-central")}


PERIODIC = "[NOW]) RTSPEC PERIOD 1 SECOND DEADLINE 40 MILLISECONDS"


def test_a_periodic_statement_may_state_the_deadline_of_its_output(folder: Path) -> None:
    (query,) = changed(folder, ("[NOW])", PERIODIC)).queries
    assert query.record.deadline_of("alerts") == 40
    same = ("{alerts: receiver}", "{alerts: {site: receiver, deadline: 40 ms}}")
    (again,) = changed(folder, ("[NOW])", PERIODIC), same).queries
    assert again.record == query.record


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "{alerts: receiver}",
            "{alerts: {site: receiver, deadline: 30 ms}}",
            "has a deadline of 30 ms, and DEADLINE 40 ms in its statement. Write it in one of the",
        ),
        ("{alerts: receiver}", "{more: receiver}", "gives alerts a DEADLINE, which is no output"),
    ],
)
def test_a_deadline_is_written_once_and_is_that_of_an_output(
    folder: Path, old: str, new: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        changed(folder, ("[NOW])", PERIODIC), (old, new))


@pytest.mark.parametrize("partial", Partial)
def test_an_owner_says_whether_statements_are_split(folder: Path, partial: Partial) -> None:
    written = f"partial: {partial.value}\nestimates: {{"
    (query,) = changed(folder, ("estimates: {", written)).queries
    assert query.record.partial is partial


@pytest.mark.parametrize("on_error", OnError)
def test_an_owner_says_what_happens_to_tuples_on_which_a_statement_fails(
    folder: Path, on_error: OnError
) -> None:
    written = f"onError: {on_error.value}\nestimates: {{"
    (query,) = changed(folder, ("estimates: {", written)).queries
    assert query.record.on_error is on_error


def test_a_cluster_and_a_query_choose_how_input_is_batched(folder: Path) -> None:
    assert read(folder).batching == "measured"
    (query,) = load([folder]).queries
    assert query.record.batching is None
    both = ("heartbeat: 20 ms", "batching: ats"), ("estimates: {", "batching: bts-8\nestimates: {")
    manifests = changed(folder, *both)
    assert manifests.cluster is not None
    assert manifests.cluster.record.batching == "ats"
    assert manifests.queries[0].record.batching == "bts-8"


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("s4://bucket/path", "'s4://bucket/path' leads to no file system: Unrecognized"),
        ("s3:///path", "'s3:///path' leads to no file system: it names no bucket. Write a path"),
        ("s3://id:hid/3en@bucket", "'s3://…@bucket' holds credentials, .* Leave them out: "),
    ],
)
def test_checkpoints_are_kept_where_a_uri_leads_to(folder: Path, uri: str, told: str) -> None:
    where = r"all\.yaml:\d+: Cluster \S+: state\.folder: "
    with pytest.raises(InvalidInput, match=where + told) as refused:
        changed(folder, ("heartbeat: 20 ms", f'state: {{folder: "{uri}"}}'))
    assert "3en" not in str(refused.value)


def test_a_cluster_may_choose_the_papers_methods(folder: Path) -> None:
    assert read(folder).placement.method is Method.VIVACE
    manifests = changed(folder, ("heartbeat: 20 ms", "placement: {method: paper}"))
    assert manifests.cluster is not None
    assert manifests.cluster.record.placement.method is Method.PAPER


def test_an_output_may_be_what_a_statement_rejects(folder: Path) -> None:
    written = "outputs: {alerts: receiver, alerts.rejected: receiver}\nonError: skip"
    (query,) = changed(folder, ("outputs: {alerts: receiver}", written)).queries
    assert [*query.record.outputs] == ["alerts", "alerts.rejected"]


@pytest.mark.parametrize(
    ("written", "standby"),
    [
        ("active", Standby()),
        ("adaptive", Standby(scheme=Scheme.ADAPTIVE)),
        ("largest", Standby(scheme=Scheme.LARGEST)),
        ("upstream", Standby(scheme=Scheme.UPSTREAM)),
        ("{batch: 20}", Standby(scheme=Scheme.BATCHES, batch=20)),
        ("{batch: 1}", Standby()),
    ],
)
def test_standby_schemes_are_read(folder: Path, written: str, standby: Standby) -> None:
    (query,) = changed(folder, ("estimates: {", f"standby: {written}\nestimates: {{")).queries
    assert query.record.standby == standby


@pytest.mark.parametrize(
    ("written", "scaling"),
    [
        ("{function: linear, msPerCore: 20}", Linear(20)),
        ("{function: power, msPerCore: 10, exponent: 2}", Power(10, exponent=2)),
        ("{function: queueing, ms: 5}", Queueing(5)),
        (
            "{function: table, points: [[0, 0], [0.5, 4], [1, 20]]}",
            PiecewiseLinear(((0, 0), (0.5, 4), (1, 20))),
        ),
    ],
)
def test_cpu_scaling_is_read_and_kept_in_the_store(
    folder: Path, written: str, scaling: Scaling
) -> None:
    assert read(folder).cpu == DEFAULT_SCALING
    (folder / "all.yaml").write_text(TEXT.replace("heartbeat: 20 ms", f"cpu: {written}"))
    record = read(folder)
    assert record.cpu == scaling
    assert msgspec.json.decode(msgspec.json.encode(record), type=ClusterRecord) == record


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("deadline:", "deadlin:", "all.yaml:17: Query proximity: deadlin: 'deadlin' is an unknown"),
        ("deadline: 300 ms", "", "all.yaml:15: Query proximity: deadline: is missing"),
        ("300 ms", "300", "deadline: 300 is not a duration. Write a number and a unit"),
        ("300 ms", "-3 ms", "deadline: '-3 ms' is negative"),
        ("300 ms", "0 ms", "deadline: '0 ms' is not above 0"),
        ("300 ms", "3 weeks", "has an unknown unit, 'weeks'"),
        ("kind: Stream", "kind: Steam", "kind: 'Steam' is unknown. Did you mean Stream?"),
        ("float", "flaot", "Stream north: columns.a: 'flaot' is unknown. Did you mean float?"),
        ("150 KB/s", "fast", "all.yaml:13: Stream north: rate: 'fast' is not a rate"),
        ("[France Central,", "[France Central: [,", "is not YAML"),
        ("outputs: {alerts: receiver}", "outputs: [alerts]", "outputs: a list is not a mapping"),
        ("name: north", "name: 5north", "'5north' cannot be a name in a query"),
        ("z: string", "a.b: string", "columns.a.b: 'a.b' cannot be the name of a column. Use 1 to"),
        ("z: string", '" z": string', "columns. z: ' z' cannot be the name of a column. Use 1 to"),
        ("z: string", "_ts: string", "_ts: '_ts' is reserved: _ts is the timestamp of a tuple"),
        ("z: string", "_Seq: string", "'_Seq' is reserved: _seq is the number of a tuple"),
        ("z: string", "_generation: string", "'_generation' is reserved: _generation is what"),
        ("name: north", "name: north__partial", "'north__partial' contains __partial"),
        ("name: proximity", "name: a.b", "'a.b' cannot be a name"),
        ("rate: 150 KB/s", "rate: 1 B/s\nrate: 2 B/s", "all.yaml:14: rate: 'rate' is given twice"),
        ("name: second", "name: receiver", "Cluster aircraft: name: 'receiver' is taken by"),
        ("selectivity: 0.5", "selectivity: -1", "estimates.alerts.selectivity: -1 is not a number"),
        ("selectivity: 0.5", "selectivity: .nan", "selectivity: .nan is not a number"),
        ("heartbeat: 20 ms", "heartbeat: 200 ms", "lets every node be suspected"),
        ("600m", "yes", "executorMemory: yes is not a size"),
        ("300 ms", "2021-10-07", "deadline: 2021-10-07 has an unknown unit"),
        ("300 ms", "1:30", "deadline: 1:30 has an unknown unit"),
        (
            "name: second",
            "name: 2021-10-07",
            "name: 2021-10-07 is not text. YAML takes it for a date: put it in quotes.",
        ),
        (
            "name: second",
            "name: off",
            "name: off is not text. YAML takes it for false: put it in",
        ),
        ("name: second", "name: 12", "name: 12 is not text. YAML takes it for a number: put it in"),
        (
            "[France Central,",
            "[~,",
            "nodes[0]: ~ is not text. YAML takes it for null: put it in quotes.",
        ),
        (
            "estimates: {",
            "partial: on\nestimates: {",
            "Query proximity: partial: on is unknown. Known: always, auto, never.",
        ),
        ("heartbeat: 20 ms", "admission: maybe", "admission: 'maybe' is neither on nor off. Write"),
        (
            "heartbeat: 20 ms",
            "admission: 1",
            "admission: 1 is neither on nor off. Write on or ",
        ),
        ("executorMemory: 600m", "coordinators: 0", "coordinators: 0 is not a whole number from 1"),
        ("executorMemory: 600m", "coordinators: 10", "coordinators: 10 is more than can be of use"),
        ("executorMemory: 600m", "zookeeper: {servers: 2}", "zookeeper.servers: 2 is no number of"),
        ("executorMemory: 600m", "zookeeper: {servers: 9}", "zookeeper.servers: 9 is no number of"),
        ("executorMemory: 600m", "zookeeper: {}", "zookeeper.servers"),
        ("executorMemory: 600m", "zookeeper: 'zk:port'", "zookeeper: 'zk:port' has no address in"),
        ("executorMemory: 600m", "stateRate: 999 KB/s", "stateRate: '999 KB/s' is too little to"),
        ("600m", "479m", "all.yaml:6: Cluster aircraft: executorMemory: '479m' is less than Spark"),
        ("region: UK South}]\nsites", "region: UK Suoth}]\nsites", "Did you mean UK South?"),
        ("region: UK South}]\nsites", "region: Far}]\nsites", "has no measured latency to"),
        (
            "latency.csv",
            "gone.csv",
            "cannot be read (No such file or directory). Check the path and the file.",
        ),
        ("latency.csv", "gone.csv", "all.yaml:5: Cluster aircraft: latencies: "),
        (
            "latency.csv",
            "build/data/gone.csv",
            "cannot be read (No such file or directory). Fetch it: make data.",
        ),
        ("heartbeat: 20 ms", "cpu: linear", "all.yaml:7: Cluster aircraft: cpu: 'linear' is not a"),
        ("heartbeat: 20 ms", "cpu: {function: lineal}", "'lineal' is unknown. Did you mean linear"),
        ("heartbeat: 20 ms", "cpu: {function: linear}", "cpu.msPerCore: is missing"),
        (
            "heartbeat: 20 ms",
            "cpu: {function: linear, msPerCore: -1}",
            "all.yaml:7: Cluster aircraft: cpu.msPerCore: -1 is not a number from 0 on",
        ),
        ("heartbeat: 20 ms", "cpu: {function: queueing, ms: 5, m: 2}", "cpu.m: 'm' is an unknown"),
        (
            "heartbeat: 20 ms",
            "cpu: {function: power, msPerCore: 1, exponent: 0}",
            "cpu.exponent: 0 is not in (0, 10]. Write 2",
        ),
        (
            "heartbeat: 20 ms",
            "cpu: {function: table, points: [[0, 0], [1, 5], [1, 6]]}",
            "cpu.points: a list does not rise in load after 1. Write [load, ms]",
        ),
        (
            "heartbeat: 20 ms",
            "cpu: {function: table, points: [[0, 0], [1]]}",
            "cpu.points[1]: a list has 1 elements. Write [load, ms].",
        ),
        ("kind: Query", "kind: !!python/object:os.system Query\nx: y", "is an unknown field"),
        (
            "heartbeat: 20 ms",
            "scheduling: edff",
            "all.yaml:7: Cluster aircraft: scheduling: 'edff' is unknown. Did you mean edf?",
        ),
        (
            "heartbeat: 20 ms",
            "emulateCosts: 1",
            "all.yaml:7: Cluster aircraft: emulateCosts: 1 is neither true nor false",
        ),
        ("heartbeat: 20 ms", "hop: -1 ms", "Cluster aircraft: hop: '-1 ms' is negative"),
        ("{name: second,", "{name: second, domain: A rack,", "domain: 'A rack' cannot be a name"),
        (
            "rate: 150 KB/s",
            "rate: 1 B/s\nburst: 0",
            "all.yaml:14: Stream north: burst: 0 is not a whole number from 1 on",
        ),
        ("rate: 150 KB/s", "rate: 1 B/s\nburst: 2.5", "burst: 2.5 is not a whole number"),
        (
            "rate: 150 KB/s",
            "rate: 1 B/s\nshed: {tuples: 5}",
            "all.yaml:14: Stream north: shed.per: is missing",
        ),
        ("rate: 150 KB/s", "rate: 1 B/s\nshed: {tuples: 0, per: 1 s}", "shed.tuples: 0 is not a"),
        (
            "rate: 150 KB/s",
            "rate: 1 B/s\nshed: {tuples: 5, per: 0 s}",
            "shed.per: '0 s' is not above 0",
        ),
        (
            "rate: 150 KB/s",
            "rate: 1 B/s\nshed: {tuples: 5, per: 0.4 us}",
            "shed.per: '0.4 us' is shorter than the clock can tell. Write 1 us or more.",
        ),
        (
            "rate: 150 KB/s",
            "rate: 1 B/s\nshed: {tuples: 5, per: 1 s, value: aa}",
            "all.yaml:14: Stream north: shed.value: 'aa' cannot value a tuple: ",
        ),
        (
            "rate: 150 KB/s",
            "rate: 1 B/s\nshed: {tuples: 5, per: 1 s, value: z}",
            "shed.value: 'z' cannot value a tuple: a value is a number or a condition",
        ),
        ("rate: 150 KB/s", "rate: 1 B/s\nshed: {tuples: 5, per: 1 s, valu: a}", "shed.valu: "),
        (
            "outputs: {alerts: receiver}",
            "outputs: {alerts: {site: receiver, deadlin: 1 s}}",
            "all.yaml:19: Query proximity: outputs.alerts.deadlin: 'deadlin' is an unknown",
        ),
        (
            "outputs: {alerts: receiver}",
            "outputs: {alerts: {deadline: 1 s}}",
            "Query proximity: outputs.alerts.site: is missing",
        ),
        (
            "outputs: {alerts: receiver}",
            "outputs: {alerts: {site: receiver, deadline: 0 s}}",
            "outputs.alerts.deadline: '0 s' is not above 0",
        ),
        (
            "estimates: {",
            "primaries: {alerts: []}\nestimates: {",
            "all.yaml:20: Query proximity: primaries.alerts: a list names no node",
        ),
        (
            "estimates: {",
            "batching: bts-0\nestimates: {",
            "Query proximity: batching: 'bts-0' is no batching policy. Write one of taat, bts-4,",
        ),
        (
            "heartbeat: 20 ms",
            "placement: {method: papers}",
            "Cluster aircraft: placement.method: 'papers' is unknown. Did you mean paper?",
        ),
        (
            "heartbeat: 20 ms",
            "placement: {}",
            "Cluster aircraft: placement",
        ),
        (
            "estimates: {",
            "onError: ignore\nestimates: {",
            "Query proximity: onError: 'ignore' is unknown. Known: skip, stop",
        ),
        (
            "estimates: {",
            "partial: sometimes\nestimates: {",
            "Query proximity: partial: 'sometimes' is unknown",
        ),
        (
            "estimates: {",
            "standby: batches\nestimates: {",
            "Query proximity: standby: 'batches' is unknown",
        ),
        (
            "estimates: {",
            "primaries: {alerts: second}\nestimates: {",
            "primaries.alerts: 'second' is not a list",
        ),
    ],
)
def test_mistake_is_named_with_line_field_and_value(
    folder: Path, old: str, new: str, message: str
) -> None:
    assert message in refused(folder, old, new)


def test_two_resources_of_one_name_are_refused_across_files(folder: Path) -> None:
    (folder / "more.yml").write_text(TEXT.split("---\n")[1])
    with pytest.raises(InvalidInput, match=r"more\.yml:1: Stream: name: 'north' is taken by .*:9"):
        load([folder])


def test_second_cluster_is_refused(folder: Path) -> None:
    (folder / "more.yml").write_text(TEXT.split("---\n")[0])
    with pytest.raises(InvalidInput, match="is the second one"):
        load([folder])


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"gone\.yaml: cannot be read"):
        load([tmp_path / "gone.yaml"])
    with pytest.raises(InvalidInput, match="holds no"):
        load([tmp_path])
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        load([tmp_path])


def test_empty_documents_are_skipped(folder: Path) -> None:
    (folder / "empty.yaml").write_text("# nothing\n---\n---\n")
    assert load([folder]).queries


@pytest.mark.parametrize("text", ["", "# nothing\n---\n---\n"])
def test_a_path_without_any_manifest_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text(text)
    for path in (file, tmp_path):
        with pytest.raises(InvalidInput, match=rf"{path}: holds no manifest"):
            load([path])


RATE = "rate: 150 KB/s"
REPLAY = 'path: t.parquet, begin: "2021-10-07T12:00:00Z", end: "2021-10-07T13:00:00Z"'


def test_a_stream_names_its_source(folder: Path) -> None:
    (stream,) = load([folder]).streams
    assert (stream.record.source, recorded(stream.record)) == (None, None)
    given = f"{RATE}\nfrom: {{replay: {{{REPLAY}, speed: 2, interval: 500 ms}}}}"
    (stream,) = changed(folder, (RATE, given)).streams
    assert stream.record.source is not None
    assert (stream.record.source.driver, stream.record.source.together_ms) == ("replay", 250.0)
    found = recorded(stream.record)
    assert found is not None
    assert found.recording == folder / "t.parquet"
    assert (found.end_ms - found.begin_ms, found.speed, found.repeat) == (3_600_000, 2.0, False)


def test_an_output_names_its_sink(folder: Path) -> None:
    (query,) = load([folder]).queries
    assert query.record.sinks == {}
    given = "{alerts: {site: receiver, to: {archive: {}}}, more: receiver}"
    (query,) = changed(folder, ("{alerts: receiver}", given)).queries
    assert query.record.outputs == {"alerts": "receiver", "more": "receiver"}
    assert query.record.sinks == {"alerts": DriverSpec(driver="archive")}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            f"replay: {{{REPLAY}}}",
            "all.yaml:14: Stream north: replay: 'replay' is no field any more. "
            "Write it as the stream's source: `from: {replay: {…}}`.",
        ),
        (
            f"from: {{reply: {{{REPLAY}}}}}",
            "all.yaml:14: Stream north: from.reply: 'reply' is unknown. Did you mean replay?",
        ),
        ("from: {}", "Stream north: from: a mapping does not name one driver. Write one of: "),
        ("from: replay", "Stream north: from: 'replay' is not a mapping"),
        (
            f"from: {{replay: {{{REPLAY}, sped: 2}}}}",
            "Stream north: from.replay.sped: 'sped' is an unknown field. Did you mean speed?",
        ),
        (f"from: {{replay: {{{REPLAY}, speed: 0}}}}", "from.replay.speed: 0 is not from 1e-06"),
    ],
)
def test_sources_that_cannot_be_are_refused(folder: Path, given: str, message: str) -> None:
    assert message in refused(folder, RATE, f"{RATE}\n{given}")


def test_sources_that_no_manifest_can_name_are_not_offered(folder: Path) -> None:
    offered = refused(folder, RATE, f"{RATE}\nfrom: {{}}").partition("Write one of: ")[2]
    assert "replay" in offered
    assert "side" not in offered


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{servers: 3}", ZooKeeperManifest(servers=3)),
        ("zk-0:2181,zk-1:2181", ZooKeeperManifest(address="zk-0:2181,zk-1:2181")),
    ],
)
def test_zookeeper_is_started_or_runs_already(
    folder: Path, written: str, read: ZooKeeperManifest
) -> None:
    (folder / "all.yaml").write_text(TEXT.replace("heartbeat: 20 ms", f"zookeeper: {written}"))
    cluster = load([folder]).cluster
    assert cluster is not None
    assert cluster.zookeeper == read
