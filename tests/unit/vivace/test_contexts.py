"""Names for clusters: which one is meant, and what is kept of each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vivace
from orchestrator.errors import InvalidInput, VivaceError
from vivace import contexts
from vivace.contexts import Context, NoCluster, SeveralClusters

HERE = Context(api="http://127.0.0.1:8650")


def test_the_only_context_is_meant_then_the_chosen_one(tmp_path: Path) -> None:
    contexts.add("air", HERE, tmp_path)
    assert contexts.find(None, tmp_path) == ("air", HERE)
    contexts.add("sea", HERE, tmp_path)
    with pytest.raises(SeveralClusters, match=r"air, sea.*--context") as unnamed:
        contexts.find(None, tmp_path)
    assert unnamed.value.exit_status == 2
    contexts.use("sea", tmp_path)
    assert contexts.find(None, tmp_path)[0] == "sea"
    assert contexts.find("air", tmp_path)[0] == "air"
    contexts.remove("sea", tmp_path)
    assert contexts.used(tmp_path) is None
    assert contexts.find(None, tmp_path)[0] == "air"


def test_what_is_not_there_is_said_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="no cluster is running here; `vivace up -f …`") as none:
        contexts.find(None, tmp_path)
    assert none.value.exit_status == 3
    contexts.add("air", HERE, tmp_path)
    for name in ("land", "../air"):
        with pytest.raises(NoCluster, match=r"land|air.*there is air"):
            contexts.find(name, tmp_path)
    with pytest.raises(NoCluster):
        contexts.use("land", tmp_path)


def test_the_context_of_a_process_that_has_ended_is_forgotten_with_its_token(
    tmp_path: Path,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    contexts.add_local("air", Context(api=HERE.api, pid=ended.pid), "t", tmp_path)
    contexts.add_local("sea", Context(api=HERE.api, pid=os.getpid()), "t", tmp_path)
    contexts.use("sea", tmp_path)
    assert list(contexts.known(tmp_path)) == ["sea"]
    assert not [*(tmp_path / "contexts").glob("air*")]


@pytest.mark.parametrize("api", ["", "127.0.0.1:80", "ftp://x", "http://", "http://x/api"])
def test_what_is_no_address_is_refused(tmp_path: Path, api: str) -> None:
    with pytest.raises(InvalidInput, match="is no address"):
        contexts.add("air", Context(api=api), tmp_path)


@pytest.mark.parametrize("name", ["", ".air", "a/b", "a b"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="is no name"):
        contexts.add(name, HERE, tmp_path)


def test_a_foreign_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "contexts").mkdir()
    (tmp_path / "contexts" / "odd.json").write_text("{}")
    with pytest.raises(VivaceError, match=r"odd\.json: is no context"):
        contexts.known(tmp_path)


def test_the_variable_wins_over_the_token_of_the_context(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("two")
    context = Context(api=HERE.api, token_file=str(tmp_path / "a"))
    assert context.token({}) == "one"
    assert context.token({"VIVACE_TOKEN_FILE": str(tmp_path / "b")}) == "two"
    assert HERE.token({}) is None


def test_a_file_without_a_token_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, problem in (("empty", "holds no token"), ("bytes", "is not text"), ("no", "No such")):
        context = Context(api=HERE.api, token_file=str(tmp_path / name))
        with pytest.raises(InvalidInput, match=problem) as refused:
            context.token({})
        assert refused.value.value == str(tmp_path / name)


def test_python_means_the_same_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path))
    contexts.add("air", Context(api="http://air:1"), tmp_path)
    contexts.add("sea", Context(api="http://sea:1"), tmp_path)
    monkeypatch.setenv("VIVACE_CLUSTER", "air")
    assert vivace.connect().address == "http://air:1"
    monkeypatch.setenv("VIVACE_CONTEXT", "sea")
    assert vivace.connect().address == "http://sea:1"
    assert vivace.connect(context="air").address == "http://air:1"
    assert vivace.connect("http://other:1").address == "http://other:1"


def test_a_cluster_that_is_still_starting_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path))
    starting = Context(api="", pid=os.getpid(), logs="/logs")
    contexts.add_local("air", starting, "", tmp_path)
    with pytest.raises(NoCluster, match="cluster air is still starting; its log is in /logs"):
        vivace.connect()
