"""The script that runs the processes of a machine, all of them or one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

_head = """\
#!/bin/sh
# The processes of {whose}. Written by `vivace render standalone`.
#
#   start            runs all of them, each again when it has ended; what they say is below logs
#   start PROCESS    becomes one of them, as its unit of systemd does
set -eu
umask 077
"""

_find_spark = """\
SPARK_HOME=$("$python" -c 'from importlib.util import find_spec
print(find_spec("pyspark").submodule_search_locations[0])')
export SPARK_HOME

become() {
    mkdir -p "$data/$1"
    case $1 in
"""

_tail = """\
        *)
            echo "start: '$1' is no process of this machine; it has: $processes" >&2
            exit 2
            ;;
    esac
}

# Start a process again whenever it has ended, until this one is told to end.
keep() {
    trap 'kill "$child"; wait "$child"; exit' TERM
    while :; do
        "$0" "$1" >>"$data/logs/$1.log" 2>&1 &
        child=$!
        wait "$child" || :
        sleep 1
    done
}

[ $# -eq 0 ] || become "$1"
mkdir -p "$data/logs"
kept=
for process in $processes; do
    keep "$process" &
    kept="$kept $!"
done
trap 'kill $kept; wait; exit' TERM INT
wait
"""


def start_script(
    whose: str,
    values: Mapping[str, str],
    variables: Mapping[str, str],
    processes: Mapping[str, tuple[Mapping[str, str], str]],
    before: Mapping[str, str],
) -> str:
    """The script.

    Parameters
    ----------
    whose
        Processes it runs, for people.
    values, variables
        Of the script, and of the environment of all processes.
    processes
        Name → further variables of the process, and its command, as the script has them.
    before
        Name → what is done before the process starts.
    """
    lines = [f"processes={shlex.quote(' '.join(processes))}"]
    lines += [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    arms: list[str] = []
    for name, (own, command) in processes.items():
        exports = " ".join(f"{variable}={value}" for variable, value in own.items())
        steps = [f"export {exports}"] if own else []
        steps += [before[name]] if name in before else []
        steps += [f"exec {command}", ";;"]
        arms += [f"        {name})", *(f"            {step}" for step in steps)]
    parts = (_head.format(whose=whose), *(f"{line}\n" for line in lines), _find_spark)
    return "".join((*parts, *(f"{arm}\n" for arm in arms), _tail))
