"""`vivace-container`, as containers run it."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from orchestrator.embedded.packages import source_root
from orchestrator.records import ChangedQuery, ChangedStatement, PlanDocument, StatementEffect
from orchestrator.results.changes import Change, Effect

SCRIPT = source_root() / "orchestrator" / "deploy" / "vivace-container"

JAVA = """\
#!/bin/sh
echo "secret $_SPARK_AUTH_SECRET"
for word; do echo "word $word"; done
"""
"""Tells how it was started."""

SECRET = b"known to all pods\n\xff" * 20


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of an executor's pod, as Spark makes it."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(JAVA)
    java.chmod(0o755)
    (tmp_path / "secret").write_bytes(SECRET)
    return {
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": str(tmp_path),
        "SPARK_HOME": str(tmp_path),
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "512m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_EXECUTOR_POD_NAME": "vivace-exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-XX:+UseSerialGC",
        "SPARK_JAVA_OPT_1": f"-Dspark.authenticate.secret.file={tmp_path}/secret",
        "SPARK_JAVA_OPT_2": "-Dtold=two words; $(false) 'and quotes'",
    }


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *command], env=environment, capture_output=True, text=True, check=False
    )


def test_an_executor_becomes_java_with_what_spark_has_said(environment: dict[str, str]) -> None:
    done = run(environment, "executor")
    assert (done.returncode, done.stderr) == (0, "")
    secret, *lines = done.stdout.splitlines()
    assert base64.b64decode(secret.removeprefix("secret ")) == SECRET
    words = [line.removeprefix("word ") for line in lines]
    assert words == [
        *(environment[f"SPARK_JAVA_OPT_{number}"] for number in range(3)),
        "-Xms512m", "-Xmx512m", "-cp", f"{environment['SPARK_HOME']}/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        "--driver-url", "spark://CoarseGrainedScheduler@10.0.0.7:7078",
        "--executor-id", "3", "--cores", "1", "--app-id", "spark-1", "--hostname", "10.0.0.8",
        "--resourceProfileId", "0", "--podName", "vivace-exec-3",
    ]  # fmt: skip


def test_java_keeps_temporary_files_where_others_do(environment: dict[str, str]) -> None:
    done = run({**environment, "TMPDIR": "/run/two words"}, "executor")
    assert done.stdout.splitlines()[1:3] == [
        "word -Djava.io.tmpdir=/run/two words",
        f"word {environment['SPARK_JAVA_OPT_0']}",
    ]


def test_a_class_path_of_the_users_comes_first(environment: dict[str, str]) -> None:
    done = run({**environment, "SPARK_CLASSPATH": "/more/*"}, "executor")
    assert f"word /more/*:{environment['SPARK_HOME']}/jars/*" in done.stdout


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"SPARK_EXECUTOR_ID": ""}, "SPARK_EXECUTOR_ID is missing"),
        ({"SPARK_HOME": "/nowhere"}, "SPARK_HOME: '/nowhere' has no folder jars"),
        ({"SPARK_JAVA_OPT_1": "-Dspark.authenticate.secret.file=/no"}, "'/no' cannot be read"),
    ],
)
def test_what_is_missing_is_said_with_exit_status_2(
    environment: dict[str, str], change: dict[str, str], problem: str
) -> None:
    done = run({**environment, **change}, "executor")
    assert done.returncode == 2
    assert problem in done.stderr


@pytest.mark.parametrize("command", [(), ("fly",)])
def test_an_unknown_command_is_refused(
    environment: dict[str, str], command: tuple[str, ...]
) -> None:
    done = run(environment, *command)
    assert done.returncode == 2
    assert "is no command" in done.stderr


class Programs:
    """Stand-ins for the programs that the script runs: each tells what it was given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "programs"
        self._folder.mkdir()
        self.told = folder / "told"
        self.told.touch()
        python = self._folder / "python3"
        python.symlink_to(sys.executable)
        self.environment = {
            "PATH": f"{self._folder}:/usr/bin:/bin",
            "FOLDER": str(self._folder),
            "TOLD": str(self.told),
        }

    def add(self, name: str, script: str) -> None:
        """Add a program."""
        file = self._folder / name
        file.unlink(missing_ok=True)
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> "$TOLD"\n{script}')
        file.chmod(0o755)

    def file(self, name: str, text: str) -> None:
        """Write a file that they find."""
        (self._folder / name).write_text(text)

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return run({**self.environment, **more}, *command)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def test_processes_run_with_the_configuration_that_a_variable_names(programs: Programs) -> None:
    programs.add("python3", "")
    for command in ("coordinator", "site", "driver", "web"):
        assert programs.run(command, VIVACE_CONFIG="/c.yaml").returncode == 0
    assert programs.told.read_text().splitlines() == [
        f"python3 -m {module} --config /c.yaml"
        for module in (
            "orchestrator.deploy.coordinator", "orchestrator.deploy.site",
            "orchestrator.deploy.host_pool", "orchestrator.web",
        )
    ]  # fmt: skip
    assert programs.run("site").returncode == 2


