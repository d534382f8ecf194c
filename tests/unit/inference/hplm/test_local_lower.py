from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.errors import HplmError
from inference.hplm.compose import Composition
from inference.hplm.local_lower import JSON_FILE, WEIGHTS_FILE, LocalLower
from inference.hplm.root import Root
from tests.unit.tiny import tiny_mixer


def some_fragments(root: Root) -> torch.Tensor:
    missing = root.config.missing_id
    ids = [
        (5, 9, 12),
        (5, 9, missing),
        (missing, 9, 12),
        (missing, 9, missing),
        (40, 41, 42),
        (missing, 2, 9),
    ]
    return torch.tensor(ids)


def test_a_fragment_gives_the_same_row_alone_and_among_others(root: Root, lower: LocalLower) -> None:
    fragments = some_fragments(root)
    with torch.no_grad():
        together = lower(fragments)
        for at in range(len(fragments)):
            assert torch.allclose(lower(fragments[at : at + 1])[0], together[at], atol=1e-5)


def test_each_slot_is_mapped_by_its_level_from_its_own_state_or_else_the_centre(
    root: Root, lower: LocalLower
) -> None:
    fragments = some_fragments(root)
    with torch.no_grad():
        rows, states = lower(fragments), lower.states(fragments)
    present = fragments != root.config.missing_id
    for at, level in enumerate([0, 1, 2, 3, 0, 2]):
        for slot in range(3):
            state = states[at, slot if present[at, slot] else 1]
            expected = state @ lower.level_maps[level, slot] + lower.level_bias[level, slot]
            assert torch.allclose(rows[at, slot], expected, atol=1e-5)


def test_a_shorter_fragment_is_a_masked_text_in_which_every_token_keeps_its_place(
    root: Root, lower: LocalLower
) -> None:
    fragments = some_fragments(root)
    present = fragments != root.config.missing_id
    with torch.no_grad():
        masked = root.checkpoint_lower()(torch.where(present, fragments, 7), present)
        states = lower.states(fragments)
    assert torch.allclose(states[present], masked[present], atol=1e-5)
    centres = states[:, 1:2].expand(-1, 3, -1)
    assert torch.equal(states[~present], centres[~present])


def test_no_fragments_give_no_rows(root: Root, lower: LocalLower) -> None:
    assert lower(torch.zeros(0, 3, dtype=torch.int64)).shape == (0, 3, root.config.hidden)


def test_gradients_reach_the_maps_of_the_levels_that_occur(root: Root) -> None:
    lower = LocalLower.from_full(root.checkpoint_lower(), root.config).requires_grad_(True)
    lower(torch.tensor([[5, 9, 12], [root.config.missing_id, 9, 12]])).square().sum().backward()
    grad = lower.level_maps.grad
    assert grad is not None
    assert [bool(grad[level].abs().sum() > 0) for level in range(4)] == [True, False, True, False]


def test_starting_from_the_checkpoint_leaves_the_checkpoint_alone(root: Root) -> None:
    before = root.checkpoint_lower().word_embeddings.clone()
    lower = LocalLower.from_full(root.checkpoint_lower(), root.config)
    with torch.no_grad():
        lower.embeddings.words.weight.zero_()
    assert torch.equal(root.checkpoint_lower().word_embeddings, before)


def test_saved_lower_layers_are_loaded_unchanged(root: Root, lower: LocalLower, tmp_path: Path) -> None:
    lower.save(tmp_path, {"unexplained": 0.2})
    again = LocalLower.load(tmp_path)
    fragments = some_fragments(root)
    with torch.no_grad():
        assert torch.equal(again(fragments), lower(fragments))
    assert torch.equal(again.position_bias, lower.position_bias)
    assert not any(parameter.requires_grad for parameter in again.parameters())


def test_a_mixer_is_saved_with_its_lower_layers_whatever_its_size(lower: LocalLower, tmp_path: Path) -> None:
    lower.mixer = None
    lower.save(tmp_path / "without")
    assert LocalLower.load(tmp_path / "without").mixer is None
    lower.mixer = tiny_mixer(lower.architecture.hidden, width=64, inner=20)
    lower.save(tmp_path)
    again = LocalLower.load(tmp_path)
    assert again.mixer is not None
    for name, value in lower.composition.tensors().items():
        assert torch.equal(again.composition.tensors()[name], value)
    assert not any(parameter.requires_grad for parameter in again.parameters())


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("query.weight", (64, 31)),
        ("query.weight", (33, 32)),
        ("query.weight", (0, 32)),
        ("expand.weight", (32,)),
        ("expand.bias", (21,)),
        ("levels.weight", (2, 32)),
        ("convolution", None),
    ],
)
def test_a_mixer_that_contradicts_itself_or_the_layers_does_not_load(
    lower: LocalLower, tmp_path: Path, name: str, shape: tuple[int, ...] | None
) -> None:
    lower.mixer = tiny_mixer(lower.architecture.hidden, width=64, inner=20)
    lower.save(tmp_path)
    tensors = load_file(tmp_path / WEIGHTS_FILE)
    of_composition = lower.composition.tensors()
    for given in (tensors, of_composition):
        del given[f"mixer.{name}"]
        if shape is not None:
            given[f"mixer.{name}"] = torch.zeros(shape)
    with pytest.raises(HplmError) as caught:
        Composition.from_tensors(of_composition)
    assert caught.value.code == "corrupt_artifact"
    save_file(tensors, tmp_path / WEIGHTS_FILE)
    with pytest.raises(HplmError) as caught:
        LocalLower.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize("file", [JSON_FILE, WEIGHTS_FILE])
def test_lower_layers_that_lack_a_file_do_not_load(lower: LocalLower, tmp_path: Path, file: str) -> None:
    lower.save(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(HplmError, match=file) as caught:
        LocalLower.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"
