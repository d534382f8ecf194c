"""A model's outputs for pruned texts are those that serving computes."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from inference.cascade.dispatcher import Level
from inference.cascade.pruning import kept_tokens
from inference.hplm.attention import attention_received
from inference.hplm.heads import Head
from inference.hplm.lower_states import compute_lower_states
from inference.hplm.pet_batch import SharedPets
from inference.hplm.pets import PetSpec, PetWeights, UpperShape
from inference.hplm.sequences import PackedSequences
from inference.text.tasks import CLASSIFICATION
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import NullReporter, dataset
from workers.training.cascade.outputs import OutputsByLevel, read_both_levels
from workers.training.datasets import read_examples
from workers.training.precision import configure_torch
from workers.training.prepared_split import Backbone, prepare_split
from workers.training.task_model import TaskModel
from workers.training.tasks import task_kind


@dataclass(frozen=True)
class Read:
    """A model that nobody trained, and what it gives for a few texts."""

    backbone: Backbone
    model: TaskModel
    outputs: OutputsByLevel

    def pruned(self, pruning: float) -> OutputsByLevel:
        return self.outputs.pruned_by(pruning)


@pytest.fixture(scope="module")
def read(branch: Branch, tmp_path_factory: pytest.TempPathFactory) -> Read:
    files = dataset(tmp_path_factory.mktemp("rows"), CLASSIFICATION, train=40)
    precision = configure_torch(device="cpu", precision="float32", seed=0)
    backbone = Backbone.open(branch.root, [branch.plot], precision, branch.lower)
    config, generator = backbone.root.config, torch.Generator().manual_seed(0)
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    kind = task_kind(CLASSIFICATION)
    examples = read_examples(files.train, CLASSIFICATION)
    kind.fit(examples)
    pet = PetWeights.initial(PetSpec(lora=4), shape, generator=generator)
    head = Head.initial(len(kind.labels), config.hidden, pooling="cls_mean", generator=generator)
    model = TaskModel(pet, head)
    split = prepare_split(examples, kind, backbone, NullReporter(), modes=["table", "full"])
    return Read(backbone, model, read_both_levels(model, backbone, split, kind, NullReporter()))


def logits(outputs: OutputsByLevel) -> np.ndarray:
    return np.stack([values for _, values in outputs.sequences(Level.FULL)])


def test_without_pruning_they_are_those_of_whole_texts(read: Read) -> None:
    found = read.pruned(0.0)
    np.testing.assert_array_equal(logits(found), logits(read.outputs))
    assert found.table is read.outputs.table


@torch.no_grad()
def test_the_upper_layers_read_the_kept_tokens_of_the_whole_text(read: Read) -> None:
    root, config = read.backbone.root, read.backbone.root.config
    pets = SharedPets(read.model.trained_pet().weights)
    head, pruned, seen = read.model.trained_head(), 0.95, 0
    for (encoding, found), (_, whole) in zip(
        read.pruned(pruned).sequences(Level.FULL), read.outputs.sequences(Level.FULL), strict=True
    ):
        alone = PackedSequences((len(encoding),))
        states = {
            level: compute_lower_states([encoding.ids], [read.backbone.lower_layers], [level]).states
            for level in Level
        }
        layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        root.upper(states[Level.TABLE].half(), alone, pets, queries_keys=layers)
        importance = attention_received(layers, config.architecture.heads).numpy()
        kept = kept_tokens(importance, encoding.words, pruned)
        at_cut = states[Level.FULL].half()[torch.from_numpy(kept)]
        last = root.upper(at_cut, PackedSequences((len(at_cut),)), pets)
        expected = head.apply(torch.cat([last[0], last.mean(0)])).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-4)
        seen += not np.allclose(whole, expected, atol=1e-4)
    assert seen, "some texts are pruned"
