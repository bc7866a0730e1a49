"""The kernels of the loop machine that Python calls, compiled when this module is imported."""

from __future__ import annotations

from streams.kernels.loops import groups, machine, windows

run_loop = machine.run
link_anew = windows.link_anew
show_all = groups.show_all
rank_of = groups.rank_of
