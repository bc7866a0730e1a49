"""The operators, one a file. Each takes and gives changes of relations, instant by instant."""
