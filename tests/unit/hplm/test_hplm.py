import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.hplm.errors import HplmError
from inference.hplm.hplm import CLASSIFICATION, JSON_FILE, TAGGING, WEIGHTS_FILE, Hplm, Task
from inference.hplm.root import Root
from tests.unit.tiny import tiny_hplm


@pytest.mark.parametrize("task", [CLASSIFICATION, TAGGING])
def test_what_is_saved_is_what_is_loaded(root: Root, tmp_path: Path, task: Task) -> None:
    hplm = tiny_hplm(root, task, adapter_size=5)
    hplm.save(tmp_path)
    again = Hplm.load(tmp_path)
    assert (again.task, again.labels, again.adapter.size) == (task, hplm.labels, 5)
    assert again.about["seed"] == 0
    for part, other in (
        (hplm.adapter.tensors(), again.adapter.tensors()),
        (hplm.head.tensors(), again.head.tensors()),
    ):
        assert all(torch.equal(part[name], other[name]) for name in part)


def test_the_file_beside_the_weights_says_what_they_are(root: Root, tmp_path: Path) -> None:
    tiny_hplm(root, TAGGING, labels=1, adapter_size=5).save(tmp_path)
    about = json.loads((tmp_path / JSON_FILE).read_text())
    assert about["labels"] == ["O", "B-tag0", "I-tag0"]
    assert (about["format"], about["task"], about["adapter_size"], about["dtype"]) == (
        1,
        TAGGING,
        5,
        "float32",
    )


def test_the_head_stays_in_single_precision(root: Root) -> None:
    moved = tiny_hplm(root).to("cpu", torch.bfloat16)
    assert moved.adapter.down_w.dtype == torch.bfloat16
    assert moved.head.weight.dtype == torch.float32


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 7},
        {"task": "summarisation"},
        {"labels": ["a"]},
        {"labels": ["a", "a", "b"]},
        {"labels": "abc"},
        {"labels": [1, 2, 3]},
    ],
)
def test_a_description_that_contradicts_the_weights_does_not_load(
    root: Root, tmp_path: Path, changes: dict[str, Any]
) -> None:
    tiny_hplm(root, labels=3).save(tmp_path)
    about = json.loads((tmp_path / JSON_FILE).read_text())
    (tmp_path / JSON_FILE).write_text(json.dumps({**about, **changes}))
    with pytest.raises(HplmError) as caught:
        Hplm.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize("name", ["adapter.down_w", "adapter.up_b", "head.weight"])
@pytest.mark.parametrize("damage", ["absent", "not a number"])
def test_damaged_weights_do_not_load(root: Root, tmp_path: Path, name: str, damage: str) -> None:
    tiny_hplm(root).save(tmp_path)
    weights = load_file(tmp_path / WEIGHTS_FILE)
    value = weights.pop(name)
    if damage == "not a number":
        weights[name] = value * torch.nan
    save_file(weights, tmp_path / WEIGHTS_FILE)
    with pytest.raises(HplmError) as caught:
        Hplm.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"


def test_an_hplm_that_was_never_there_does_not_load(tmp_path: Path) -> None:
    with pytest.raises(HplmError, match=JSON_FILE):
        Hplm.load(tmp_path / "nowhere")
