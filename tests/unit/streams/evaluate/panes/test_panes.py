"""Parts of evaluation by panes that random statements hardly reach."""

from __future__ import annotations

import math
from fractions import Fraction
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from foundation.arrays import IntArray
from streams.arithmetic.exact_sums import (
    EXTRA_DIGITS,
    LEAST_EXPONENT,
    MOST_DIGITS,
    SPAN,
    spanned,
    total_of,
)
from streams.arithmetic.exact_texts import LEAST_SQUARE_EXPONENT, exact_number, exact_text
from streams.kernels import compiled, kernels, reference
from streams.kernels.keys import Keys, every
from streams.kernels.reference_texts import cut
from streams.plan.choice import EvaluationWay, way_of
from streams.vectors.arrays import Codes
from streams.vectors.arrow_buffers import offsets, text_bytes
from streams.vectors.vector import Vector
from tests.unit.streams.running import output, program

both = pytest.mark.parametrize("module", [reference, compiled], ids=["numpy", "numba"])


def summed(values: list[float], divisor: int, module: ModuleType) -> float | None:
    given = np.array(values)
    begin, end = spanned(given.view(np.uint64))
    digits = np.zeros((1, max(end - begin, SPAN)), dtype=np.int64)
    slots = np.zeros(len(given), dtype=np.int32)
    done = module.sum_floats(
        slots, given.view(np.uint64), every, digits, min(begin, 99), 0, len(given)
    )
    assert done == len(given)
    out, fits = np.empty(1), np.empty(1, dtype=np.bool_)
    exponent = LEAST_EXPONENT + 32 * min(begin, 99)
    module.round_sums(digits, exponent, np.array([divisor]), out, fits)
    return float(out[0]) if fits[0] else None


def expected(values: list[float], divisor: int) -> float | None:
    try:
        return float(sum(map(Fraction, values)) / divisor) + 0.0
    except OverflowError:
        return None


@both
def test_sums_are_rounded_once_and_correctly(module: ModuleType) -> None:
    rng = np.random.default_rng(3)
    edges = [
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        2.2e-308,
        1.0,
        math.nextafter(1, 2),
        2.0**53,
        1e308,
        1.7e308,
    ]
    cases = [[one, other] for one in edges for other in [*edges, *(-edge for edge in edges)]]
    for _ in range(300):
        count = int(rng.integers(1, 9))
        exponents = (
            rng.integers(-1070, 1020, count) if rng.random() < 0.3 else rng.integers(-9, 9, count)
        )
        cases.append(np.ldexp(rng.uniform(-2, 2, count), exponents).tolist())
    for values in cases:
        for divisor in (1, 2, 3, 7, 2**31 - 1):
            assert repr(summed(values, divisor, module)) == repr(expected(values, divisor)), (
                values,
                divisor,
            )


MALFORMED = [
    *(
        "",
        "-",
        "p",
        "1p",
        "p1",
        "1p-",
        "--1p0",
        "1p--1",
        "1p0 ",
        " 1p0",
        "1P0",
        "Fp0",
        "gp0",
        "1pa",
    ),
    *("1p00000", "1p-10000", "1p0p0", "1pp0", "1q0", "ç", "1pç", "1p-2149", "1p2112", "1p9999"),
    *("f" * 1066 + "p-2148", "8" + "0" * 1064 + "p-2147", "0" * 1066 + "p0"),
]
WELL_FORMED = [
    *("0p0", "-0p0", "0p-2148", "1p0", "-1p0", "1p-2148", "1p2111", "-1p2111", "1p-0", "1p0000"),
    *("f" * 1065 + "p-2148", "-" + "f" * 1065 + "p-2148", "0" * 1064 + "1p-5", "123456789p-33"),
    *("ffffffffp31", "-100000000p-1", "fffffffffp-31", "00abcdef01p7", "8p2108", "-7p2109"),
]


