"""Manifests that nobody means well with: one clear error each, with status 2, and soon.

Whatever else is raised is a bug to the command line, which exits with 1 and writes a traceback.
"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.manifest import load

STREAM = """\
kind: Stream
name: s
site: a
columns: {x: int}
rate: 1 KB/s
"""
CLUSTER = """\
kind: Cluster
name: c
nodes: [n1, n2]
"""
REPLAY = (
    'from: {replay: {path: %s, begin: "2021-10-07T12:00:00Z", end: "2021-10-07T13:00:00Z"%s}}\n'
)
MANY = "9" * 400

MISTAKES = {
    "value that contains itself": STREAM + "junk: &x {y: *x}\n",
    "brackets within brackets": STREAM + f"burst: {'[' * 1000}{']' * 1000}\n",
    "burst of 400 digits": STREAM + f"burst: {MANY}\n",
    "speed of 400 digits": STREAM + REPLAY % ("a.csv", f", speed: {MANY}"),
    "scaling of 400 digits": CLUSTER + f"cpu: {{function: linear, msPerCore: {MANY}}}\n",
    "no truth value": STREAM + REPLAY % ("a.csv", ", repeat: !!bool maybe"),
    "no time": STREAM + "burst: !!timestamp soon\n",
    "no number": STREAM + "burst: !!int ''\n",
    "path with a zero byte": STREAM + REPLAY % (r'"a\0b"', ""),
    "table with a zero byte": CLUSTER + 'latencies: "a\\0b"\n',
}


@pytest.mark.parametrize("text", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistake_is_said_with_its_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        load([file])
    assert str(refused.value).startswith(str(file))


def test_references_that_multiply_do_not_take_the_memory(tmp_path: Path) -> None:
    """A file of 600 bytes, ten to the power of eight fields."""
    lines = ["junk:", "  a0: &a0 {x: 1}"]
    for n in range(1, 9):
        named = ", ".join(f"k{i}: *a{n - 1}" for i in range(10))
        lines.append(f"  a{n}: &a{n} {{{named}}}")
    file = tmp_path / "bomb.yaml"
    file.write_text(STREAM + "\n".join(lines) + "\n", encoding="utf-8")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, before[1]))
    try:
        with pytest.raises(InvalidInput, match="more than 100,000 values"):
            load([file])
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
