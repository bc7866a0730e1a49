"""Aggregates, in three forms that give the same values.

- Of *values* that come and go one by one: `accumulators.py`, for `aggregate.py`, row by row.
- Of *panes*, in arrays: `parts.py`, put together in `pane_parts.py`.
- Of *steps*, the changes of one group at one timestamp: `folded_groups.py`, with parts of panes.

`groups.py` goes over from the first to the last when that takes less time.
"""
