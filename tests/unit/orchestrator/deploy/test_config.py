from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.deploy import coordinator, host_pool, site
from orchestrator.deploy.config import ProcessConfig, read_config
from orchestrator.errors import InvalidInput
from orchestrator.records import FailureLabels, NodeKind

CLUSTER = """\
kind: Cluster
name: aircraft
nodes:
- {name: paris, region: France Central, domain: rack-1}
- {name: berlin, region: Germany North}
sites: [{name: receiver, region: France Central, domain: mast}]
"""

CONFIG = "manifest: cluster.yaml\nzookeeper: zk:2181\nsecretFile: secret\n"


def write(folder: Path, config: str = CONFIG) -> Path:
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "secret").write_text("hidden\n")
    (folder / "vivace.yaml").write_text(config)
    return folder / "vivace.yaml"


def test_paths_in_the_file_are_relative_to_it(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, f"{CONFIG}archive: archive\nwork: /var/work\n"), {})
    assert config.cluster == "aircraft"
    assert config.secret == "hidden"
    assert config.archive == tmp_path / "archive"
    assert config.work == Path("/var/work")
    assert [node.name for node in config.cluster_manifest().nodes] == ["paris", "berlin"]


def test_json_is_read_as_well(tmp_path: Path) -> None:
    file = write(tmp_path, '{"cluster": "c", "zookeeper": "zk:1", "secretFile": "secret"}')
    assert read_config(file, {}).zookeeper == "zk:1"


def test_environment_variables_win_over_the_file(tmp_path: Path) -> None:
    variables = {
        "VIVACE_CLUSTER": "second",
        "VIVACE_ZOOKEEPER": "other:2181",
        "VIVACE_SECRET": "from the environment",
        "VIVACE_SITE": "mast",
        "VIVACE_REGION": "Germany North",
        "VIVACE_DOMAIN": "rack-2",
        "VIVACE_BIND": "0.0.0.0",
        "VIVACE_ADVERTISE": "10.1.2.3",
        "VIVACE_SPARK_MASTER": "spark://master:7077",
        "VIVACE_WORK": "work",
    }
    config = read_config(write(tmp_path, f"{CONFIG}site: receiver\nbind: 127.0.0.2\n"), variables)
    assert config.work == Path("work").absolute()
    assert config.spark_master == "spark://master:7077"
    spec = config.site_spec()
    assert (spec.cluster, spec.zookeeper) == ("second", "other:2181")
    assert (spec.node, spec.region, spec.labels.domain) == ("mast", "Germany North", "rack-2")
    assert (spec.secret, spec.bind) == ("from the environment", "0.0.0.0")
    assert spec.advertise == "10.1.2.3"


def test_spark_settings_keep_their_dotted_names(tmp_path: Path) -> None:
    file = write(tmp_path, f"{CONFIG}sparkSettings: {{spark.app.id: vivace}}\n")
    assert read_config(file, {}).spark_settings == {"spark.app.id": "vivace"}


def test_executors_whose_environment_says_where_the_secret_lies_are_not_sent_it(
    tmp_path: Path,
) -> None:
    setting = "sparkSettings: {spark.executorEnv.VIVACE_SECRET_FILE: /run/secret}\n"
    for text, is_sent in ((CONFIG, True), (CONFIG + setting, False)):
        config = read_config(write(tmp_path, f"{text}site: receiver\n"), {})
        application = config.own_application()
        spec = config.host_spec(application.nodes[0], NodeKind.EXECUTOR, application)
        assert (b"hidden" in pickle.dumps(spec)) is is_sent
        assert config.site_spec().secret == "hidden"


def test_executors_die_with_the_machine_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIVACE_MACHINE", "rack-7")
    config = read_config(write(tmp_path, f"{CONFIG}site: receiver\n"), {})
    application = config.own_application()
    spec = config.host_spec(application.nodes[0], NodeKind.EXECUTOR, application)
    assert spec.labels.driver == "rack-7"
    assert spec.labels.machine == ""
    assert config.site_spec().labels.driver == ""


def test_site_takes_region_and_domain_from_the_manifest(tmp_path: Path) -> None:
    spec = read_config(write(tmp_path, f"{CONFIG}site: receiver\n"), {}).site_spec()
    assert spec.kind is NodeKind.SITE
    assert spec.region == "France Central"
    assert spec.labels == FailureLabels(domain="mast")


