"""The methods of the accuracy benchmark learn what they are named after, and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.accuracy.methods import (
    DEDICATED,
    PLOT,
    FullModel,
    Inputs,
    Method,
    TokenSplit,
    evaluate_full,
    train_full,
)
from inference.hplm.heads import Head
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.conftest import branch as branch
from tests.unit.workers.training.world import NullReporter, contents, dataset
from workers.training.search import FineTuneSettings

SMALL = FineTuneSettings(
    precision="float32", learning_rate=3e-3, epochs=3, min_steps=0, patience=9, full_context_share=0.0
)


@pytest.mark.parametrize("method", [DEDICATED, PLOT], ids=lambda method: method.name)
def test_a_model_of_its_own_learns_and_leaves_the_root_alone(
    branch: Branch, tmp_path: Path, method: Method
) -> None:
    files = dataset(tmp_path, "classification")
    inputs = Inputs(branch.root, branch.lower, [branch.plot], files, "classification")
    before = contents(branch.root, branch.lower, branch.plot)
    settings, out = replace(SMALL, lower_mode=method.settings(0).lower_mode), tmp_path / "model"
    result = train_full(method, inputs, settings, NullReporter(), out=out)
    assert result["dev"] > 0.6
    assert evaluate_full(method, inputs, settings, NullReporter(), model=out) > 0.6
    assert contents(branch.root, branch.lower, branch.plot) == before


def test_a_dedicated_model_reads_which_of_two_texts_a_token_belongs_to(
    branch: Branch, tmp_path: Path
) -> None:
    root = branch.loaded
    encoded = root.tokenizer.encode("happy river", "river happy")
    split = TokenSplit([], [encoded, replace(encoded, types=np.zeros_like(encoded.types))], [])
    head = Head.initial(2, root.config.hidden, pooling="cls", generator=torch.Generator())
    model = FullModel(root.checkpoint_lower(), root.upper, Head(head.weight + 1, head.bias, "cls"), 0.0)
    tokens, mask = split.batch([0, 1])
    with torch.no_grad():
        pair, lone = model.eval()(root.upper, tokens, mask)
    assert not torch.allclose(pair, lone)
