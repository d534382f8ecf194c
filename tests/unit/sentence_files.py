"""What a folder of sentence-transformers has beside the checkpoint, as releases before 5.5 saved it."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.unit.tiny import HIDDEN

MODULES = "sentence_transformers.models"
WIDTH, LIMIT = 5, 32
PROMPTS = {"query": "query: ", "passage": ""}


def write_json(file: Path, value: object) -> None:
    """Write a JSON file, and its folder if there is none."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(value))


def modules(*types: str) -> list[dict[str, Any]]:
    """The entries of modules.json, in folders as the library names them."""
    names = [each.rpartition(".")[2] for each in types]
    return [
        {"idx": at, "name": str(at), "path": f"{at}_{name}" if at else "", "type": types[at]}
        for at, name in enumerate(names)
    ]


def add_sentence_files(folder: Path) -> None:
    """The mean, a dense layer, a norm, and two prompts, one of which is the default."""
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    write_json(folder / "modules.json", modules(*(f"{MODULES}.{kind}" for kind in kinds)))
    pooling = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, **pooling})
    tanh = "torch.nn.modules.activation.Tanh"
    dense = {"in_features": HIDDEN, "out_features": WIDTH, "bias": True, "activation_function": tanh}
    write_json(folder / "2_Dense" / "config.json", dense)
    weight = torch.linspace(-1, 1, WIDTH * HIDDEN).reshape(WIDTH, HIDDEN)
    weights = {"linear.weight": weight, "linear.bias": torch.linspace(0, 1, WIDTH)}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": LIMIT, "do_lower_case": False})
    prompts = {"prompts": PROMPTS, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", prompts)