def test_site_with_a_region_needs_no_manifest(tmp_path: Path) -> None:
    text = "cluster: c\nzookeeper: zk:1\nsecretFile: secret\nsite: edge\nregion: here\n"
    assert read_config(write(tmp_path, text), {}).site_spec().node == "edge"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("zokeeper: zk:2181\n", "vivace.yaml:1: zokeeper: .*unknown field.*Did you mean zookeeper"),
        ("secret: hidden\n", "secret: .*is an unknown field.*secretFile"),
        ("zookeeper: 2181\n", "vivace.yaml:1: zookeeper: 2181 is not text"),
        ("manifest: cluster.yaml\nsecretFile: secret\n", "zookeeper: is missing.*VIVACE_ZOOKEEPER"),
        ("manifest: cluster.yaml\nzookeeper: zk:1\n", "VIVACE_SECRET_FILE or VIVACE_SECRET"),
        (
            CONFIG.replace("secretFile: secret", "secretFile: nowhere"),
            "secretFile: .*cannot be read",
        ),
        ("zookeeper: zk:1\nsecretFile: secret\n", "cluster: is missing"),
        (CONFIG.replace("cluster.yaml", "secret"), "secret"),
        ("{}\n---\n{}\n", "holds 2 documents"),
    ],
)
def test_unusable_file_is_refused_by_field(tmp_path: Path, config: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_config(write(tmp_path, config), {})


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ZOOKEEPER", "zk:port", "zookeeper: 'zk:port' has no address in 'zk:port'.*host:port"),
        ("ZOOKEEPER", "zk:65536", "zookeeper: 'zk:65536' has no address"),
        ("ZOOKEEPER", "zk:2181,", "zookeeper: 'zk:2181,' has no address in ''"),
        ("ZOOKEEPER", "zk-0 zk-1", "zookeeper: 'zk-0 zk-1' has no address"),
        ("CLUSTER", "../other", "cluster: '../other' cannot be a name"),
        ("SITE", "north/1", "site: 'north/1' cannot be a name"),
        ("ADVERTISE", "10.0.0.5/24", "advertise: '10.0.0.5/24' is no address"),
        ("ADVERTISE", "10.0.0.5 ", "advertise: '10.0.0.5 ' is no address"),
        ("BIND", "0.0.0.0:9000", "bind: '0.0.0.0:9000' is no address"),
    ],
)
def test_value_that_names_nothing_is_refused(
    tmp_path: Path, variable: str, value: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_config(write(tmp_path), {f"VIVACE_{variable}": value})


@pytest.mark.parametrize("servers", ["zk", "zk-0:2181, zk-1:2181", "[::1]:2181", "zk:1/chroot"])
def test_addresses_that_kazoo_takes_are_taken(tmp_path: Path, servers: str) -> None:
    assert read_config(write(tmp_path), {"VIVACE_ZOOKEEPER": servers}).zookeeper == servers


def test_unknown_site_is_refused_with_the_nearest(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, f"{CONFIG}site: reciever\n"), {})
    with pytest.raises(InvalidInput, match=r"site: 'reciever' is no site of .*receiver"):
        config.site_spec()


@pytest.mark.parametrize(
    ("field", "use"),
    [
        ("site", ProcessConfig.site_spec),
        ("manifest", ProcessConfig.cluster_manifest),
        ("work", ProcessConfig.work_folder),
    ],
)
def test_field_that_a_process_needs_is_asked_for(
    tmp_path: Path, field: str, use: Callable[[ProcessConfig], object]
) -> None:
    text = "cluster: c\nzookeeper: zk:1\nsecretFile: secret\n"
    with pytest.raises(InvalidInput, match=f"{field}: is missing.*VIVACE_{field.upper()}"):
        use(read_config(write(tmp_path, text), {}))


@pytest.mark.parametrize(
    ("name", "main"),
    [("coordinator", coordinator.main), ("site", site.main), ("host_pool", host_pool.main)],
)
def test_help_has_an_example_and_the_variables(
    name: str,
    main: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert f"python -m orchestrator.deploy.{name} --config vivace.yaml" in said
    assert "VIVACE_SECRET_FILE" in said
