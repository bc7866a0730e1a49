"""`vivace try` as it is typed: what it prints where, and its exit status."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from orchestrator.cli.main import main, run

ROOT = Path(__file__).resolve().parents[4]
READINGS = str(ROOT / "examples" / "http" / "readings.csv")
HOT = "RSTREAM(SELECT sensor, celsius FROM readings [NOW] WHERE celsius >= 30)"
ROWS = "_ts,sensor,celsius\n1782907201000,roof,30.1\n1782907203000,roof,31.4\n"


def test_rows_go_to_standard_output_and_the_rest_to_standard_error(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert run(["try", HOT, "--input", f"readings={READINGS}"]) == 0
    out, err = (each.decode() for each in capfdbinary.readouterr())
    assert out == ROWS
    assert re.sub(r"[0-9.]+ s\n", "0.00 s\n", err) == (
        f"readings: sensor string, celsius float; timestamp at (iso), as the first rows of "
        f"{READINGS} show\nreadings 4 tuples → query 2 rows in 0.00 s\n"
    )


def test_rows_that_are_not_as_expected_are_shown(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    expected = tmp_path / "expected.csv"
    expected.write_text(ROWS.replace("31.4", "31.5"), encoding="utf-8")
    assert run(["try", HOT, "-i", READINGS, "--expect", str(expected)]) == 1
    out, err = (each.decode() for each in capfdbinary.readouterr())
    assert out == ""
    assert err.endswith(
        "✗ query: of 2 rows 1 are missing, and of 2 that came 1 should not be there\n"
        "  missing     2026-07-01 12:00:03.000  sensor roof, celsius 31.5\n"
        "  unexpected  2026-07-01 12:00:03.000  sensor roof, celsius 31.4\n"
    )


def test_an_error_has_its_place_and_status_2(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["try", HOT.replace("celsius >=", "celcius >="), "-i", READINGS]) == 2
    assert b"error: the statement: line 1, column 58: readings has no column celcius" in (
        capfdbinary.readouterr().err
    )


def test_a_document_shares_standard_output_with_no_rows(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert run(["try", HOT, "-i", READINGS, "--json", "--output", "-"]) == 2
    assert b"Name a file" in capfdbinary.readouterr().out


def test_a_full_disk_is_no_bug(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    words = ["try", HOT, "-i", READINGS, "--output", "/dev/full", "--output-format", "csv"]
    assert run(words) == 2
    told = capfdbinary.readouterr().err
    assert b"output: cannot be written (No space left on device). Make room" in told


def test_standard_streams_that_are_closed_are_empty(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    monkeypatch.setattr("sys.argv", ["vivace", "try", HOT, "-i", "-"])
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="2"):
        main()
    signal.signal(signal.SIGTERM, handler)
    assert b"error: -: readings: it is empty. Correct the file" in capfdbinary.readouterr().err