VIVACE = """\
case $1 in
    status)
        [ -e "$FOLDER/there" ] || { touch "$FOLDER/there"; echo no; exit 3; }
        echo '{"missing": []}' ;;
    apply)
        [ "$6" = --dry-run ] || exit 0
        if [ -e "$FOLDER/stream" ] && [ ! -e "$FOLDER/deleted" ]; then
            echo '{"remedy": "Not changed in place: `vivace delete warm`, then apply again."}'
            exit 1
        fi
        if [ -e "$FOLDER/busy" ]; then
            rm "$FOLDER/busy"
            echo '{"problem": "the API cannot be reached"}'
            exit 3
        fi
        if [ "$5" = damaged ]; then
            [ "${7-}" = --json ] || echo "it is damaged" >&2
            exit 2
        fi
        changes=$(cat "$FOLDER/changes" 2>/dev/null || true)
        printf '{"changes": [%s], "plan": %s}\\n' "$changes" "$(cat "$FOLDER/plan")" ;;
    delete)
        touch "$FOLDER/deleted"
        echo '{"kind": "Query", "name": "warm", "effect": "new"}' >"$FOLDER/changes" ;;
    drill)
        case $3 in
            fails) exit 1 ;;
            unfit) echo "error: drill unfit does not fit: there is no link" >&2; exit 2 ;;
        esac ;;
esac
"""


def planned(programs: Programs, *changed: tuple[str, str]) -> None:
    """Let the leader plan this for the statement `warm.hot`: its query, and what becomes of it."""
    programs.add("vivace", VIVACE)
    programs.add("sleep", "")
    plan = PlanDocument(
        fragments=(),
        queries=(),
        waiting={},
        changed=tuple(
            ChangedQuery(
                query=query,
                fields=(),
                statements=(
                    ChangedStatement(
                        fragment=f"{query}.hot", effect=StatementEffect(effect), why="its\nwindows"
                    ),
                ),
            )
            for query, effect in changed
        ),
    )
    programs.file("plan", msgspec.json.encode(plan).decode())


def test_manifests_are_applied_once_all_hosts_are_there(programs: Programs) -> None:
    planned(programs)
    assert programs.run("apply", "/m").returncode == 0
    assert programs.told.read_text().splitlines() == [
        "vivace status --json", "sleep 3", "vivace status --json",
        "vivace apply -f /m --from now --dry-run --json", "vivace apply -f /m --from now",
    ]  # fmt: skip


def test_statements_that_begin_anew_read_from_where_it_is_said(programs: Programs) -> None:
    planned(programs, ("warm", "begins anew"))
    assert programs.run("apply", "--from", "beginning", "/m", "warm").returncode == 0
    assert programs.told.read_text().splitlines()[-2:] == [
        "vivace apply -f /m --from beginning --dry-run --json",
        "vivace apply -f /m --from beginning",
    ]


def change(effect: str, name: str = "warm") -> str:
    return msgspec.json.encode(Change(kind="Query", name=name, effect=Effect(effect))).decode()


@pytest.mark.parametrize("running", ["unchanged", "changed"])
def test_a_savepoint_is_for_queries_that_do_not_run(programs: Programs, running: str) -> None:
    planned(programs)
    programs.file("changes", change("new"))
    assert programs.run("apply", "--from", "before", "/m").returncode == 0
    assert programs.told.read_text().splitlines()[-2:] == [
        "vivace apply -f /m --from before --dry-run --json", "vivace apply -f /m --from before"
    ]  # fmt: skip
    # A later upgrade; by then it may be gone.
    programs.file("changes", change(running))
    programs.told.write_text("")
    assert programs.run("apply", "--from", "before", "/m").returncode == 0
    assert "before" not in programs.told.read_text()
    assert programs.told.read_text().splitlines()[-1] == "vivace apply -f /m --from now"


def test_a_savepoint_that_is_refused_is_not_passed_over(programs: Programs) -> None:
    planned(programs)
    programs.file("changes", change("new"))
    done = programs.run("apply", "--from", "damaged", "/m")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "it is damaged"
    assert not applied(programs)


def test_what_of_a_savepoints_states_is_not_kept_begins_anew_only_if_it_may(
    programs: Programs,
) -> None:
    planned(programs, ("warm", "begins anew"))
    programs.file("changes", change("new"))
    done = programs.run("apply", "--from", "before", "/m")
    assert done.returncode == 2
    assert "warm.hot begins anew: its\nwindows. Name the query in queries.replace" in done.stderr
    assert programs.run("apply", "--from", "before", "/m", "warm").returncode == 0
    assert applied(programs) == ["vivace apply -f /m --from before"]


