"""Evaluation by panes: grouped aggregates over windows that slide.

A *pane* is the stretch of event time between two timestamps at which a window may begin or end. A
pass over a batch of any number of timestamps adds every tuple once, to the partial aggregates of
its group in its pane. At a boundary the window's aggregates follow from whole panes: those that
enter are added, those that leave are taken back. The cost is a constant for each tuple, plus one
for each group of a pane at each end of its life, however long the window is.

`evaluation.py` runs a program; read it first. `window.py` moves panes in and out. Beside this
folder, `streams.kernels.keys` numbers the groups, `streams.aggregates.pane_parts` holds what a pane
knows of each, and `streams.arithmetic.exact_sums` explains sums that depend on no order.

References
----------
Li, Maier, Tufte, Papadimos, Tucker, *No pane, no gain: efficient evaluation of sliding-window
aggregates over data streams*, SIGMOD Record 34, 2005.
"""
