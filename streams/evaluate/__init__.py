"""The engine of a fragment, and the ways in which it evaluates a program."""
