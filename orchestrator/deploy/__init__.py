"""Starting a cluster's processes: one by one through entry points, or all on this machine."""
