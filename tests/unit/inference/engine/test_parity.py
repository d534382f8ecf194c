"""Whatever is mixed in a batch, each row gets what its model would say alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from inference.cascade.dispatcher import Level
from inference.engine.executor import Executor
from inference.engine.rows import Answered, Row
from inference.hplm.heads import Head
from inference.text.tasks import CLASSIFICATION
from tests.reference_hplm import reference_outputs
from tests.unit.inference.engine.numerics import DTYPES, LOGITS, STATES, TOLERANCES, rounding
from tests.unit.inference.engine.worlds import EngineWorld
from tests.unit.tiny import LAYERS, WORDS

known = st.lists(st.sampled_from(WORDS), max_size=80).map(" ".join)
anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=120)
mixes = st.lists(
    st.tuples(st.integers(0, 9), known | anything, st.sampled_from(Level)), min_size=1, max_size=12
)


@pytest.fixture(scope="module", params=DTYPES, ids=str)
def executor(request: pytest.FixtureRequest, shared_world: EngineWorld) -> Executor:
    return shared_world.executor(request.param)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(mix=mixes)
def test_any_mix_of_rows_equals_the_reference(
    executor: Executor, shared_world: EngineWorld, mix: list[tuple[int, str, Level]]
) -> None:
    """Of tenants, domains, tasks, PETs, heads, pairs, and levels."""
    outcomes = executor.step([shared_world.row(number, text, level) for number, text, level in mix])
    assert [outcome.row.key for outcome in outcomes] == [text for _, text, _ in mix]
    unit = rounding(executor.root.upper.dtype, LAYERS)
    assert max(shared_world.differences(outcomes)) < TOLERANCES[LOGITS].largest * unit


def test_the_reference_tells_hplms_chains_and_texts_apart(shared_world: EngineWorld) -> None:
    """Or else the test above would prove little."""
    rows = [shared_world.row(number, "the river stone") for number in range(10)]
    firsts = {shared_world.expected(row).tobytes() for row in rows}
    assert len(firsts) == 10
    row = rows[1]
    other = shared_world.expected(shared_world.row(1, "the river light"))
    assert abs(other - shared_world.expected(row)).max() / abs(other).max() > 0.2


def mean_alone(world: EngineWorld, row: Row) -> NDArray[np.float32]:
    """What the reference gives to a head that hands on the mean alone."""
    hplm, width = world.hplm(row), world.tiny.root.config.hidden
    weight = torch.cat([torch.zeros(width, width), torch.eye(width)], dim=1)
    head, labels = Head(weight, torch.zeros(width), "cls_mean"), tuple(map(str, range(width)))
    handing_on = replace(hplm, task=CLASSIFICATION, labels=labels, head=head)
    return reference_outputs(world.tiny.root, world.chains[row.chain], handing_on, row.ids, row.types)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(mix=st.lists(st.tuples(st.integers(0, 9), known, st.booleans()), min_size=1, max_size=8))
def test_embedding_is_the_mean_of_final_states_at_length_one_whatever_else_is_in_the_batch(
    executor: Executor, shared_world: EngineWorld, mix: list[tuple[int, str, bool]]
) -> None:
    rows = [replace(shared_world.row(number, text), embed=embed) for number, text, embed in mix]
    tolerance = TOLERANCES[STATES].largest * rounding(executor.root.upper.dtype, LAYERS)
    for outcome in executor.step(rows):
        assert isinstance(outcome, Answered)
        assert (outcome.embedding is not None) is outcome.row.embed
        if outcome.embedding is not None:
            mean = mean_alone(shared_world, outcome.row)
            length = np.linalg.norm(mean)
            assert np.abs(outcome.embedding - mean / length).max() < tolerance / length
