"""What a text costs at each level, as a line over its tokens."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from inference.hplm.context_mixer import ContextMixer
from inference.hplm.heads import Head
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.text.tasks import CLASSIFICATION
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import NullReporter, dataset
from workers.training.cascade import costs
from workers.training.cascade.costs import fit_cost, measure_costs, text_costs
from workers.training.datasets import read_examples
from workers.training.precision import configure_torch
from workers.training.prepared_split import Backbone, prepare_split
from workers.training.task_model import TaskModel
from workers.training.tasks import task_kind


def test_the_line_is_that_of_the_measured_lengths() -> None:
    tokens = np.asarray([10.0, 20.0, 60.0])
    found = fit_cost(tokens, 0.5 + 0.1 * tokens)
    assert (found.fixed, found.per_token) == pytest.approx((0.5, 0.1))


@pytest.mark.parametrize("milliseconds", [[1.0, 3.0, 12.0], [3.0, 2.0, 1.0], [2.0, 2.0, 2.0]])
def test_no_part_of_a_cost_is_negative(milliseconds: list[float]) -> None:
    found = fit_cost(np.asarray([10.0, 20.0, 60.0]), np.asarray(milliseconds))
    assert min(found.fixed, found.per_token) >= 0


@pytest.mark.parametrize("number_format", ["float32", "bfloat16"])
def test_each_level_is_computed_as_it_is_served_on_one_thread(
    branch: Branch,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    number_format: str,
) -> None:
    """By a clock that gives the level TABLE one second for a batch, and the level FULL three."""
    files = dataset(tmp_path_factory.mktemp("rows"), CLASSIFICATION, train=40)
    precision = configure_torch(device="cpu", precision=number_format, seed=0)
    backbone = Backbone.open(branch.root, [branch.plot], precision, branch.lower)
    config = backbone.root.config
    kind = task_kind(CLASSIFICATION)
    examples = read_examples(files.train, CLASSIFICATION)
    kind.fit(examples)
    pet = PetWeights.initial(
        PetSpec(lora=4), UpperShape(config.upper, config.hidden, config.architecture.inner)
    )
    model = TaskModel(pet, Head.initial(len(kind.labels), config.hidden, pooling="cls_mean"))
    split = prepare_split(examples, kind, backbone, NullReporter())
    threads, found = torch.get_num_threads(), list[tuple[int, str]]()
    mixed, mix = set[torch.dtype](), ContextMixer.forward
    seconds = iter([1.0, 3.0] * 1000)

    def seconds_of(compute: Callable[[], None], device: torch.device) -> float:
        compute()
        found.append((torch.get_num_threads(), device.type))
        return next(seconds)

    def recorded(mixer: ContextMixer, *given: Any) -> torch.Tensor:
        mixed.add(mixer.dtype)
        return mix(mixer, *given)

    monkeypatch.setattr(costs, "_seconds", seconds_of)
    monkeypatch.setattr(ContextMixer, "forward", recorded)
    measured = measure_costs(model, backbone, split)
    assert mixed == {precision.dtype}
    assert set(found) == {(1, "cpu")}
    assert torch.get_num_threads() == threads
    table, full = text_costs(measured, [len(one) for one in split.sequences]).mean(axis=0)
    assert table == pytest.approx(1000 / costs.BATCH)
    assert full == pytest.approx(3000 / costs.BATCH)
