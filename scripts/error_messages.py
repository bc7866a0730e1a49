"""Collects the messages of errors that people can cause, and writes them into
`docs/troubleshooting.md`, each with its cure.

Messages are read from the code: wherever something is made or called that takes a `problem` and a
`remedy`, and wherever an error is raised that is told to people by its text alone. What a message
quotes is `…` in the table. The cure is the remedy that the message ends with; one without a remedy
has its cure here, and a unit test fails until that is so: `python -m scripts.error_messages`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.marked_tables import with_table

ROOT = Path(__file__).resolve().parent.parent

PAGE = ROOT / "docs" / "troubleshooting.md"

PACKAGES = ("orchestrator", "vivace", "streams/language", "streams/plan", "streams/expressions")
"""Where errors are made that people see. Mistakes in a planning problem, and states between hosts,
are the product's own."""

UNSEEN = (
    "orchestrator/simulation", "orchestrator/host/core", "orchestrator/embedded/struck_process",
    "orchestrator/errors.py",
)  # fmt: skip
"""Errors of these are caught by the product, or belong to trials."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "InvalidInput": ("file", "field", "value", "problem", "remedy"),
    "RunsOtherwise": ("file", "field", "value", "problem", "remedy"),
    "Refused": ("subject", "field", "value", "problem", "remedy", "figures"),
    "Outdated": ("subject", "field", "value", "problem", "remedy", "figures"),
    "Moved": ("subject", "field", "value", "problem", "remedy", "figures"),
    "Unprotected": ("subject", "field", "value", "problem", "remedy", "figures"),
    "Unreachable": ("what", "address", "problem", "remedy"),
    "InvalidQuery": ("query", "field", "value", "problem", "remedy"),
    "UnitError": ("problem", "remedy"),
    "QueryError": ("text", "offset", "message"),
    "_error": ("at", "message"),
    "PatternError": ("message",),
    "NoCluster": ("message",), "SeveralClusters": ("message",), "ClusterExists": ("message",),
    "NoJava": ("message",), "NotStarted": ("message",),
    "DriverError": ("message",), "Unverifiable": ("message",), "LinesRefused": ("message",),
    "TokenMissing": ("message",), "WrongUsage": ("message",), "RequestFailed": ("message",),
    "NotImposed": ("message",), "NoExecutor": ("message",), "SparkLost": ("message",),
    "IncompatibleJob": ("message",), "SessionExists": ("message",), "DrillFailed": ("message",),
    "Inapplicable": ("message",), "NoProcess": ("message",), "VivaceError": ("message",),
}  # fmt: skip
"""Error, or what makes one → its parameters."""

CALLED = "problem", "remedy"
"""Functions with these parameters make errors, too."""

CLASS_CURES: Mapping[str, str] = {
    "QueryError": "Change the statement where the caret below the message stands "
    "([the language](query-language.md)).",
    "_error": "Change the statement where the caret below the message stands "
    "([the language](query-language.md)).",
    "PatternError": "Change the pattern ([functions](query-language.md)).",
    "ClusterExists": "`vivace down --cluster NAME` ends the one that runs.",
    "NoJava": "`make setup` installs one; `VIVACE_JAVA_HOME` names another.",
    "NotStarted": "The log that the message names says why.",
    "Unverifiable": "Compare a span that is kept, as [verification](verification.md) says.",
    "LinesRefused": "Mend the line that the message names, or send with `--skip-bad`.",
    "RequestFailed": "The status says of what kind it is ([errors](api.md#errors)).",
    "NotImposed": "The drill needs a right, or something of the machine, that the message names.",
    "NoExecutor": "Wait until Spark has started the executor again.",
    "SparkLost": "Spark's log says why it ended; the host pool starts it again.",
    "IncompatibleJob": "Start the job in a new folder, or with the settings it was begun with.",
    "SessionExists": "End the other Spark session of this process first.",
    "DrillFailed": "`vivace drill report` has what was measured; try again once protected.",
    "Inapplicable": "The drill does not fit this cluster; `vivace drill list` shows others.",
    "NoProcess": "Wait until the process has been started again, and try again.",
    "DriverError": "Mend the option of the driver that the message names.",
    "WrongUsage": "The help that the message names shows the options.",
    "NoCluster": "Start a cluster, or name one: `vivace config list`.",
    "VivaceError": "Remove or mend the file that the message names.",
}
"""Errors whose text says what is wrong, and what to do about all of their kind."""

NEAREST = "The message names what is nearest, or lists what there is."

CURES: Mapping[str, str] = {
    "cannot be listened at (…)": "Set `VIVACE_HEALTH` to another port or address.",
    "did not come within … s": "The message names the problems of the leader: mend these, and try "
    "again.",
    "did not come within … s, and is awaited still": "Mend the problems that the message "
    "names. `vivace status` shows which fragments are not done.",
    "is neither a folder nor a file": "The message says where savepoints lie.",
    "cannot be looked for": "Name a folder of checkpoints in the cluster's manifest, `state: "
    "{folder: …}`, or start it with `vivace up --data FOLDER`.",
    "is no savepoint of this cluster": "`vivace savepoint list` shows those that there are.",
    "is a savepoint that is …": "`vivace savepoint list` shows what becomes of it.",
    "was taken by Vivace … (wire …), which this version": "Start that version.",
    "has no state of query …": "The message names the queries that it has.",
    "holds states of query …, which runs, and has newer ones": "Change the query in place without "
    "`--from`, or `vivace delete NAME --keep-streams` first.",
    "is the name of a savepoint that is …": "Choose another name, or `vivace savepoint delete` the "
    "other one first.",
    "was deleted while it was made": "Ask for it again.",
    "is no savepoint: …": "`vivace savepoint list` shows those of a cluster, and the message says "
    "where they lie.",
    "does not answer (…)": "The message says where to look: whether the cluster runs, and "
    "`vivace config list`.",
    "it lacks a replica at present, or its sites are away; `vivace status` tells": "Try again once "
    "`vivace status` shows its replicas and sites.",
    "is not the format of this version, …": "Plan anew with this version: `vivace rebalance`.",
    "is not this cluster, …": "Name the cluster that the plan is of with `--context`.",
    "tells of other moves than the plan has": "A plan is applied as it was made. Plan anew: "
    "`vivace rebalance`.",
    "was another cluster of that name, …": "Plan anew: `vivace rebalance`.",
    "is no JSON object (…)": "Send an object such as `{}` as the body.",
    "is no field any more": "The message says what has taken its place.",
    "is not YAML: …": "Mend the file at the line that the message names.",
    "is not being moved": "`vivace status` shows which fragments are.",
    "is not in [0, 1)": "Write a share of the samples, such as 0.25.",
    "is not what runs, which is …": "`vivace delete` the query or stream, then apply it again.",
    "is not ≥ …": "Write a number from there on.",
    "several clusters are known here (…); name one with --context, or choose one with "
    "`vivace config use`": "Name one with `--context` or `VIVACE_CONTEXT`, or choose one with "
    "`vivace config use`.",
    "several clusters run here (…); name one with --cluster": "Name one.",
    "stream …: …. Send from where it can be read, or set … to the token": "Set `VIVACE_TOKEN`.",
    "… (looked at by site …)": "Paths, ports and addresses are those of the site's machine "
    "([what is looked at](live-streams.md#what-apply-looks-at)).",
}
"""Message without a remedy that can be read from the code → its cure."""


@dataclass(frozen=True, slots=True, order=True)
class Told:
    """A message, what to do, and where it is made."""

    message: str
    cure: str
    file: str
    line: int


def collected() -> list[Told]:
    """All messages, each once."""
    found: dict[str, Told] = {}
    trees = {path: ast.parse(path.read_text("utf-8")) for path in _files()}
    makers = {path: _makers(tree) for path, tree in trees.items()}
    public = {n: given for each in makers.values() for n, given in each.items() if n[0] != "_"}
    for path, tree in trees.items():
        for told in _told(path, tree, {**FIELDS, **public, **makers[path]}):
            before = found.get(told.message)
            if before is None or not before.cure:
                found[told.message] = told
    return sorted(found.values())


def _files() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(UNSEEN):
                yield path


def _makers(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Functions that take a problem and a remedy."""
    found: dict[str, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = tuple(arg.arg for arg in node.args.args if arg.arg not in ("self", "cls"))
            if set(CALLED) <= {*names, *(arg.arg for arg in node.args.kwonlyargs)}:
                found[node.name] = names
    found.pop("__init__", None)
    found.pop("in_sentences", None)
    return found


def _told(path: Path, tree: ast.Module, made: Mapping[str, tuple[str, ...]]) -> Iterator[Told]:
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for scope in scopes:
        nested = [each for each in ast.walk(scope) if each in scopes and each is not scope]
        inner = {id(node) for each in nested for node in ast.walk(each)}
        for node in ast.walk(scope):
            if not isinstance(node, ast.Call) or id(node) in inner:
                continue
            name = _name(node.func)
            if name not in made:
                continue
            given = dict(zip(made[name], node.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            yield from _messages(path, scope, name, given, node.lineno)


def _messages(
    path: Path, scope: ast.FunctionDef, name: str, given: Mapping[str, ast.expr], line: int
) -> Iterator[Told]:
    told = given.get("problem", given.get("message"))
    if told is None:
        return
    remedies = [text for text in _texts(given.get("remedy"), scope) if text]
    for message in _texts(told, scope):
        if len(re.sub(r"[…\W]", "", message)) < 3:
            # It is made elsewhere, and collected there.
            continue
        remedy = " ".join(each for each in dict.fromkeys(remedies) if each != "…")
        cure = CURES.get(message, "") or remedy or CLASS_CURES.get(name, "")
        yield Told(message, cure, str(path.relative_to(ROOT)), line)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _texts(node: ast.expr | None, scope: ast.FunctionDef) -> list[str]:
    """What an expression may be: each text that is assigned to its name, if it is one."""
    if isinstance(node, ast.Name):
        values = [
            each.value
            for each in ast.walk(scope)
            if isinstance(each, ast.Assign) and any(_assigns(t, node.id) for t in each.targets)
        ]
        return [text for value in values for text in _texts(value, scope)]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body, scope), *_texts(node.orelse, scope)]
    if node is None:
        return []
    return [" ".join(_text(node).split())]


def _assigns(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def _text(node: ast.expr) -> str:
    """A text as the table has it."""
    if isinstance(node, ast.Constant):
        return str(node.value) if node.value is not None else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.Call) and _name(node.func) in ("nearest", "hint"):
        return NEAREST
    return "…"


def table() -> str:
    """A row for each message."""
    rows = ["| message | cure |", "| --- | --- |"]
    rows += [f"| {_cell(each.message)} | {_cell(each.cure)} |" for each in collected()]
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def updated(page: str) -> str:
    """The page with the table as it should be."""
    return with_table(page, "messages", table())


def main() -> None:
    """Bring the page up to date."""
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
