"""The catalogue of errors has every code, with the status that it really has."""

import re
from pathlib import Path

from inference.openai.errors import CODES
from tenants.base.errors import HTTP_STATUS

CATALOGUE = Path(__file__).resolve().parents[2] / "docs/errors.md"
ROW = re.compile(r"^\| `(\w+)` \| (\d+) \| (\S.*?) \| (\S.*?) \|$", re.M)

THEIR_ROW = re.compile(r"^\| `(\w+)` \| `(\w+)`[^|]* \|$", re.M)


def test_every_code_is_there_once_with_its_status_a_cause_and_a_cure() -> None:
    rows = ROW.findall(CATALOGUE.read_text(encoding="utf-8"))
    told = [(code, int(status)) for code, status, _, _ in rows]
    assert sorted(told) == sorted((code.value, status) for code, status in HTTP_STATUS.items())


def test_the_words_of_v1_stand_beside_those_that_they_are_for() -> None:
    told = THEIR_ROW.findall(CATALOGUE.read_text(encoding="utf-8"))
    theirs = {word: code.value for code, word in CODES.items()} | {"model_not_found": "not_found"}
    assert sorted(told) == sorted(theirs.items())
