"""`vivace completion`: what a shell needs to complete the words of a command.

The parser could do that itself, with its own library, which takes several times as long to import
as anybody waits for a key. So the scripts have the words in them, and ask only for names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple

from orchestrator.cli.arguments import Argument, parameters
from orchestrator.cli.invocation import FormOption, OutputForm, show
from orchestrator.cli.verbs import GROUPS, VERBS, Command, group_of, verb_of

NAMES = {
    "fragment": "fragments",
    "node": "nodes",
    "plan": "moves",
    "query": "queries",
    "stream": "streams",
}
"""Parameter of a verb → the kind of `vivace get` that knows its names."""


class Shell(Enum):
    """Shells that can be told."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def command(
    shell: Annotated[Shell, Argument(help="bash, zsh or fish.")],
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Print the script that has a shell complete verbs, options and names.

    In ~/.bashrc or ~/.zshrc: source <(vivace completion bash). For fish: vivace completion fish >
    ~/.config/fish/completions/vivace.fish

    [bold]Example:[/] vivace completion bash
    """
    scripts = {Shell.BASH: _bash, Shell.ZSH: _zsh, Shell.FISH: _fish}
    script = scripts[shell]()
    if form is OutputForm.TABLE:
        sys.stdout.write(script)
    else:
        show({"shell": shell.value, "script": script}, form, str)


class Following(NamedTuple):
    """What may follow the words so far: words, names of a kind (empty: none), and files."""

    words: list[str]
    kind: str = ""
    files: bool = False


def words() -> Mapping[str, Following]:
    """Words so far, such as `drill run` → what may follow."""
    found = {"": Following([*VERBS, *GROUPS])}
    for name in VERBS:
        found[name] = _following(verb_of(name))
    for name, verbs in GROUPS.items():
        found[name] = Following([*verbs])
        for each, verb in group_of(name).VERBS.items():
            found[f"{name} {each}"] = _following(verb)
    return found


def _following(verb: Command) -> Following:
    options: list[str] = []
    values: list[str] = []
    kind, files = "", False
    for each in parameters(verb):
        files |= each.kind is Path
        if isinstance(each.shown, Argument):
            values += each.words
            kind = kind or ("" if each.kind is Path else NAMES.get(each.name, ""))
        else:
            options += [part for name in each.names for part in name.split("/")]
    return Following([*values, *options, "--json", "--help"], kind, files)


def _cases(found: Mapping[str, Following]) -> Iterator[str]:
    for before, (following, kind, _) in found.items():
        yield f'    "{before}") words="{" ".join(following)}"; kind="{kind}" ;;\n'


def _bash() -> str:
    return f"""\
# Completion of vivace for bash: source <(vivace completion bash)
_vivace() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" before="" words="" kind="" word
  for word in "${{COMP_WORDS[@]:1:2}}"; do
    [[ "$word" == "$current" || "$word" == -* ]] && break
    case " {" ".join(GROUPS)} " in *" $word "*) before="$word"; continue ;; esac
    before="${{before:+$before }}$word"; break
  done
  case "$before" in
{"".join(_cases(words()))}  esac
  if [[ -n "$kind" && "$current" != -* ]]; then
    words="$words $(vivace get "$kind" -o name 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _vivace vivace
"""


def _zsh() -> str:
    """The same: zsh has what bash's scripts need."""
    return (
        "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }\n"
        "autoload -U +X bashcompinit && bashcompinit\n" + _bash()
    )


def _fish() -> str:
    lines = ["# Completion of vivace for fish", "complete -c vivace -f"]
    found = words()
    told = " ".join(found[""].words)
    lines.append(f"complete -c vivace -n __fish_use_subcommand -a '{told}'")
    for before, (following, kind, files) in found.items():
        if not before:
            continue
        first, _, second = before.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            seen += f"; and __fish_seen_subcommand_from {second}"
        lines.append(f"complete -c vivace -n '{seen}' -a '{' '.join(following)}'")
        if files:
            lines.append(f"complete -c vivace -n '{seen}' -F")
        if kind:
            lines.append(
                f"complete -c vivace -n '{seen}' -a '(vivace get {kind} -o name 2>/dev/null)'"
            )
    return "\n".join(lines) + "\n"
