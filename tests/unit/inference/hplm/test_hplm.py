import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.errors import HplmError
from inference.hplm.hplm import WEIGHTS_FILE, Hplm
from inference.hplm.pets.packed import PackedPet
from inference.hplm.pets.spec import PetSpec
from inference.hplm.root import Root
from inference.text.outputs import HPLM_FILE
from inference.text.tasks import CLASSIFICATION, TAGGING, Task
from tests.unit.tiny import SPECS, tiny_hplm


@pytest.mark.parametrize("dtype", [torch.float16, None])
@pytest.mark.parametrize("task", [CLASSIFICATION, TAGGING])
def test_saved_hplm_is_loaded_unchanged(
    root: Root, tmp_path: Path, task: Task, dtype: torch.dtype | None
) -> None:
    hplm = tiny_hplm(root, task, spec=SPECS[1])
    hplm.save(tmp_path)
    again = Hplm.load(tmp_path, dtype=dtype)
    assert (again.task, again.labels, again.pet.spec) == (task, hplm.labels, SPECS[1])
    assert (again.pairs, again.threshold, again.head.pooling) == (False, 0.5, hplm.head.pooling)
    assert again.metadata["seed"] == 0
    assert all(torch.equal(again.pet.weights[name], value.half()) for name, value in hplm.pet.weights.items())
    head = again.head.tensors()
    assert all(torch.equal(head[name], value) for name, value in hplm.head.tensors().items())


def test_a_weight_too_large_for_half_precision_is_a_training_that_diverged(
    root: Root, tmp_path: Path
) -> None:
    hplm = tiny_hplm(root)
    hplm.pet.weights["adapter.up_w"].mul_(1e9)
    with pytest.raises(HplmError) as caught:
        hplm.save(tmp_path)
    assert caught.value.code == "training_diverged"


def test_the_head_stays_in_single_precision(root: Root) -> None:
    moved = tiny_hplm(root).to("cpu", torch.bfloat16)
    assert moved.pet.dtype == torch.bfloat16
    assert moved.head.weight.dtype == torch.float32


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 7},
        {"task": "summarisation"},
        {"labels": ["a"]},
        {"labels": ["a", "a", "b"]},
        {"labels": [1, 2, 3]},
        {"task": "regression"},
        {"pooling": "token"},
        {"pooling": "max"},
        {"pet": {"adapter": 9}},
        {"pet": {"adapter": 8, "wings": 2}},
        {"pet": {"adapter": 8.0}},
        {"shape": {"layers": 3, "hidden": 32, "inner": 64}},
        {"shape": {"layers": 0, "hidden": 32, "inner": 64}},
        {"threshold": 2},
    ],
)
def test_a_description_that_contradicts_the_weights_does_not_load(
    root: Root, tmp_path: Path, changes: dict[str, Any]
) -> None:
    tiny_hplm(root, labels=3).save(tmp_path)
    about = json.loads((tmp_path / HPLM_FILE).read_text())
    (tmp_path / HPLM_FILE).write_text(json.dumps({**about, **changes}))
    with pytest.raises(HplmError) as caught:
        Hplm.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize("spec", SPECS)
def test_a_model_that_an_earlier_version_stored_loads_as_well(
    root: Root, tmp_path: Path, spec: PetSpec
) -> None:
    hplm = tiny_hplm(root, spec=spec)
    hplm.save(tmp_path)
    stored = load_file(tmp_path / WEIGHTS_FILE)
    named = {f"pet.{name}": value.half().clone() for name, value in hplm.pet.weights.items()}
    head = {name: value for name, value in stored.items() if name.startswith("head.")}
    save_file(head | named, tmp_path / WEIGHTS_FILE)
    again = Hplm.load(tmp_path)
    assert again.pet.weights.keys() == hplm.pet.weights.keys()
    packed = PackedPet.of(Hplm.load(tmp_path, dtype=None).pet, torch.float32)
    hplm.save(tmp_path)
    now = PackedPet.of(Hplm.load(tmp_path, dtype=None).pet, torch.float32)
    assert torch.equal(packed.rows, now.rows)


def test_sizes_that_only_equal_whole_numbers_spoil_no_other_model(root: Root, tmp_path: Path) -> None:
    spec = PetSpec(adapter=7)
    tiny_hplm(root, spec=spec).save(tmp_path)
    about = json.loads((tmp_path / HPLM_FILE).read_text())
    shape = {name: float(size) for name, size in about["shape"].items()}
    (tmp_path / HPLM_FILE).write_text(json.dumps({**about, "shape": shape}))
    with pytest.raises(HplmError):
        Hplm.load(tmp_path)
    (tmp_path / HPLM_FILE).write_text(json.dumps(about))
    assert PackedPet.of(Hplm.load(tmp_path).pet, torch.float32).rows.shape[0] == 2


def test_a_pet_is_stored_in_one_way_only(root: Root, tmp_path: Path) -> None:
    tiny_hplm(root).save(tmp_path)
    weights = load_file(tmp_path / WEIGHTS_FILE)
    save_file({**weights, "pet.adapter.up_b": torch.zeros(2, 32)}, tmp_path / WEIGHTS_FILE)
    with pytest.raises(HplmError) as caught:
        Hplm.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize(
    ("name", "is_earlier"),
    [("pet.rows", False), ("head.weight", False), ("pet.adapter.down_w", True), ("pet.adapter.up_b", True)],
)
@pytest.mark.parametrize("damage", ["absent", "not a number", "cut"])
def test_damaged_weights_of_this_and_an_earlier_version_do_not_load(
    root: Root, tmp_path: Path, name: str, is_earlier: bool, damage: str
) -> None:
    hplm = tiny_hplm(root)
    hplm.save(tmp_path)
    weights = load_file(tmp_path / WEIGHTS_FILE)
    if is_earlier:
        del weights["pet.rows"]
        weights |= {f"pet.{part}": value.half().clone() for part, value in hplm.pet.weights.items()}
    value = weights.pop(name)
    if damage == "not a number":
        weights[name] = value * torch.nan
    if damage == "cut":
        weights[name] = value[:, 1:].clone()
    save_file(weights, tmp_path / WEIGHTS_FILE)
    with pytest.raises(HplmError) as caught:
        Hplm.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"