@both
def test_exact_sums_are_read_from_texts(module: ModuleType) -> None:
    rng = np.random.default_rng(5)
    drawn = [
        "".join(rng.choice(list("-0019afp"), int(rng.integers(1, 9))).tolist()) for _ in range(2000)
    ]
    drawn += [
        exact_text(int(rng.integers(-(2**62), 2**62)) ** int(rng.integers(1, 5)), int(exponent))
        for exponent in rng.integers(-2148, 1500, 500)
    ]
    for text in [*MALFORMED, *WELL_FORMED, *drawn]:
        array = pa.array([text], pa.string())
        digits = np.zeros((2, MOST_DIGITS), dtype=np.int64)
        slots = np.array([1], dtype=np.int32)
        assert module.sum_texts(offsets(array), text_bytes(array), slots, digits, 0) == 1
        total, exponent = exact_number(text)
        assert (total == 0) or text not in MALFORMED
        assert total_of(digits[1]) == total << exponent - LEAST_SQUARE_EXPONENT, text
        assert not digits[0].any()
        if not total:
            continue
        first, added = cut(text)
        assert digits[1, first : first + len(added)].tolist() == added, text
        for begin, width in ((first + 1, 200), (first, len(added)), (0, first + len(added))):
            narrow = np.zeros((2, width), dtype=np.int64)
            done = module.sum_texts(offsets(array), text_bytes(array), slots, narrow, begin)
            assert done == 0, text
            assert not narrow.any()


def test_what_stands_under_null_is_no_part_of_an_exact_sum() -> None:
    text = "concat(k, CASE WHEN i > 0 THEN '' END)"
    window = "s [RANGE 10 MILLISECONDS SLIDE 10 MILLISECONDS]"
    whole = program(f"RSTREAM(SELECT exact_sum({text}) AS y FROM {window})")
    assert way_of(whole) is EvaluationWay.PANES
    rows = [(1, "3p2", 0, 0.0, True), (2, "1p0", 1, 0.0, True), (3, "5p1", 0, 0.0, True)]
    assert output(whole, {"s": rows}, 10) == [(10, "1p0")]


def test_a_mean_keeps_enough_digits() -> None:
    assert 32 * EXTRA_DIGITS - 31 >= 54 + 2


@both
def test_texts_of_any_length_have_codes_of_their_own(module: ModuleType) -> None:
    before = kernels.current()
    kernels.use(module)
    try:
        texts = [
            "",
            "a",
            "b",
            "aa",
            "a\0",
            "\0",
            "12345678",
            "12345679",
            "123456789",
            "ç",
            "é" * 40,
        ]
        texts += [f"key {number}" * (number % 4 + 1) for number in range(500)]
        rng = np.random.default_rng(1)
        given: list[str | None] = [*texts, None]
        given += [texts[at] for at in rng.integers(len(texts), size=2000).tolist()]
        keys = Keys(["string"])
        codes = keys.encode([pa.array(given, pa.string())], len(given), every)
        assert keys.columns(codes)[0].to_list() == given
        assert len(set(codes.tolist())) == len(texts) + 1
        # Codes that one implementation gave are found by the other.
        kernels.use(compiled if module is reference else reference)
        assert (
            keys.encode([pa.array(given, pa.string())], len(given), every).tolist()
            == codes.tolist()
        )
    finally:
        kernels.use(before)


LONGEST_RUN = 100
"""Of full places in a table a quarter full, or less; of random places it is about 20."""


def longest_run(table: Codes) -> int:
    """How many places a look-up visits at most."""
    ends = np.flatnonzero(np.concatenate([[-1], table, [-1]]) < 0)
    return int(np.diff(ends).max()) - 1


def table_of_ints(numbers: IntArray, module: ModuleType) -> Codes:
    """The hash table of different numbers."""
    table: Codes = np.full(4 * len(numbers), -1, dtype=np.int32)
    out: Codes = np.empty(len(numbers), dtype=np.int32)
    done = module.code_ints(numbers, every, table, np.zeros_like(numbers), out, 0, 0)
    assert done == (len(numbers), len(numbers))
    return table


