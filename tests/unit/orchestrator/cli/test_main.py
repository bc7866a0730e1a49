"""The command's verbs in this process, where there is no cluster to talk to."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from orchestrator import api
from orchestrator.cli.commands import Verb
from orchestrator.cli.invocation import OutputForm, fail
from orchestrator.cli.main import EXIT_INTERRUPTED, run
from orchestrator.cli.verbs import GROUPS, VERBS
from orchestrator.simulation.trials import campaign
from orchestrator.simulation.trials.schedule import Shape
from tests import fake_api
from tests.fake_api import FakeApi
from vivace import contexts

ROOT = Path(__file__).resolve().parents[4]

CLUSTER = """\
kind: Cluster
name: pair
nodes: [Paris, London]
sites: [{name: desk, region: Paris}]
"""

STREAM = """\
kind: Stream
name: positions
site: desk
columns: {icao24: string, altitude: float}
rate: 10 KB/s
"""

QUERY = """\
kind: Query
name: high
deadline: 300 ms
recovery: 300 ms
outputs: {high_ones: desk}
statements: |
  REGISTER QUERY high_ones RSTREAM(
    SELECT icao24 FROM positions [NOW] WHERE altitude > 30000);
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("VIVACE_CLUSTER", raising=False)
    return tmp_path / "home"


def write(folder: Path, **files: str) -> str:
    """Manifests in a folder."""
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder)


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example: vivace {verb}" in " ".join(shown.split())
    assert "--json" in shown


