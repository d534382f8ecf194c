"""What a PEFT export says of itself: the base, as many labels as its head has rows, and how to load it."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from inference.hplm.adapter_io.adapter_export import adapter_export
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.heads import Pooling
from inference.hplm.pets.spec import PetSpec
from inference.hplm.root import Root
from inference.text.tasks import Task
from tests.unit.families import published
from tests.unit.tiny import tiny_hplm

HUB_ID = "acme/tiny-bert"
CODE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def root_folder(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    root.save(folder)
    return folder


def exported(
    root: Root,
    root_folder: Path,
    folder: Path,
    task: Task,
    pooling: Pooling = "cls_mean",
    **payload: Any,
) -> tuple[Path, str]:
    """The folder of a tiny model's export, and the words for its README."""
    hplm = tiny_hplm(root, task, pooling=pooling, spec=PetSpec(lora=4, biases=True, norms=True))
    hplm.save(folder / "hplm", torch.float32)
    out = folder / "out"
    request = {"root": root_folder, "hplm": folder / "hplm", "out": out, "format": "peft", **payload}
    return out, adapter_export(request)["read"]


@pytest.mark.parametrize("form", ["peft", "adapterhub"])
def test_a_quick_version_is_refused(root: Root, root_folder: Path, tmp_path: Path, form: str) -> None:
    hplm = tiny_hplm(root, pooling="cut_last", spec=PetSpec())
    hplm.save(tmp_path / "hplm")
    request = {"root": root_folder, "hplm": tmp_path / "hplm", "out": tmp_path / "out", "format": form}
    assert "it is a quick version" in adapter_export(request)["refused"]


@pytest.mark.parametrize("form", ["peft", "adapterhub"])
@pytest.mark.parametrize("spec", [PetSpec(mask=0.2), PetSpec(diff=0.1, lora=2)])
def test_hidden_and_changed_weights_are_refused(
    root: Root, root_folder: Path, tmp_path: Path, form: str, spec: PetSpec
) -> None:
    tiny_hplm(root, spec=spec).save(tmp_path / "hplm")
    request = {"root": root_folder, "hplm": tmp_path / "hplm", "out": tmp_path / "out", "format": form}
    assert "it hides or changes single weights" in adapter_export(request)["refused"]


@pytest.mark.parametrize("pooling", ["cls", "cls_mean"])
@pytest.mark.parametrize("task", ["classification", "regression", "tagging"])
def test_the_labels_the_head_and_the_snippet_agree(
    root: Root, root_folder: Path, tmp_path: Path, task: Task, pooling: Pooling
) -> None:
    out, read = exported(root, root_folder, tmp_path, task, pooling, base=HUB_ID)
    config = json.loads((out / "config.json").read_text())
    weights = load_file(out / "adapter_model.safetensors")
    (rows,) = {len(value) for name, value in weights.items() if name.endswith("classifier.weight")}
    assert len(config["id2label"]) == len(config["label2id"]) == rows
    assert f"num_labels={rows})" in read
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == HUB_ID


def test_a_root_that_is_on_no_hub_is_named_as_it_is_here(
    root: Root, root_folder: Path, tmp_path: Path
) -> None:
    out, read = exported(root, root_folder, tmp_path, "classification", base="")
    base = json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert base
    assert f'"{base}"' in read


@pytest.mark.parametrize("task", ["classification", "question_answering"])
def test_the_snippets_are_python(root: Root, root_folder: Path, tmp_path: Path, task: Task) -> None:
    _, read = exported(root, root_folder, tmp_path, task)
    blocks = CODE.findall(read)
    assert len(blocks) == 2
    for block in blocks:
        ast.parse(block)


@pytest.mark.parametrize("form", ["peft", "adapterhub"])
def test_a_model_of_a_family_without_adapters_elsewhere_is_refused(tmp_path: Path, form: str) -> None:
    published(tmp_path / "checkpoint", "modernbert")
    root = Root.from_checkpoint(open_checkpoint(tmp_path / "checkpoint"), lower=2)
    root.save(tmp_path / "root")
    tiny_hplm(root, spec=PetSpec(lora=4)).save(tmp_path / "hplm")
    request = {"root": tmp_path / "root", "hplm": tmp_path / "hplm", "out": tmp_path / "out", "format": form}
    assert "this root is of modernbert" in adapter_export(request)["refused"]
