"""PEFT's folders of a decoder's LoRA: the same logits as a model with the merged update, and hostile ones."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.decoder.lora import DecoderLora
from inference.decoder.peft_lora import read_peft_lora, write_peft_lora
from inference.errors import HplmError
from inference.hplm.sequences import PackedSequences
from tests.unit.inference.decoder.loras import random_lora
from tests.unit.tiny_decoder import FAMILIES, LAYERS, tiny_decoder, tiny_decoder_model

IDS = torch.tensor([3, 7, 11, 250, 9, 4, 77])
PREFIX = "base_model.model."
QUERY = "model.layers.{}.self_attn.q_proj"
MODULES = {
    "gpt2": ["transformer.h.{}.attn.c_attn", "transformer.h.{}.attn.c_proj", "transformer.h.{}.mlp.c_fc"],
    "opt": ["model.decoder.layers.{}.self_attn.out_proj", "model.decoder.layers.{}.fc2"],
}
LLAMA_MODULES = [QUERY, "model.layers.{}.self_attn.v_proj", "model.layers.{}.mlp.down_proj"]


class Deltas:
    """The LoRA of all tokens, straight from its definition."""

    def __init__(self, lora: DecoderLora) -> None:
        self._tensors = lora.tensors

    def __call__(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        if (layer, projection) not in self._tensors:
            return outputs
        a, b = self._tensors[layer, projection]
        return outputs + inputs @ a @ b


def our_logits(decoder: Decoder, lora: DecoderLora) -> Tensor:
    layout = PackedSequences((len(IDS),))
    positions = torch.arange(len(IDS))
    with torch.no_grad():
        return decoder.forward(IDS, positions, DenseAttention(layout), Deltas(lora))


def merged_logits(family: str, folder: Path, scalings: Mapping[str, float]) -> Tensor:
    """The logits of transformers' model with B @ A * scaling added to the weights of the folder's modules."""
    model = tiny_decoder_model(family)
    tensors = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for name, a in tensors.items():
            if ".lora_A." not in name:
                continue
            module = name.removeprefix(PREFIX).removesuffix(".lora_A.weight")
            update = tensors[name.replace("lora_A", "lora_B")] @ a * scalings[module]
            weight = model.get_submodule(module).weight
            assert isinstance(weight, Tensor)
            weight += update.t() if family == "gpt2" else update
        logits: Tensor = model(input_ids=IDS[None]).logits[0]
    return logits


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


@pytest.mark.parametrize("rslora", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_an_imported_lora_computes_what_the_merged_model_computes(
    family: str, rslora: bool, tmp_path: Path
) -> None:
    names = MODULES.get(family, LLAMA_MODULES)
    modules = [name.format(layer) for layer in range(LAYERS) for name in names]
    ranks = {module: 2 if module == names[1].format(1) else 4 for module in modules}
    alphas = {module: 3 if ".2." in module else 8 for module in modules}
    tensors: dict[str, Tensor] = {}
    for module, rank in ranks.items():
        tensors |= pair(family, module, rank)
    folder = write(
        tmp_path / "adapter",
        tensors,
        use_rslora=rslora,
        rank_pattern={names[1].format(1): 2},
        alpha_pattern={r".*\.2\..*": 3},
    )
    decoder = tiny_decoder(family)
    found = read_peft_lora(folder, decoder.architecture)
    assert found.lora.lowest_layer == 0
    scalings = {
        module: alphas[module] / (math.sqrt(rank) if rslora else rank) for module, rank in ranks.items()
    }
    logits = merged_logits(family, folder, scalings)
    torch.testing.assert_close(our_logits(decoder, found.lora), logits, rtol=1e-3, atol=1e-3)
    assert not torch.allclose(logits, merged_logits(family, folder, dict.fromkeys(modules, 0.0)), atol=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_lora_computes_the_same_in_the_merged_model_and_when_read_back(
    family: str, tmp_path: Path
) -> None:
    decoder = tiny_decoder(family)
    architecture = decoder.architecture
    ranks = {(layer, name): 3 for layer in (1, 2) for name in architecture.projections}
    lora = random_lora(architecture, {**ranks, (2, "value"): 5, (0, "key"): 1}, seed=5)
    write_peft_lora(lora, architecture, "tiny", tmp_path / "out")
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    # As PEFT computes with the written config: alpha equals the rank everywhere.
    assert (config["alpha_pattern"], config["lora_alpha"]) == (config["rank_pattern"], config["r"])
    scalings = dict.fromkeys(config["target_modules"], 1.0)
    logits = our_logits(decoder, lora)
    torch.testing.assert_close(
        merged_logits(family, tmp_path / "out", scalings), logits, rtol=1e-3, atol=1e-3
    )
    back = read_peft_lora(tmp_path / "out", architecture).lora
    torch.testing.assert_close(our_logits(decoder, back), logits, rtol=1e-3, atol=1e-3)
    assert config["base_model_name_or_path"] == "tiny"


def test_a_pet_with_adapters_is_not_written_as_lora(tmp_path: Path) -> None:
    architecture = tiny_decoder().architecture
    lora = random_lora(architecture, {(1, "query"): 3, (2, "adapter"): 4})
    with pytest.raises(HplmError, match="bottleneck adapters") as caught:
        write_peft_lora(lora, architecture, "tiny", tmp_path / "out")
    assert caught.value.code == "invalid_archive"
    assert not (tmp_path / "out").exists()


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
        ({"rank_pattern": {"(a": 4}}, "rank_pattern: the pattern"),
        ({"rank_pattern": ["q_proj"]}, "rank_pattern must be an object"),
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
