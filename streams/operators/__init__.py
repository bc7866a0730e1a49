"""The operators. Each consumes and produces changes of relations, one timestamp after another."""
