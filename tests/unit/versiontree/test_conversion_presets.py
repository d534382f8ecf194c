"""The tokens of a conversion by the size of the checkpoint."""

import pytest

from versiontree.job_settings import (
    ConversionTokens,
    EncoderConversionSettings,
    conversion_cost,
    conversion_work,
)

DEFAULTS = EncoderConversionSettings()
MEASURED_MINUTES, CORES = (14, 30), 2
"""Processor time of the measured checkpoint's conversion on two machines."""


@pytest.mark.parametrize(("layers", "hidden"), [(6, 384), (12, 384), (6, 512), (4, 128)])
def test_small_checkpoints_are_converted_with_the_measured_tokens(layers: int, hidden: int) -> None:
    assert DEFAULTS.tokens_for(layers, hidden) == ConversionTokens(distil=700_000, mixer=150_000)


@pytest.mark.parametrize(("layers", "hidden", "hours"), [(12, 768, 1.2), (22, 768, 1.2), (24, 1024, 2.2)])
def test_larger_checkpoints_are_converted_within_hours_on_two_cores(
    layers: int, hidden: int, hours: float
) -> None:
    work = conversion_work(layers, hidden, DEFAULTS.tokens_for(layers, hidden))
    assert work < conversion_cost(layers, hidden)
    assert work * max(MEASURED_MINUTES) / CORES / 60 <= hours


def test_tokens_that_are_set_replace_the_preset_also_by_none() -> None:
    chosen = EncoderConversionSettings(distil_tokens=0, mixer_tokens=5)
    assert chosen.tokens_for(12, 768) == ConversionTokens(distil=0, mixer=5)
    assert EncoderConversionSettings(distil_tokens=0).tokens_for(12, 768).mixer == 100_000


def test_the_default_conversion_of_the_measured_checkpoint_is_the_unit_of_work() -> None:
    assert conversion_work(6, 384, DEFAULTS.tokens_for(6, 384)) == pytest.approx(1.0)
