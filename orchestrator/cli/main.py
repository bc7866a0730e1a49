"""`vivace`: one verb a file. Each parses, calls the library, renders, and says how it went."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

from orchestrator.cli.arguments import read
from orchestrator.cli.invocation import EXIT_INTERRUPTED, JSON_WORDS, asked_form, fail, messages
from orchestrator.cli.verbs import GROUPS, VERBS, Command, group_of, verb_of

CONTEXT_OPTIONS = ("--context", "--cluster")


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; returns the exit status."""
    spelled = ((word,) if word != "--json" else JSON_WORDS for word in arguments)
    arguments = [word for words in spelled for word in words]
    try:
        return _run(arguments or ["--help"])
    except KeyboardInterrupt as stop:
        for note in getattr(stop, "__notes__", ()):
            messages().print(note, markup=False, soft_wrap=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough: `vivace tail … | head`.
        sys.stderr.close()
        return 0
    except OSError as error:
        return fail(_told(error), asked_form(arguments))
    except ModuleNotFoundError:
        # `orchestrator.command` says what to install.
        raise
    except Exception as error:  # noqa: BLE001  Everything unforeseen ends in one message.
        return fail(error, asked_form(arguments))


def _told(error: OSError) -> Exception:
    """A full disk is no bug; everything else that nobody has foreseen is one."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    from orchestrator import api

    problem = f"cannot be written ({error.strerror})"
    return api.InvalidInput("", "output", None, problem, "Make room, or write it elsewhere.")


def _run(arguments: Sequence[str]) -> int:
    arguments = _verb_first(arguments)
    verb, words = _named(arguments)
    given = None if verb is None else read(verb, words)
    if verb is not None and given is not None:
        return verb(**given) or 0
    # Only now: it takes several times as long to import as most verbs take.
    from orchestrator.cli.application import explained

    return explained(arguments)


def _verb_first(arguments: Sequence[str]) -> Sequence[str]:
    """The same with the context behind the verb, for whoever writes it in front."""
    option, _, value = arguments[0].partition("=")
    count = 1 if value else 2
    if option not in CONTEXT_OPTIONS or len(arguments) <= count:
        return arguments
    context, words = arguments[:count], arguments[count:]
    named = 2 if words[0] in GROUPS else 1
    return [*words[:named], *context, *words[named:]]


def _named(arguments: Sequence[str]) -> tuple[Command | None, Sequence[str]]:
    """The verb that arguments begin with, and the words that follow; None: there is none."""
    first, *words = arguments
    if first in VERBS:
        return verb_of(first), words
    if first in GROUPS and words and words[0] in GROUPS[first]:
        return group_of(first).VERBS[words[0]], words[1:]
    return None, words


def main() -> None:
    """The command."""
    # Somebody may have started it without some of them: `vivace … <&-`.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    # What is under way is undone in the same order as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
