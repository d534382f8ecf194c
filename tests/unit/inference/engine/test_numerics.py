"""In every number format answers are as exact as rounding allows, and every part of a PET counts in full."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from inference.engine.rows import Failed, Row
from inference.hplm.hplm import Hplm
from tests.reference_hplm import lookup_states, outputs_from_states
from tests.unit.inference.engine.numerics import (
    DISAGREEMENT,
    DTYPES,
    LOGITS,
    PARTS,
    STRENGTH,
    TOLERANCES,
    Sample,
    Values,
    every_kind,
    of_each_part,
    rounding,
    run,
    stronger,
)
from tests.unit.inference.engine.worlds import EngineWorld
from tests.unit.tiny import LAYERS, tiny_texts

pytestmark = pytest.mark.slow

number_formats = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Of a root of twice as many layers as others, of which two are looked up or computed below the cut."""
    return Sample(EngineWorld(tmp_path_factory.mktemp("kinds"), every_kind, layers=2 * LAYERS), 252)


@number_formats
def test_answers_are_as_exact_as_rounding_allows(sample: Sample, dtype: torch.dtype) -> None:
    unit = rounding(dtype, sample.world.tiny.root.config.architecture.layers)
    errors = sample.errors(sample.world.executor(dtype))
    for kind, allowed in TOLERANCES.items():
        found = errors.of(kind)
        assert found.rms < allowed.rms * unit, kind
        assert found.largest < allowed.largest * unit, kind
    assert errors.disagreement < DISAGREEMENT * unit


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> "Parts":
    return Parts(EngineWorld(tmp_path_factory.mktemp("parts"), of_each_part))


@number_formats
def test_every_part_of_a_pet_counts_in_full(parts: "Parts", dtype: torch.dtype) -> None:
    """Rounding errors point anywhere, so that over many rows little of them points where the part's effect
    does; a part that is scaled by 1.01 shows in bfloat16 too, which keeps two digits."""
    excess = parts.excess(dtype)
    assert max(map(abs, excess.values())) < STRENGTH * rounding(dtype, LAYERS), excess


class Parts:
    """Rows of models whose PETs have one part each, what is right, and what more of that part would
    change."""

    def __init__(self, world: EngineWorld, texts: int = 12) -> None:
        hplms, drawn = len(world.tiny.hplms), tiny_texts(texts, longest=40)
        self._world = world
        self._rows = [world.row(number, text) for number in range(hplms) for text in drawn]
        self._names = [name for name in PARTS for _ in range(len(self._rows) // len(PARTS))]
        self._states = {
            (row.chain, row.key): lookup_states(world.chains[row.chain], row.ids, row.types)
            for row in self._rows[: 2 * texts]  # every other model has the same chain
        }
        self._expected = [self._outputs(row, world.hplm(row)) for row in self._rows]
        self._effects = [self._effect(at) for at in range(len(self._rows))]

    def excess(self, dtype: torch.dtype) -> dict[str, float]:
        """By part, by how much of itself its effect is too large (least squares over its rows)."""
        along, of_all = dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0.0)
        outcomes: Any = run(self._world.executor(dtype), self._rows)
        for name, outcome, expected, effect in zip(
            self._names, outcomes, self._expected, self._effects, strict=True
        ):
            along[name] += float(np.vdot(outcome.logits - expected, effect))
            of_all[name] += float(np.vdot(effect, effect))
        return {name: along[name] / of_all[name] for name in PARTS}

    def _effect(self, at: int, by: float = 0.01) -> Values:
        """How the states change with the part's strength."""
        row = self._rows[at]
        changed = self._outputs(row, stronger(self._world.hplm(row), by))
        effect: Values = (changed - self._expected[at]) / by
        return effect

    def _outputs(self, row: Row, hplm: Hplm) -> Values:
        """What is right for the row, if it asked this model."""
        return outputs_from_states(self._world.tiny.root, hplm, self._states[row.chain, row.key])


NONE, TOO_LARGE = float("nan"), 7e4
"""No number, and one that bfloat16 holds and float16 does not."""


@number_formats
@pytest.mark.parametrize("number", [NONE, TOO_LARGE])
def test_a_number_that_a_format_cannot_hold_fails_its_tenants_rows_alone(
    world: EngineWorld, dtype: torch.dtype, number: float
) -> None:
    """Though other rows of the batch have PETs of the same layout, which are multiplied together with it."""
    bad, twin = world.tiny.hplms[0], world.tiny.hplms[5]
    assert bad.model.pet.spec == twin.model.pet.spec
    weights = {name: value.clone() for name, value in bad.model.pet.weights.items()}
    weights["adapter.up_b"][0, 3] = number
    spoilt = replace(bad.model, pet=replace(bad.model.pet, weights=weights))
    world.replaced[bad.digest] = spoilt
    mix = (5, 0, 1, 0, 2, 5)
    outcomes = world.executor(dtype).step([world.row(number, "the river") for number in mix])
    failing = math.isnan(number) or dtype == torch.float16
    assert [isinstance(outcome, Failed) for outcome in outcomes] == [failing and n == 0 for n in mix]
    good = [outcome for outcome in outcomes if outcome.row.model.digest != bad.digest]
    assert max(world.differences(good)) < TOLERANCES[LOGITS].largest * rounding(dtype, LAYERS)
