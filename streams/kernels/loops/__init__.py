"""The compiled loop core: one machine that runs a loop's program over tables in one memory."""
