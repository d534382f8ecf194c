"""Cells of CSV files that a spreadsheet would run are text there."""

import csv
import io

import pytest

from tenants.base.csv_files import csv_chunks

FORMULAS = [
    *("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1"),
    *("＝1+1", "＋1", "－1", "＠SUM(1)"),
    *("﹦1", "﹢1", "﹣1", "﹫SUM(1)", "⁼1", "₊1", "−1"),
    *(" =1", "\u00a0=1", "\u3000＝1", "\u200b=1", "\ufeff=1", "\x00=1", "\x0b\x0c=1"),
]
TEXTS = ["", " ", "a=1", "1-1", "a\n=1", "'=1", "a＝1", "#1", "–", "é"]


def cells(*values: object) -> list[str]:
    """The values as they are read from a file."""
    content = b"".join(csv_chunks(["first", "second"], [values])).decode("utf-8-sig")
    return list(csv.reader(io.StringIO(content, newline="")))[1]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_cell_that_a_spreadsheet_takes_for_a_formula_is_escaped(formula: str) -> None:
    assert cells("a", formula) == ["a", f"'{formula}"]


@pytest.mark.parametrize("text", TEXTS)
def test_other_texts_are_as_they_were(text: str) -> None:
    assert cells(text, "a") == [text, "a"]


def test_numbers_stay_numbers() -> None:
    assert cells(-1, -0.5) == ["-1", "-0.5"]
