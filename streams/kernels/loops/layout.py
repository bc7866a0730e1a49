"""The memory of the loop machine: words of 64 bits, which are integers, floats or codes of texts.

The memory begins with a header, then areas of fixed places, then descriptors, programs and tables,
wherever `streams.evaluate.loops.memory` puts them. An *address* is a place in the memory. A table
is named by the address of its descriptor; its rows lie side by side, and a row's place is counted
from the table's beginning.

A row begins with four words: its identity; the instant at which it came; the one at which it left,
or in a change whether it enters; and one bit for each column that is NULL. Its values follow. A
column that is NULL has the value 0, so rows are equal if these words are.
"""

from __future__ import annotations

from typing import Any

Memory = Any
"""In kernels: an array of 64-bit words. Its elements are integers there, which types of numpy's
arrays do not say."""

# Header: what a run is at.
MEMBERS, MEMBER_COUNT = 0, 1
EXTERNALS, EXTERNAL_COUNT = 2, 3
EXPIRIES, EXPIRY_COUNT = 4, 5
EXPORTS, EXPORT_COUNT = 6, 7
STEPS, CUTS = 8, 9
NOW, RUNNING, AT_MEMBER, AT_INSTRUCTION = 10, 11, 12, 13
"""Instant; whether it is under way; the place in the order of members; the instruction."""
NEEDY, NEEDED = 14, 15
"""The table that lacks room, and how many rows it needs."""
INSTANTS, EVALUATED, FAILED, SEQUENCE = 16, 17, 18, 19
"""Instants so far; whether the member has anything to do; the member that has too many; the table
that tells the order of exported rows."""
ORDER = 20
"""Addresses of members in the order of their evaluation."""
TUPLES, MADE, MADE_AT = 21, 22, 23
"""Most tuples that streams may have in a millisecond; how many they have in one; in which."""

# Areas of fixed places.
SOURCES, MOST_SOURCES = 64, 16
"""Addresses of the rows that an expression reads."""
REGISTERS, KNOWN, MOST_REGISTERS = 256, 512, 256
"""Values of an expression, and whether they are not NULL."""
KEY_NULLS, KEYS, MOST_KEYS = 768, 769, 63
WORK, WORK_WORDS = 896, 128
CURSORS = 832
"""Places of the rows that a join is at."""
BEGIN_OF_TABLES = 1024

# Descriptors of tables.
BASE, CAPACITY, WIDTH, HEAD, TAIL = 0, 1, 2, 3, 4
FROM, UNTIL, FIRST_ID = 5, 6, 7
"""Of a stream: its rows of this instant, and the identity of the first of them; of a derived
relation, `FIRST_ID` is the next identity."""
LIVE, HASH, STALE, USED, FREE, KEY_COUNT = 8, 9, 10, 11, 12, 13
"""Rows that count; the table of hashes; of that, whether it must be made anew, and how many places
are taken; of a pool, its first free place; of that of hashes, the number of keys."""
MOVED = 14
"""Of a relation: how often its rows may have changed places or columns."""
DESCRIPTOR = 16

# Rows.
ID, AT, LEFT, NULLS, VALUES = 0, 1, 2, 3, 4
MOST_COLUMNS = 62
"""Of a row: each has a bit."""

# Indexes of relations: a row for each place of the relation, and as many lists of places.
LINKS = FIRST_PLACE, LAST_PLACE, NEXT_PLACE = 0, 1, 2
"""The ends of a list, -1 for none; the place after a place in its list."""
INDEXED, INDEXED_AT = 11, 14
"""Of its descriptor: the first place that is in no list; `MOVED` of the relation then."""
FEW_ROWS = 8
"""Of a relation, which are looked at one after the other."""

# Nodes of lists of contenders.
NODE_ID, NODE_RANK, NODE_VALUE, NODE_BEFORE, NODE_AFTER, NODE_WORDS = 0, 1, 2, 3, 4, 5

# Members.
PROGRAM, LENGTH, DELAY, GIVEN, QUEUE, OUT, DROPPED, NUMBER, MEMBER_WORDS = 0, 1, 2, 3, 4, 5, 6, 7, 8

# Results of a run.
DONE, LEAVES, NEEDS, FAILS, SKIPS, TOO_LARGE, JOINS_TOO_MANY = range(7)

FOREVER = 2**62
STEP_BITS = 16
LAST_STEP = (1 << STEP_BITS) - 1

# Instructions: a word for what to do, then arguments.
INSTRUCTION = 12
(
    RANGE_WINDOW,
    ROWS_WINDOW,
    PARTITION_WINDOW,
    UNBOUNDED_WINDOW,
    CHECK,
    FILTER,
    RELATE,
    IDENTIFY,
    JOIN,
    GROUP,
    PROJECT,
    EMIT,
) = range(12)

# Steps of expressions: what to do, the register of the result, two registers or other arguments.
STEP = 4
(
    LOAD,
    CONSTANT,
    TO_FLOAT,
    ADD_INT,
    ADD_FLOAT,
    SUBTRACT_INT,
    SUBTRACT_FLOAT,
    MULTIPLY_INT,
    MULTIPLY_FLOAT,
    DIVIDE_INT,
    DIVIDE_FLOAT,
    MODULO_INT,
    MODULO_FLOAT,
    NEGATE_INT,
    NEGATE_FLOAT,
    ABS_INT,
    ABS_FLOAT,
    EQUAL_INT,
    EQUAL_FLOAT,
    LESS_INT,
    LESS_FLOAT,
    NOT,
    AND,
    OR,
    IS_NULL,
    CHOOSE,
    COALESCE,
    NULL_IF,
    FLOOR,
    CEIL,
    TRUNCATE,
    ROUND,
    SQRT,
    LEAST_INT,
    LEAST_FLOAT,
    GREATEST_INT,
    GREATEST_FLOAT,
    LESS_EQUAL_INT,
    LESS_EQUAL_FLOAT,
) = range(39)

# A group in a program: the change that it reads, the number of sources, the change that it gives,
# groups, touched ones, number of keys, where their steps are, number of aggregates, where these
# are, and where in a group's row that is what was shown.
SOURCE, SOURCE_COUNT, CHANGE, TABLE, TOUCHED = 0, 1, 2, 3, 4
KEY_NUMBER, KEY_STEPS, NUMBER_OF, FIRST, SHOWN = 5, 6, 7, 8, 9

# Aggregates.
COUNT_ALL, COUNT, SUM_INT, AVG_INT, SUM_FLOAT, AVG_FLOAT, BEST = range(7)
AGGREGATE = 8
"""Words of an aggregate in a program: function, steps of its argument (begin, end), place of its
state in the group's row, what its ranks are, whether no row leaves, its pool."""
RANK_VALUE, RANK_FLOAT, RANK_ID = 0, 1, 2
"""What is ranked; with 4 added, the greatest one is the best."""
REVERSED = 4

DIGITS = 70
"""Of an exact sum of floats (`streams.arithmetic.exact_sums`): all that there may be."""
SUM_COUNT, SUM_LOW, SUM_HIGH, SUM_DIGITS = 0, 1, 2, 3
FLOAT_SUM_WORDS = SUM_DIGITS + DIGITS
