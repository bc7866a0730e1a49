"""Planning one query at a time, around everything that runs.

`planner.Planning.place` goes through three steps:

1. `replicas`: the cheapest primaries, with the price of their standbys in view;
2. `sub_deadlines`: by when each fragment must be done, and other primaries if those of the first
   step leave too little time;
3. `replicas`: who stands by for these primaries within the recovery bound.

All steps work on one `task.QueryTask`, which rests on the `workload` of the fragments and on
the network as it was measured.
"""
