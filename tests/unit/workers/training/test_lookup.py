"""States at the cut, kept on disk: a disk without room for them is told before any is made."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from inference.errors import HplmError
from inference.text.tokenization import Encoding
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import NullReporter
from workers.training.lower_states import LowerStates, compute_states
from workers.training.precision import configure_torch
from workers.training.prepared_split import Backbone


class NothingIsMade(NullReporter):
    """Fails the test as soon as states are being made."""

    def start_stage(self, name: str, total: int) -> None:
        raise AssertionError("it went on without room")


@pytest.fixture
def backbone(branch: Branch) -> Backbone:
    precision = configure_torch(device="cpu", precision="float32", seed=0)
    return Backbone.open(branch.root, [branch.plot], precision, branch.lower)


def made(backbone: Backbone, sequences: list[Encoding], folder: Path | None) -> LowerStates:
    return compute_states(sequences, backbone.lower_layers, "table", NullReporter(), folder)


def endless(tokens: int) -> Encoding:
    """A sequence that takes no memory, however long."""
    nothing = np.broadcast_to(np.int64(0), (tokens,))
    return Encoding(nothing, nothing, False, nothing, nothing, nothing)


def test_states_for_which_the_disk_has_no_room_are_told_and_take_none_of_it(
    backbone: Backbone, tmp_path: Path
) -> None:
    bytes_a_token = 2 * backbone.root.config.hidden
    too_many = endless(2 * shutil.disk_usage(tmp_path).free // bytes_a_token)
    with pytest.raises(HplmError) as caught:
        compute_states([too_many], backbone.lower_layers, "table", NothingIsMade(), tmp_path)
    assert caught.value.code == "out_of_disk"


def test_states_are_stored_in_the_given_folder_and_leave_nothing(
    backbone: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = [backbone.root.tokenizer.encode(text) for text in ("the river", "a stone in winter")]
    elsewhere = made(backbone, sequences, None)
    # Where temporary files usually lie there is no room for any.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    states = made(backbone, sequences, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert [len(states.sequence(number)) for number in range(2)] == [len(one) for one in sequences]
    assert torch.equal(torch.from_numpy(np.array(states.flat)), torch.from_numpy(np.array(elsewhere.flat)))
