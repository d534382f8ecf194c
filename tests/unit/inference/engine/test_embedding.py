"""The mean of a row's final states, where that is asked for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.engine.executor import Executor
from inference.engine.rows import Answered, Row
from inference.hplm.heads import Head
from inference.text.tasks import CLASSIFICATION
from tests.reference_hplm import reference_outputs
from tests.unit.inference.engine.numerics import DTYPES, STATES, TOLERANCES, rounding
from tests.unit.inference.engine.worlds import EngineWorld
from tests.unit.tiny import LAYERS, WORDS

texts = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def executor(request: pytest.FixtureRequest, shared_world: EngineWorld) -> Executor:
    return shared_world.executor(request.param)


def mean_alone(world: EngineWorld, row: Row) -> NDArray[np.float32]:
    """What the reference gives to a head that hands on the mean alone."""
    hplm, width = world.hplm(row), world.tiny.root.config.hidden
    weight = torch.cat([torch.zeros(width, width), torch.eye(width)], dim=1)
    head, labels = Head(weight, torch.zeros(width), "cls_mean"), tuple(map(str, range(width)))
    handing_on = replace(hplm, task=CLASSIFICATION, labels=labels, head=head)
    return reference_outputs(world.tiny.root, world.chains[row.chain], handing_on, row.ids, row.types)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(mix=st.lists(st.tuples(st.integers(0, 9), texts, st.booleans()), min_size=1, max_size=8))
def test_it_is_the_references_whatever_else_is_in_the_batch(
    executor: Executor, shared_world: EngineWorld, mix: list[tuple[int, str, bool]]
) -> None:
    rows = [replace(shared_world.row(number, text), embed=embed) for number, text, embed in mix]
    tolerance = TOLERANCES[STATES].largest * rounding(executor.root.upper.dtype, LAYERS)
    for outcome in executor.step(rows):
        assert isinstance(outcome, Answered)
        assert (outcome.mean is not None) is outcome.row.embed
        if outcome.mean is not None:
            assert np.abs(outcome.mean - mean_alone(shared_world, outcome.row)).max() < tolerance


def test_each_hplm_sees_a_text_its_own_way(shared_world: EngineWorld) -> None:
    rows = [shared_world.row(number, "the river stone") for number in range(10)]
    assert len({mean_alone(shared_world, row).tobytes() for row in rows}) == 10
