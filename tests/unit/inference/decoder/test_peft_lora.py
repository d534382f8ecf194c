"""PEFT's folders of a decoder's LoRA, written again and hostile. What they compute: tests/field."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from inference.decoder.peft_lora import read_peft_lora, write_peft_lora
from inference.errors import HplmError
from tests.unit.inference.decoder.loras import random_lora
from tests.unit.tiny_decoder import tiny_decoder, tiny_decoder_model

PREFIX = "base_model.model."
QUERY = "model.layers.{}.self_attn.q_proj"


def write(folder: Path, tensors: Mapping[str, Tensor], **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    fields = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, **config}
    (folder / "adapter_config.json").write_text(json.dumps(fields))
    save_file(
        {name: value.contiguous() for name, value in tensors.items()}, folder / "adapter_model.safetensors"
    )
    return folder


def pair(family: str, module: str, rank: int) -> dict[str, Tensor]:
    """Random factors for a module, as PEFT saves them."""
    weight = tiny_decoder_model(family).get_submodule(module).weight
    assert isinstance(weight, Tensor)
    inputs, outputs = weight.shape if family == "gpt2" else weight.shape[::-1]
    generator = torch.Generator().manual_seed(len(module) + rank)
    return {
        f"{PREFIX}{module}.lora_A.weight": torch.randn(rank, inputs, generator=generator) / 8,
        f"{PREFIX}{module}.lora_B.weight": torch.randn(outputs, rank, generator=generator) / 8,
    }


def test_a_pet_with_adapters_is_not_written_as_lora(tmp_path: Path) -> None:
    architecture = tiny_decoder().architecture
    lora = random_lora(architecture, {(1, "query"): 3, (2, "adapter"): 4})
    with pytest.raises(HplmError, match="bottleneck adapters") as caught:
        write_peft_lora(lora, architecture, "tiny", tmp_path / "out")
    assert caught.value.code == "invalid_archive"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_an_exported_lora_of_any_ranks_is_the_same_when_it_is_read_back(family: str, tmp_path: Path) -> None:
    architecture = tiny_decoder(family).architecture
    ranks = {(layer, name): 3 for layer in (1, 2) for name in architecture.projections if name != "up"}
    lora = random_lora(architecture, {**ranks, (2, "value"): 5, (0, "key"): 1}, seed=5)
    write_peft_lora(lora, architecture, "tiny", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    # As PEFT computes with the written config: alpha equals the rank everywhere.
    assert (config["alpha_pattern"], config["lora_alpha"]) == (config["rank_pattern"], config["r"])
    assert config["base_model_name_or_path"] == "tiny"
    back = read_peft_lora(tmp_path / "out", architecture).lora.tensors
    for place, (a, b) in back.items():
        expected = torch.mm(*lora.tensors[place]) if place in lora.tensors else torch.zeros(())
        torch.testing.assert_close(a @ b, expected.expand(a.shape[0], b.shape[1]), rtol=1e-4, atol=1e-5)
    assert lora.tensors.keys() <= back.keys()


def test_a_fused_module_with_one_update_stays_one_when_it_is_written_again(tmp_path: Path) -> None:
    module = "transformer.h.1.attn.c_attn"
    architecture = tiny_decoder("gpt2").architecture
    lora = read_peft_lora(write(tmp_path / "in", pair("gpt2", module, 4)), architecture).lora
    assert set(lora.tensors) == {(1, "query"), (1, "key"), (1, "value")}
    write_peft_lora(lora, architecture, "tiny", tmp_path / "out")
    again = load_file(tmp_path / "out" / "adapter_model.safetensors")
    assert again[f"{PREFIX}{module}.lora_A.weight"].shape == (4, architecture.hidden)


def test_a_folder_of_a_model_without_a_head_is_read_too(tmp_path: Path) -> None:
    tensors = {
        name.replace("model.model.", "model."): value
        for name, value in pair("llama", QUERY.format(2), 4).items()
    }
    assert all(name.startswith("base_model.model.layers.2.") for name in tensors)
    folder = write(tmp_path / "in", tensors, task_type=None)
    assert read_peft_lora(folder, tiny_decoder().architecture).lora.lowest_layer == 2


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'. Only LORA"),
        ({"task_type": "SEQ_CLS"}, "CAUSAL_LM"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
        ({"init_lora_weights": "pissa"}, "pissa"),
        ({"lora_bias": True}, "lora_bias"),
        ({"r": 3}, "lora_A and lora_B have shapes"),
        ({"r": 10**9}, "the rank is"),
        ({"r": True}, "the rank is"),
        ({"lora_alpha": 10**400}, "lora_alpha is 1000"),
        ({"alpha_pattern": {"q_proj": None}}, "lora_alpha is None"),
    ],
)
def test_a_config_that_is_no_plain_lora_is_refused(
    config: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "in", pair("llama", QUERY.format(0), 4), **config)
    refused(folder, reason)


def refused(folder: Path, reason: str) -> None:
    with pytest.raises(HplmError) as caught:
        read_peft_lora(folder, tiny_decoder().architecture)
    assert caught.value.code == "invalid_archive"
    assert reason in caught.value.message


GOOD = pair("llama", QUERY.format(0), 4)
A, B = sorted(GOOD)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({}, "no projection is changed"),
        ({A: GOOD[A]}, "q_proj.lora_B.weight is missing"),
        ({name.replace("layers.0", "layers.9"): value for name, value in GOOD.items()}, "3 layers"),
        (
            {name.replace("layers.0", "layers.00"): value for name, value in GOOD.items()},
            "is not a projection",
        ),
        ({**GOOD, f"{PREFIX}lm_head.weight": torch.ones(4, 4)}, "Only LoRA on linear layers"),
        ({**GOOD, A.replace("lora_A", "lora_magnitude_vector"): torch.ones(4)}, "Only LoRA on linear layers"),
        ({**GOOD, B: GOOD[B][:-1]}, "lora_A and lora_B have shapes"),
        ({**GOOD, B: torch.ones(4)}, "lora_A and lora_B have shapes"),
        ({**GOOD, A: torch.full_like(GOOD[A], math.nan)}, "NaN"),
        (
            {**GOOD, **{name.replace("model.model.", "model."): GOOD[name].clone() for name in GOOD}},
            "changed twice",
        ),
    ],
)
def test_tensors_that_are_no_lora_of_this_decoder_are_refused(
    tensors: dict[str, Tensor], reason: str, tmp_path: Path
) -> None:
    refused(write(tmp_path / "in", tensors), reason)


def test_damaged_and_missing_files_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", GOOD)
    whole = (folder / "adapter_model.safetensors").read_bytes()
    (folder / "adapter_model.safetensors").write_bytes(whole[:-9])
    refused(folder, "cannot be read as safetensors")
    (folder / "adapter_model.safetensors").unlink()
    refused(folder, "adapter_model.safetensors is missing")
    (folder / "adapter_config.json").write_text("[" * 100_000)
    refused(folder, "adapter_config.json")
    (folder / "adapter_config.json").unlink()
    refused(folder, "adapter_config.json is missing")
