"""Figures of a day beside those of the dev split."""

from typing import Any

import pytest

from inference.api.drift import figures
from inference.cascade.dispatcher import Coverage
from inference.cascade.profile import Bin, Candidate, CascadeProfile, LevelProfile
from tenants.usage.models import AnswerDay

TABLE = LevelProfile(0.8, 1.0, bins=(Bin(30, 0.5, 0.5), Bin(10, 0.9, 0.9)))
FULL = LevelProfile(0.9, 2.0, bins=(Bin(40, 0.8, 0.8),))
CANDIDATES = (Candidate(0.5, 10.0, 0.5, 0.85, 0.25, 1.5),)
PROFILE = CascadeProfile("classes", TABLE, FULL, CANDIDATES, 0, coverage=Coverage(60, 30, 10))
DAY = AnswerDay(
    texts=100,
    table_texts=100,
    confidence=70.0,
    cascade_texts=80,
    escalated_texts=40,
    whole=50,
    part=25,
    unigram=25,
)


def told(day: AnswerDay, profile: CascadeProfile = PROFILE) -> dict[str, Any]:
    return {each.name: (each.served, each.dev, each.texts) for each in figures(day, profile)}


def test_each_figure_has_its_own_number_of_texts() -> None:
    assert told(DAY) == {
        "confidence": (pytest.approx(0.7), pytest.approx(0.6), 100),
        "escalated": (pytest.approx(0.5), pytest.approx(0.25), 80),
        "whole fragments": (pytest.approx(0.5), pytest.approx(0.6), 100),
    }


def test_the_confidence_on_dev_is_that_of_the_levels_which_read_the_texts() -> None:
    half = AnswerDay(texts=100, table_texts=50, confidence=70.0)
    assert told(half) == {"confidence": (pytest.approx(0.7), pytest.approx(0.7), 100)}
    full = AnswerDay(texts=100, confidence=70.0)
    assert told(full)["confidence"][1] == pytest.approx(0.8)


def test_what_either_side_does_not_know_has_no_band() -> None:
    plain = LevelProfile(0.8, 1.0)
    numbers = CascadeProfile("number", plain, plain, CANDIDATES, 0)
    assert told(DAY, numbers).keys() == {"escalated"}
    assert told(AnswerDay(texts=100, table_texts=100)) == {}
    assert "whole fragments" not in told(DAY, CascadeProfile("classes", TABLE, FULL, CANDIDATES, 0))
