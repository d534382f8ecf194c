"""Colours and spaces are named in one sheet of the pages, and in one of the administration."""

import re
from pathlib import Path

import pytest
from django.conf import settings

COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b|\b(?:rgba?|hsla?|oklch|light-dark)\(")
SPACE = re.compile(r"\b(?:padding|margin|gap)[\w-]*:[^;{}]*?(?<![\w.-])[\d.]+rem")
COMPUTED = re.compile(r"\bcalc\(.*\)")
SHEETS = {"frontend/static/frontend": "variables.css", "hmi_site/static/hmi_site": "palette.css"}


def found(rule: re.Pattern[str], folder: str) -> list[str]:
    sheets = sorted(Path(settings.BASE_DIR, folder).glob("*.css"))
    assert SHEETS[folder] in [sheet.name for sheet in sheets]
    return [
        f"{sheet.name}:{number}: {line.strip()}"
        for sheet in sheets
        if sheet.name != SHEETS[folder]
        for number, line in enumerate(sheet.read_text().splitlines(), 1)
        if rule.search(COMPUTED.sub("", line))
    ]


@pytest.mark.parametrize("folder", SHEETS)
def test_colours_are_written_in_one_sheet(folder: str) -> None:
    assert found(COLOUR, folder) == []


def test_spaces_are_too() -> None:
    assert found(SPACE, "frontend/static/frontend") == []
