"""YAML errors in the words of someone who writes manifests."""

from __future__ import annotations

import yaml

from orchestrator.errors import InvalidInput

INDENT = "Indent the fields of a mapping, and the items of a list, alike."
COLON = 'Write "field: value", with a space after the colon.'
QUOTE = 'Put the value in quotes: "…".'


def explain_yaml(file: str, text: str, error: yaml.YAMLError) -> InvalidInput:
    """The place and the probable mistake."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        place, problem, remedy = _explained(text.splitlines(), error, error.problem_mark)
        where = f"{file}:{place.line + 1}:{place.column + 1}"
    else:
        where, problem, remedy = file, str(error).split("\n", 1)[0], "Remove such characters."
    return InvalidInput(where, "", None, f"is not YAML: {problem}", remedy)


def _explained(
    lines: list[str], error: yaml.MarkedYAMLError, place: yaml.Mark
) -> tuple[yaml.Mark, str, str]:
    """The place of the mistake, the probable mistake, and the remedy."""
    context, problem = error.context or "", error.problem or ""
    opened = error.context_mark or place
    line = lines[place.line] if place.line < len(lines) else ""
    if "quoted scalar" in context and "end of" in problem:
        return opened, "the quote that opens here is not closed", "Close it with the same quote."
    if "could not find expected ':'" in problem:
        return opened, "the line has no colon with a space after it", COLON
    if "mapping values are not allowed" in problem:
        if ": " in line[: place.column]:
            return place, "there is a second colon in the line", QUOTE
        above = next((one for one in reversed(lines[: place.line]) if one.strip()), "")
        if _indentation(line) > _indentation(above):
            return place, "the line is indented deeper than the one above, which ends it", INDENT
        return place, "a line above has no colon with a space after it", COLON
    if "expected <block end>" in problem:
        return place, "the line does not begin where those above it do", INDENT
    if "'\\t'" in problem:
        return place, "there is a tab where spaces indent", "Indent with spaces only."
    if "cannot start any token" in problem:
        return place, f"a value cannot begin with {line[place.column]}", QUOTE
    if "undefined alias" in problem:
        return place, "a value that begins with * refers to another one, which is not there", QUOTE
    if "while parsing a flow" in context and "expected ','" in problem:
        closing = "}" if "mapping" in context else "]"
        missing = f"a comma, or the {closing} for line {opened.line + 1}, is missing before this"
        return place, missing, "Close every bracket, and put commas between what stands in it."
    if "expected the node content" in problem:
        return place, "a value is missing here", "Write one, or take the comma or bracket away."
    return place, problem, "Look at indentation, colons and quotes there."


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))