@pytest.mark.parametrize(("group", "verb"), [(g, v) for g, verbs in GROUPS.items() for v in verbs])
def test_help_of_groups_shows_an_example(
    capsys: pytest.CaptureFixture[str], group: str, verb: str
) -> None:
    assert run([group, verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Example: vivace {group} {verb}" in " ".join(shown.split())
    assert "--json" in shown


@pytest.mark.parametrize("verb", ["move", "drain", "cordon", "uncordon"])
def test_examples_name_nodes_of_the_first_example(
    capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    cluster = api.load([ROOT / "examples" / "aircraft" / "cluster.yaml"]).cluster
    assert cluster is not None
    assert run([verb, "--help"]) == 0
    example = capsys.readouterr().out.partition("Example:")[2].splitlines()[0].split()
    assert {node.name for node in cluster.nodes} & set(example)


def known(home: Path, served: FakeApi) -> None:
    """Have the command line know a cluster that a test serves."""
    contexts.add("test", contexts.Context(api=served.address), home)


def test_drills_are_listed(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    with fake_api.served(lambda _, __, ___: api.drills()) as served:
        known(home, served)
        assert run(["drill", "list", "--json"]) == 0
        names = [drill["name"] for drill in json.loads(capsys.readouterr().out)]
        assert names[:3] == ["kill-executor", "kill-python-worker", "hang"]
        assert run(["drill", "list"]) == 0
        assert "kill-executor" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "NAME: is missing"),
        (["hang", "--all"], "NAME: 'hang' is given, and --all as well"),
        (["--all", "--target", "n1"], "--target: 'n1' is given, and --all as well"),
    ],
)
def test_one_drill_is_run_or_all(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["drill", "run", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("file", ["drills.txt", "nowhere/drills.html"])
def test_the_page_of_drills_needs_a_file_that_can_be_written(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["drill", "report", "--html", file]) == 2
    assert f"--html: '{file}'" in capsys.readouterr().err


def test_nothing_asked_lists_all_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in (*VERBS, *GROUPS))


@pytest.mark.parametrize(
    "arguments", [("status",), ("plan",), ("history",), ("tail", "x"), ("delete", "x")]
)
def test_no_cluster(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert run(arguments) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    said = "`vivace up -f …` starts one, with `--data FOLDER` that of before"
    assert shown.err == f"error: no cluster is running here; {said}\n"


def test_nothing_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["down"]) == 3
    said = "error: no cluster is running here: there is nothing to end\n"
    assert capsys.readouterr().err == said
    assert run(["down", "--cluster", "air"]) == 3
    assert "no cluster named 'air' is running here" in capsys.readouterr().err


def test_no_cluster_of_that_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIVACE_CLUSTER", "aircraft")
    assert run(["status"]) == 3
    assert "no cluster named 'aircraft' is known here; there is none" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--context", "air", "status"),
        ("--context=air", "status"),
        ("--cluster", "air", "config", "list", "-o", "name", "x"),
        ("--context", "air", "drill", "run", "kill-executor"),
    ],
)
def test_a_context_may_stand_in_front_of_the_verb(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    status = run(arguments)
    said = capsys.readouterr().err
    if "config" in arguments:
        # It needs none.
        assert (status, "--cluster" in said) == (2, True)
    else:
        assert status == 3
        assert "no cluster named 'air' is known here" in said


def test_errors_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json"]) == 3
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert (error["type"], error["exit_status"]) == ("NoCluster", 3)
    assert shown.err == ""


@pytest.mark.parametrize("words", [["--json"], ["-o", "json"], ["-ojson"], ["--output=json"]])
def test_json_is_asked_for_in_several_ways(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "list", *words]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_yaml_says_the_same_as_json(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    for words in (["config", "list"], ["status"]):
        printed = [
            (run([*words, "-o", form]), capsys.readouterr().out) for form in ("json", "yaml")
        ]
        (status, as_json), (again, as_yaml) = printed
        assert (again, yaml.safe_load(as_yaml)) == (status, json.loads(as_json))


def test_what_is_not_for_a_terminal_has_no_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    run(["status"])
    assert "\x1b" not in capsys.readouterr().err
    monkeypatch.setenv("FORCE_COLOR", "1")
    run(["status"])
    assert "\x1b[1;31m" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    run(["status"])
    assert "\x1b[1;31m" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("fly",), ("status", "--fast"), ("tail",), ("up",)])
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert run(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("history", "--limit", "0"),
            "Invalid value '0' for '--limit' / '-n': write 1 or more; "
            "`vivace history --help` shows how",
        ),
        (
            ("drill", "run", "hang", "--times", "none"),
            "Invalid value 'none' for '--times': write a whole number; "
            "`vivace drill run --help` shows how",
        ),
        (
            ("up", "-f", "x", "--zookeeper-port", "70000"),
            "Invalid value '70000' for '--zookeeper-port': write 65535 or less; "
            "`vivace up --help` shows how",
        ),
        (
            ("send", "s", "-", "--format", "xml"),
            "Invalid value for '--format': 'xml' is not one of 'csv', 'json'; "
            "`vivace send --help` shows how",
        ),
        (
            ("plan", "--map", "/nonexist/map.png"),
            "command line: --map: '/nonexist/map.png' is in no existing folder. Make the folder, "
            "or name another one.",
        ),
        (
            ("plan", "--map", "map.txt"),
            "command line: --map: 'map.txt' has no suffix of a picture. Name a file that ends in "
            ".png, .svg, .pdf.",
        ),
        (
            ("drill", "run", "hang", "--simulate", "--times", "2"),
            "command line: --simulate: goes with one drill, once, and not with --compare. Write: "
            "vivace drill run NAME --simulate",
        ),
    ],
)
def test_wrong_option_is_named_with_its_value_and_the_page_that_has_it(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_a_refusal_is_one_document_in_which_lists_are_lists(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for guessed in ((), ("paris", "lyon")):
        refused = api.Refused("query q", "deadline", "1 ms", "is short", "", {}, guessed)
        assert fail(refused, OutputForm.JSON) == 2
        assert json.loads(capsys.readouterr().out)["error"]["guessed"] == list(guessed)


def test_paragraphs_of_the_help_are_wrapped_by_the_terminal_only() -> None:
    verb = Verb("fly", help="Fly\n    away.\n\n    Then\n    come back.")
    assert verb.help == "Fly away.\n\nThen come back."


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"vivace {version('vivace')}\n"


def test_drill_alone_names_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drill"]) == 2
    assert capsys.readouterr().err == (
        "error: Missing command, one of list, run, report; `vivace drill --help` shows how\n"
    )
    assert run(["drill", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Example: vivace drill run" in shown
    assert all(f" {name} " in shown for name in GROUPS["drill"])


def test_a_verb_of_a_group_that_is_unknown_has_the_others_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["drill", "make"]) == 2
    assert capsys.readouterr().err == (
        "error: No such command 'make', one of list, run, report; `vivace drill --help` shows how\n"
    )


def test_a_verb_that_is_mistyped_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["aply"]) == 2
    said = "No such command 'aply'. Did you mean 'apply'? `vivace --help` lists the verbs."
    assert capsys.readouterr().err == f"error: {said}\n"


@pytest.mark.parametrize("verb", [["apply"], ["drill", "run"], ["drill"], []])
def test_help_shows_no_type_of_flags(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "<bool>" not in shown


def test_unforeseen_error_is_one_message_and_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    home.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(home))
    monkeypatch.setattr("vivace.cluster.connect", _broken)
    assert run(["status"]) == 1
    message = capsys.readouterr().err
    (log,) = home.glob("vivace-bug-*.log")
    assert message == f"error: ZeroDivisionError: oh; this is a bug, its traceback is in {log}\n"
    assert "_broken" in log.read_text()


def _broken(**_: object) -> object:
    raise ZeroDivisionError("oh")


def test_valid_manifests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = write(tmp_path / "all", cluster=CLUSTER, stream=STREAM, query=QUERY)
    assert run(["validate", "-f", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "cluster": "pair",
        "streams": ["positions"],
        "queries": {"high": {"high_ones": ["positions"]}},
        "evaluations": {"high": {"high_ones": "stateless"}},
        "pushdowns": {"high": {}},
        "splits": {},
        "unchecked": [],
        "not_found": {},
        "remarks": [],
        "delayed": {},
        "stepwise_loops": {},
    }
    assert run(["validate", "-f", folder]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        ["✓", "cluster", "pair"],
        ["✓", "stream", "positions"],
        ["✓", "query", "high", "high_ones", "←", "positions", "(stateless)"],
    ]


def test_sites_and_nodes_that_were_not_checked_are_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    query = QUERY + "primaries: {high_ones: [paris]}\n"
    query = query.replace("high_ones: desk", "high_ones: dsek")
    folder = write(tmp_path / "all", stream=STREAM, query=query)
    assert run(["validate", "-f", folder, "--json"]) == 0
    unchecked = json.loads(capsys.readouterr().out)["unchecked"]
    assert unchecked == ["site desk", "site dsek", "node paris"]
    assert run(["validate", "-f", folder]) == 0
    assert capsys.readouterr().out.splitlines()[-1].strip() == (
        "! Not checked: site desk, site dsek, node paris. "
        "Name the Cluster manifest too, with another -f."
    )
    cluster = write(tmp_path / "cluster", cluster=CLUSTER)
    assert run(["validate", "-f", folder, "-f", cluster]) == 2
    assert "'dsek' is not a site. Did you mean desk?" in capsys.readouterr().err


def test_a_recording_that_is_not_here_is_said_to_be_unchecked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    span = "begin: '2021-10-07T12:00:00Z', end: '2021-10-07T13:00:00Z'"
    stream = STREAM + f"from: {{replay: {{path: positions.csv, {span}}}}}\n"
    folder = write(tmp_path / "all", cluster=CLUSTER, stream=stream)
    assert run(["validate", "-f", folder]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "positions.csv is not found here, and was not checked" in shown
    (tmp_path / "all" / "positions.csv").write_text("")
    assert run(["validate", "-f", folder]) == 0
    assert "not found" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("deadline:", "deadlin:", ("query.yaml:3", "deadlin", "Did you mean deadline?")),
        ("deadline: 300 ms", "deadline: soon", ("query.yaml:3", "deadline", "'soon'")),
        ("statements: |", "statements: {", ("query.yaml", "is not YAML")),
        ("FROM positions", "FROM position", ("query.yaml:8", "statements", "positions")),
        ("{high_ones: desk}", "{high_ones: disk}", ("query.yaml:5", "outputs.high_ones", "desk?")),
    ],
)
def test_bad_manifest_is_named_by_file_field_and_value(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    before: str,
    after: str,
    said: tuple[str, ...],
) -> None:
    bad = QUERY.replace(before, after)
    folder = write(tmp_path / "all", cluster=CLUSTER, stream=STREAM, query=bad)
    assert run(["validate", "-f", folder]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    for words in said:
        assert words in message


def test_a_file_without_a_manifest_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = write(tmp_path / "all", cluster="# to be written\n")
    assert run(["validate", "-f", folder]) == 2
    assert "holds no manifest" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("accepted", "late", "ahead", "status"),
    [(2, 0, 0, 0), (1, 1, 0, 1), (0, 0, 0, 0), (0, 2, 0, 1), (0, 0, 1, 1)],
)
def test_sending_fails_if_any_tuple_is_refused(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    home: Path,
    accepted: int,
    late: int,
    ahead: int,
    status: int,
) -> None:
    document = api.SentDocument(stream="readings", accepted=accepted, late=late, ahead=ahead)

    def send(*_: object, **__: object) -> api.SentDocument:
        return document

    contexts.add("test", contexts.Context(api="http://unused"), home)
    monkeypatch.setattr("orchestrator.api.send", send)
    (tmp_path / "lines").write_text("at\n1\n")
    assert run(["send", "readings", str(tmp_path / "lines")]) == status
    shown = capsys.readouterr().out
    assert ("✓" in shown) == (accepted > 0 and not late)
    assert ("There were no tuples to send" in shown) == (accepted + late + ahead == 0)
    assert shown.startswith("✗") == (status == 1)
    assert run(["send", "readings", str(tmp_path / "lines"), "--json"]) == status


def test_up_needs_a_cluster_manifest(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["up", "-f", write(tmp_path / "all", query=QUERY)]) == 2
    assert "holds no manifest of kind Cluster" in capsys.readouterr().err


def test_simulate_tells_how_many_schedules_kept_every_promise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["simulate", "--seeds", "1", "--from", "4001", "--jobs", "1", "--kind", "slow"]
    assert run([*arguments, "--shape", "single", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["first_seed"], document["seeds"], document["failures"]) == (4001, 1, [])
    assert (document["played"], document["before_seed"]) == (1, 4002)


def test_simulate_sums_up_what_it_has_played_when_it_is_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(seed: int, *_: object, **__: object) -> campaign.TrialVerdict:
        if seed == 9:
            raise KeyboardInterrupt
        return campaign.TrialVerdict(seed=seed, shape=Shape.SINGLE, faults=1, virtual_s=5.0)

    monkeypatch.setattr(campaign, "judge", judged)
    arguments = ["simulate", "--seeds", "50", "--from", "7", "--jobs", "1"]
    assert run(arguments) == EXIT_INTERRUPTED
    shown = capsys.readouterr()
    assert "Interrupted after 2 of 50 schedules. All seeds before 9 were played." in shown.out
    assert "✓ 2 of 2 schedules kept every promise" in shown.out
    assert "1 of 50 schedules" in shown.err, "progress is told also where there is no terminal"
    assert run([*arguments, "--json"]) == EXIT_INTERRUPTED
    document = json.loads(capsys.readouterr().out)
    assert (document["played"], document["before_seed"]) == (2, 9)


def test_simulate_names_the_nearest_kind_of_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--kind", "crsh"]) == 2
    assert "Did you mean crash?" in capsys.readouterr().err


def test_simulate_lists_all_kinds_of_faults_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["simulate", "--kind", "nosuch2"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: command line: --kind: 'nosuch2' is unknown. Known: ")
    assert all(f" {kind}" in message for kind in api.fault_kinds())
    assert message.count("\n") == 1
    assert run(["simulate", "--help"]) == 0
    words = {word.strip(",.│") for word in capsys.readouterr().out.split()}
    assert words >= {*api.fault_kinds()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seed", "3", "--seeds", "4"], "--seeds: has no effect beside --seed"),
        (["--seed", "3", "--from", "0"], "--from: has no effect beside --seed"),
        (["--schedule", "x", "--seed", "0"], "--seed: has no effect beside --schedule"),
        (["--schedule", "x", "--kind", "crash"], "--kind: has no effect beside --schedule"),
        (["--schedule", "nowhere.json"], "--schedule: 'nowhere.json' cannot be read (No such"),
    ],
)
def test_simulate_refuses_what_would_have_no_effect(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *words]) == 2
    assert f"error: command line: {said}" in capsys.readouterr().err


def test_simulate_refuses_a_file_that_holds_no_schedule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "schedule.json").write_text('{"seed": 1}')
    assert run(["simulate", "--schedule", str(tmp_path / "schedule.json")]) == 2
    assert "schedule" in capsys.readouterr().err