def test_a_query_that_was_deleted_to_begin_anew_begins_from_no_savepoint(
    programs: Programs,
) -> None:
    planned(programs)
    programs.file("stream", "")
    assert programs.run("apply", "--from", "before", "/m", "warm").returncode == 0
    assert applied(programs) == ["vivace apply -f /m --from now"]


def test_what_was_refused_for_a_moment_is_looked_at_before_it_is_applied(
    programs: Programs,
) -> None:
    """While the API's pods are replaced, for instance."""
    planned(programs, ("warm", "begins anew"))
    programs.file("busy", "")
    done = programs.run("apply", "/m")
    assert done.returncode == 2
    assert "warm.hot begins anew" in done.stderr
    assert not applied(programs)


def applied(programs: Programs) -> list[str]:
    """The commands that changed something."""
    told = programs.told.read_text().splitlines()
    return [line for line in told if " apply " in line and "--dry-run" not in line]


def test_a_query_is_changed_in_place_but_begins_anew_only_if_it_may(programs: Programs) -> None:
    planned(programs, ("warm", "state kept"), ("cold", "new"))
    assert programs.run("apply", "/m").returncode == 0
    planned(programs, ("warm", "begins anew"))
    programs.told.write_text("")
    done = programs.run("apply", "/m", "cold")
    assert done.returncode == 2
    assert "warm.hot begins anew: its\nwindows. Name the query in queries.replace" in done.stderr
    assert not applied(programs)
    assert programs.run("apply", "/m", "cold", "warm").returncode == 0
    assert applied(programs) == ["vivace apply -f /m --from now"]


@pytest.mark.parametrize(("named", "deleted"), [("warm", True), ("cold", False)])
def test_a_stream_that_differs_costs_the_queries_that_read_it_if_they_may_begin_anew(
    programs: Programs, named: str, deleted: bool
) -> None:
    planned(programs)
    programs.file("stream", "")
    done = programs.run("apply", "/m", named, "other")
    assert (done.returncode == 0) == deleted
    assert ("vivace delete warm" in programs.told.read_text().splitlines()) == deleted
    assert applied(programs) == (["vivace apply -f /m --from now"] if deleted else [])


def test_drills_end_with_the_first_that_fails(programs: Programs) -> None:
    programs.add("vivace", VIVACE)
    programs.add("sleep", "")
    assert programs.run("drills", "good", "fails", "never").returncode == 1
    told = programs.told.read_text().splitlines()
    assert told[-2:] == ["vivace drill run good", "vivace drill run fails"]


def test_drills_that_do_not_fit_are_passed_over_unless_none_fits(programs: Programs) -> None:
    programs.add("vivace", VIVACE)
    programs.add("sleep", "")
    done = programs.run("drills", "unfit", "good")
    assert done.returncode == 0
    assert "drill unfit does not fit: there is no link" in done.stdout
    assert programs.run("drills", "unfit", "fails").returncode == 1
    done = programs.run("drills", "unfit", "unfit")
    assert done.returncode == 2
    assert "drills: none fits this cluster: unfit unfit" in done.stderr


def test_a_server_of_zookeeper_must_know_its_number(programs: Programs) -> None:
    done = programs.run("zookeeper", HOSTNAME="zookeeper")
    assert done.returncode == 2
    assert "zoo.cfg" in done.stderr


def test_what_zookeeper_says_is_looked_at(programs: Programs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def respond() -> None:
            for _ in range(2):
                connection, _address = server.accept()
                with connection:
                    connection.recv(4)
                    connection.sendall(b"Zookeeper version: 3.9\nMode: follower\n")

        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        for answer, status in (("Mode:", 0), ("imok", 1)):
            said = programs.run("zookeeper-says", "srvr", answer, ZOOKEEPER_PORT=str(port))
            assert said.returncode == status, said.stderr
        thread.join()


def test_a_user_without_a_name_gets_one(programs: Programs) -> None:
    if not [*Path("/usr/lib").glob("*/libnss_wrapper.so")]:
        pytest.skip("libnss-wrapper is not installed (Debian: libnss-wrapper)")
    programs.add("getent", "exit 2\n")
    programs.add("vivace", 'cat "$NSS_WRAPPER_PASSWD"\n')
    done = programs.run("vivace", TMPDIR=str(programs.told.parent), HOME="/nowhere")
    assert done.stdout.startswith("vivace:x:"), done.stderr
    assert done.stdout.endswith("::/nowhere:/bin/sh\n")
