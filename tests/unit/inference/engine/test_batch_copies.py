"""A batch of an encoder on a GPU: its copies and waits do not grow with models, layers, chains or options,
and its answers are those of a CPU."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from inference.cascade.dispatcher import Level
from inference.engine.executor import Executor
from inference.engine.rows import Answered, Row
from tests.pretended_cuda import PretendedCuda, pretended_cuda
from tests.unit.inference.engine.worlds import EngineWorld, answered
from tests.unit.tiny import tiny_hplm
from workers.training.search import FineTuneSettings

MOST_COPIES, MOST_WAITS = 6, 2
MOST_LAUNCHES = 400
"""Of ten rows of ten models, three upper layers. Whoever saves some lowers it."""
MOST_LAUNCHES_OF_DEFAULTS = 400
"""Of 32 rows of 32 models with the default PET, three upper layers."""
CUDA = torch.device("cuda:0")


def rows_of(world: EngineWorld, models: int, change: Callable[[int, Row], Row]) -> list[Row]:
    return [change(at, world.row(at, f"the text number {at} of all")) for at in range(models)]


def second_batch(executor: Executor, rows: Sequence[Row], cuda: PretendedCuda) -> list[Answered]:
    """The answers of a batch whose models the GPU knows, the only one that it has noted."""
    executor.step(rows)
    cuda.clear()
    return answered(executor, *rows)


def plain(_: int, row: Row) -> Row:
    return row


def embedded(_: int, row: Row) -> Row:
    return replace(row, embed=True)


def both_levels(at: int, row: Row) -> Row:
    return replace(row, level=Level.FULL if at % 3 == 0 else Level.TABLE, embed=at % 2 == 0)


def in_full(_: int, row: Row) -> Row:
    return replace(row, level=Level.FULL)


@pytest.mark.parametrize(
    ("capability", "dtype"), [((9, 0), torch.bfloat16), ((7, 5), torch.float16), ((9, 0), torch.float32)]
)
@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("change", [plain, embedded, both_levels])
def test_a_batch_copies_and_waits_a_few_times_whatever_is_asked_for(
    world: EngineWorld,
    change: Callable[[int, Row], Row],
    hot: bool,
    capability: tuple[int, int],
    dtype: torch.dtype,
) -> None:
    rows = rows_of(world, 10, change)
    expected = world.executor().step(rows)
    with pretended_cuda(capability=capability) as cuda:
        answers = second_batch(world.executor(dtype, device=CUDA, hot=hot), rows, cuda)
    assert len(cuda.copies) <= MOST_COPIES, cuda.copies
    assert len(cuda.waits) <= MOST_WAITS, cuda.waits
    assert len(cuda.launches) <= MOST_LAUNCHES, len(cuda.launches)
    for own, theirs in zip(answers, expected, strict=True):
        assert isinstance(theirs, Answered)
        np.testing.assert_allclose(own.logits, theirs.logits, atol=0.2)


def test_the_default_pets_of_many_models_are_a_few_launches_together(tmp_path: Path) -> None:
    """The products of each model alone would be some 2,500."""
    default = FineTuneSettings().spec
    world = EngineWorld(
        tmp_path, lambda root: [tiny_hplm(root, "classification", spec=default, seed=n) for n in range(32)]
    )
    rows = rows_of(world, 32, plain)
    expected = world.executor().step(rows)
    with pretended_cuda() as cuda:
        answers = second_batch(world.executor(torch.float32, device=CUDA), rows, cuda)
    assert len(cuda.launches) <= MOST_LAUNCHES_OF_DEFAULTS, len(cuda.launches)
    for own, theirs in zip(answers, expected, strict=True):
        assert isinstance(theirs, Answered)
        np.testing.assert_allclose(own.logits, theirs.logits, atol=1e-3)


@pytest.mark.parametrize("capability", [(7, 5), (9, 0)])
def test_copies_do_not_grow_with_chains(world: EngineWorld, capability: tuple[int, int]) -> None:
    rows = rows_of(world, 10, in_full)
    of_one_chain = [row for row in rows if row.chain == rows[0].chain]
    assert len({row.chain for row in rows}) > 1
    noted = []
    with pretended_cuda(capability=capability) as cuda:
        executor = world.executor(torch.float16, device=CUDA)
        for batch in (of_one_chain, rows):
            second_batch(executor, batch, cuda)
            noted.append((len(cuda.copies), len(cuda.waits)))
    assert noted[0] == noted[1]


def test_copies_do_not_grow_with_layers(world: EngineWorld, tmp_path: Path) -> None:
    deeper = EngineWorld(tmp_path, layers=6)
    noted = []
    for each in (world, deeper):
        with pretended_cuda() as cuda:
            second_batch(each.executor(torch.bfloat16, device=CUDA), rows_of(each, 4, both_levels), cuda)
            noted.append((len(cuda.copies), len(cuda.waits)))
    assert noted[0] == noted[1]
