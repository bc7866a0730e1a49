"""From a statement to a program: names, types, what is pushed down, split, shared, divided."""