def table_of_texts(texts: list[str], module: ModuleType) -> Codes:
    """The hash table of different texts."""
    array = pa.array(texts, pa.string())
    count, data = len(texts), text_bytes(array)
    table: Codes = np.full(4 * count, -1, dtype=np.int32)
    hashes, ends = np.zeros(count, dtype=np.uint64), np.zeros(count + 1, dtype=np.int64)
    out: Codes = np.empty(count, dtype=np.int32)
    done = module.code_texts(
        offsets(array), data, every, table, hashes, ends, np.zeros_like(data), out, 0, 0
    )
    assert done == (count, count, 0)
    return table


@pytest.mark.parametrize("shift", range(0, 53, 4))
def test_numbers_are_spread_whatever_bits_they_differ_in(shift: int) -> None:
    numbers = np.arange(2048, dtype=np.int64) << shift
    table = table_of_ints(numbers, compiled)
    assert longest_run(table) <= LONGEST_RUN
    assert table_of_ints(numbers, reference).tolist() == table.tolist()


@pytest.mark.parametrize("before", ["", "ab", "abcd", "abcdefgh", "abcdefghabcd"])
@pytest.mark.parametrize("digits", [4, 12])
def test_texts_are_spread_whatever_bytes_they_differ_in(before: str, digits: int) -> None:
    texts = [f"{before}{number:0{digits}}" for number in range(2048)]
    table = table_of_texts(texts, compiled)
    assert longest_run(table) <= LONGEST_RUN
    assert table_of_texts(texts, reference).tolist() == table.tolist()


@both
def test_digits_are_equal_whatever_order_and_signs(module: ModuleType) -> None:
    rng = np.random.default_rng(7)
    values = np.ldexp(rng.uniform(-2, 2, 500), rng.integers(-60, 60, 500))
    begin, end = spanned(values.view(np.uint64))
    slots = rng.integers(3, size=500).astype(np.int32)
    added: list[IntArray] = []
    for kernel in (module, reference):
        digits = np.zeros((3, end - begin), dtype=np.int64)
        assert kernel.sum_floats(slots, values.view(np.uint64), every, digits, begin, 0, 500) == 500
        added.append(digits)
    assert (added[0] == added[1]).all()
    totals, codes = np.zeros((5, end - begin), dtype=np.int64), np.array([4, 0, 2], np.int32)
    module.add_digits(totals, codes, added[0], 1)
    assert [total_of(row) for row in totals[codes]] == [total_of(row) for row in added[0]]
    settled = added[0].copy()
    module.pass_carries_on(settled)
    assert [total_of(row) for row in settled] == [total_of(row) for row in added[0]]
    assert (settled[:, :-1] >= 0).all()
    assert (settled[:, :-1] < 2**32).all()
    module.add_digits(totals, codes, settled, -1)
    module.pass_carries_on(totals)
    assert not totals.any()


@both
def test_wanted_values_are_put_together(module: ModuleType) -> None:
    words = np.arange(9, dtype=np.uint64)
    for wanted in (words % 3 == 0, words % 3 == 1, words > 20, words < 20):
        out = np.empty(9, dtype=np.uint64)
        count = module.pack(words, wanted, out)
        assert out[:count].tolist() == words[wanted].tolist()


@both
def test_numbers_and_pairs_have_codes(module: ModuleType) -> None:
    before = kernels.current()
    kernels.use(module)
    try:
        numbers = np.array([0, -1, 2**63 - 1, -(2**63), 0, 7, 7], dtype=np.int64)
        flags = np.array([True, False, True, True, False, False, False])
        known = np.array([True, True, True, True, True, False, True])
        keys = Keys(["int", "bool"])
        wanted = np.array([True, True, True, True, True, True, False])
        codes = keys.encode([Vector(numbers, known), Vector(flags, None)], 7, wanted)
        assert codes[-1] == -1
        ints, bools = (column.to_list() for column in keys.columns(codes[:-1]))
        assert ints == [0, -1, 2**63 - 1, -(2**63), 0, None]
        assert bools == flags[:-1].tolist()
        assert len(set(codes.tolist())) == 7
        some = wanted & flags
        packed = keys.encode([Vector(numbers, known), Vector(flags, None)], 7, some, packs=True)
        assert packed.tolist() == codes[some].tolist()
    finally:
        kernels.use(before)
