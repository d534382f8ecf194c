"""Encoders on a GPU: every level, kind of PET and kind of head answers as the reference on the CPU does."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from inference.cascade.dispatcher import Level
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Answered
from inference.hplm.heads import HeadLayer
from inference.hplm.hplm import Hplm
from inference.hplm.lower_states import compute_lower_states
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.root import Root
from tests.unit.inference.engine.numerics import (
    DISAGREEMENT,
    LOGITS,
    TOLERANCES,
    Sample,
    every_kind,
    rounding,
)
from tests.unit.inference.engine.worlds import EngineWorld, all_rows, answered, scale_of, states_alone
from tests.unit.tiny import LAYERS, SPECS, tiny_hplm, tiny_texts


def every_kind_of_head(root: Root) -> list[Hplm]:
    """Models with each kind of PET, and each kind of head, among them heads with a hidden layer."""
    hidden, generator = root.config.hidden, torch.Generator().manual_seed(0)
    plain = [tiny_hplm(root, spec=spec, seed=100 + seed) for seed, spec in enumerate(SPECS)]
    weights = [torch.randn(hidden, hidden, generator=generator) / hidden**0.5 for _ in plain]
    inner = [HeadLayer(weight, torch.zeros(hidden), "tanh") for weight in weights]
    return [
        *every_kind(root),
        *(replace(one, head=replace(one.head, inner=own)) for one, own in zip(plain, inner, strict=True)),
    ]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Rows of all models at all levels, and what is right."""
    world = EngineWorld(tmp_path_factory.mktemp("kinds"), every_kind_of_head)
    return Sample(world, 4 * len(world.tiny.hplms))


def test_every_level_and_kind_is_as_exact_as_rounding_allows(
    device: torch.device, sample: Sample, dtype: torch.dtype
) -> None:
    unit = rounding(dtype, LAYERS)
    errors = sample.errors(sample.world.executor(dtype, device=device))
    for kind, allowed in TOLERANCES.items():
        found = errors.of(kind)
        assert found.rms < allowed.rms * unit, kind
        assert found.largest < allowed.largest * unit, kind
    assert errors.disagreement < DISAGREEMENT * unit


def test_batches_that_overlap_are_as_exact_although_pets_come_and_go(
    device: torch.device, sample: Sample, dtype: torch.dtype
) -> None:
    """Copies on a stream of their own, and memory that is given to others while batches compute."""
    pipeline, rows = Pipeline(Pipelining()), [*zip(sample.rows, sample.expected, strict=True)]
    world = sample.world
    executor = world.executor(dtype, device=device, pipeline=pipeline, pet_bytes=1)
    batches = [rows[at::8] for at in range(8)] * 4
    begun = [executor.begin([row for row, _ in batch]) for batch in batches]
    for batch, flight in zip(batches, begun, strict=True):
        for (row, expected), outcome in zip(batch, executor.finish(flight), strict=True):
            assert isinstance(outcome, Answered), outcome
            error = np.abs(outcome.logits - expected).max() / scale_of(world.hplm(row).head)
            assert error < TOLERANCES[LOGITS].largest * rounding(dtype, LAYERS)
    pipeline.close()


def test_a_row_gets_the_same_numbers_in_any_company_up_to_rounding(
    device: torch.device, sample: Sample, dtype: torch.dtype
) -> None:
    executor, rows = sample.world.executor(dtype, device=device), sample.rows[:24]
    together, reversed_order = answered(executor, *rows), answered(executor, *rows[::-1])[::-1]
    alone = [one for row in rows for one in answered(executor, row)]
    # Both sides are rounded.
    allowed = 2 * TOLERANCES[LOGITS].largest * rounding(dtype, LAYERS)
    for row, expected, *others in zip(rows, alone, together, reversed_order, strict=True):
        scale = scale_of(sample.world.hplm(row).head)
        assert all(np.abs(other.logits - expected.logits).max() < allowed * scale for other in others)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("hot", [False, True])
def test_states_at_the_cut_are_those_of_each_text_alone(
    device: torch.device, sample: Sample, level: Level, hot: bool
) -> None:
    """With and without rows of the tables that stay on the device."""
    world, [*chains] = sample.world, sample.world.chains.values()
    full = world.tiny.root.checkpoint_lower()
    halves = [LowerLayers(chain, full) for chain in chains]
    there = [
        LowerLayers(
            chain,
            deepcopy(full).to(device),
            chain.composition.to(device),
            device,
            [all_rows(table, device) for table in chain.tables] if hot else (),
        )
        for chain in chains
    ]
    ids = [world.tiny.root.tokenizer.encode(text).ids for text in tiny_texts(12)]
    types = [np.zeros_like(row) for row in ids]
    places = [at % len(chains) for at in range(len(ids))]
    found = compute_lower_states(ids, [there[at] for at in places], [level] * len(ids), types)
    states = found.sequences.split(found.states)
    for at, own in enumerate(ids):
        expected = states_alone(halves[places[at]], own, types[at], level)
        torch.testing.assert_close(states[at].cpu(), expected, atol=1e-4, rtol=1e-4)
