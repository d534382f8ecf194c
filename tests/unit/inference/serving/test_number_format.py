"""Numbers as people write them."""

import pytest

from inference.number_format import format_number, format_seconds


@pytest.mark.parametrize(
    ("value", "told"),
    [(9.54e-07, "0"), (0.0104, "0.01"), (2.0, "2"), (1234.5678, "1234.568"), (10.0**7, "10000000")],
)
def test_a_number_has_no_exponent(value: float, told: str) -> None:
    assert format_number(value) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(9.54e-07, "less than 0.001 s"), (0.001, "0.001 s"), (30.0, "30 s")]
)
def test_what_would_round_to_nothing_is_told_as_less(seconds: float, told: str) -> None:
    assert format_seconds(seconds) == told
